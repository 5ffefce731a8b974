package closure_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/fstest"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/lock/closure"
)

// kit is a tool with other files, one of them larger than what is read at once.
func kit() *world {
	return one(files{
		"tools/acme/kit/__init__.py": "",
		"tools/acme/kit/a.py":        pyTool("acme/kit/a", python),
		"tools/acme/kit/b.py":        pyTool("acme/kit/b", python),
		"tools/acme/kit/big.bin":     strings.Repeat("0123456789abcdef", 1<<15),
		"tools/acme/kit/lib/run.sh":  "#!/bin/sh\necho\n",
		"tools/acme/kit/lib.txt":     "beside lib/",
		"tools/acme/rt/rt.yaml":      tool("acme/rt/rt", start, "anchor: {enabled: true, mode: never, lib: lib/x}"),
		"tools/acme/rt/other.yaml":   tool("acme/rt/other", "acme/rt/rt"),
		"tools/acme/rt/lib/x/m.py":   "X = 1\n",
		"tools/acme/rt/lib/y/no.py":  "Y = 1\n",
	})
}

func TestFiles(t *testing.T) {
	b := kit().build(t)
	c, store := b.close()
	for _, tc := range []struct{ ref, want string }{
		{"tool:acme/kit/a",
			"tools/acme/kit/__init__.py file, tools/acme/kit/a.py file, tools/acme/kit/b.py file, tools/acme/kit/big.bin file, tools/acme/kit/lib/run.sh exec, tools/acme/kit/lib.txt file"},
		{"tool:acme/rt/rt", "tools/acme/rt/lib/x/m.py file, tools/acme/rt/rt.yaml file"},
		{"tool:acme/rt/other", ""},
	} {
		var got []string
		for _, p := range c.Pins {
			if p.Ref != ref(tc.ref) || p.Files.IsZero() {
				continue
			}
			err := cas.Walk(t.Context(), store, cas.ID{Kind: cas.TreeKind, Digest: p.Files},
				func(path string, e cas.Entry) error {
					if e.Mode != cas.Dir {
						got = append(got, path+" "+e.Mode.String())
						if data := b.spaces["project"].FS.(fstest.MapFS)[path].Data; cas.Sum(data) != e.Digest ||
							int64(len(data)) != e.Size {
							t.Errorf("%s is another file", path)
						}
						readAll(t, store, e.ID())
					}
					return nil
				})
			if err != nil {
				t.Fatal(err)
			}
		}
		if strings.Join(got, ", ") != tc.want {
			t.Errorf("%s has %q", tc.ref, got)
		}
	}
}

// A space whose files change after so many were opened.
type changing struct {
	fstest.MapFS
	opened atomic.Int64
	after  int64
	name   string
	to     *fstest.MapFile // nil: it is gone
}

func (c *changing) Open(name string) (fs.File, error) {
	if name == c.name && c.opened.Add(1) > c.after {
		if c.to == nil {
			return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
		}
		return fstest.MapFS{name: c.to}.Open(name)
	}
	return c.MapFS.Open(name)
}

// A file that changes between being hashed and being put gives no pin.
func TestChanging(t *testing.T) {
	for _, tc := range []struct {
		name, path string
		to         *fstest.MapFile
		want       error // nil: that it changed
	}{
		{"a helper", "tools/acme/kit/lib.txt", &fstest.MapFile{Data: []byte("changed")}, nil},
		{"a helper that grows", "tools/acme/kit/lib.txt", &fstest.MapFile{Data: []byte("beside lib/ and more")}, nil},
		{"a large helper", "tools/acme/kit/big.bin", &fstest.MapFile{Data: []byte("changed")}, nil},
		{"a helper that goes", "tools/acme/kit/lib.txt", nil, fs.ErrNotExist},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := kit().build(t)
			plain := b.spaces["project"].FS.(fstest.MapFS)
			for _, keep := range []bool{true, false} {
				for after := int64(1); ; after++ { // it changes when it was opened so often
					c := &changing{MapFS: plain, name: tc.path, after: after, to: tc.to}
					b.spaces["project"].FS = c
					b.look()
					c.opened.Store(0)
					o := b.options(batch(t))
					if o.Roots = rootsOf(t, "tool:acme/kit/a"); !keep { // or two tools look at it, each for itself
						o.Roots = rootsOf(t, "tool:acme/kit/*")
						o.Admit = ai.NewAdmitter(b.view, b.trust)
					}
					found, err := closure.Close(t.Context(), o)
					if c.opened.Load() <= after {
						if after < 2 || err != nil {
							t.Errorf("opened %d times: %v", c.opened.Load(), err)
						}
						break
					}
					if err == nil {
						t.Fatalf("changed after %d times: %+v", after, found.Pins)
					}
					ok := errors.Is(err, tc.want)
					if tc.want == nil {
						ok = strings.Contains(err.Error(), "changed while it was read")
					}
					if keep && !ok {
						t.Errorf("changed after %d times: %v", after, err)
					}
				}
			}
		})
	}
}

func batch(t testing.TB) cas.Batch {
	t.Helper()
	b, err := new(cas.Memory).Batch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

// A full store has room for so many objects.
type full struct {
	closure.Store
	left  atomic.Int64
	trees bool // alone count
}

var errFull = errors.New("no space left")

func (f *full) Put(ctx context.Context, kind cas.Kind, r io.Reader) (cas.Info, error) {
	if !f.trees && f.left.Add(-1) < 0 {
		return cas.Info{}, errFull
	}
	return f.Store.Put(ctx, kind, r)
}

func (f *full) PutBytes(ctx context.Context, kind cas.Kind, b []byte) (cas.Digest, error) {
	if f.trees == (kind == cas.TreeKind) && f.left.Add(-1) < 0 {
		return cas.Digest{}, errFull
	}
	return f.Store.PutBytes(ctx, kind, b)
}

// What the store says is no item's fault.
func TestFullStore(t *testing.T) {
	b := kit().build(t)
	for _, trees := range []bool{false, true} {
		failed := 0
		for room := int64(0); ; room++ {
			f := &full{Store: batch(t), trees: trees}
			f.left.Store(room)
			_, err := closure.Close(t.Context(), b.options(f))
			if err == nil {
				break
			}
			if failed++; err != errFull {
				t.Errorf("room for %d: %v", room, err)
			}
		}
		if failed < 5 {
			t.Errorf("failed %d times", failed)
		}
	}
	if _, err := closure.Close(t.Context(), b.options(lying{batch(t)})); err == nil ||
		!strings.HasPrefix(err.Error(), "the store calls blake3:") {
		t.Errorf("of a store that names other digests: %v", err)
	}
}

// A lying store says that it has put something else.
type lying struct{ closure.Store }

func (l lying) PutBytes(context.Context, cas.Kind, []byte) (cas.Digest, error) {
	return cas.Digest{1}, nil
}

// On disk, modes are those of the disk, or what the space says.
func TestOnDisk(t *testing.T) {
	w := kit()
	w.spaces["project"]["tools/acme/hello.sh"] = shTool("acme/hello")
	b := w.build(t)
	want, _ := b.close()
	dir := filepath.Join(t.TempDir(), ".ai")
	for name, f := range b.spaces["project"].FS.(fstest.MapFS) {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, f.Data, f.Mode); err != nil {
			t.Fatal(err)
		}
	}
	for _, bits := range []bool{true, false} {
		s, err := ai.OpenDir(dir, "project", ai.Project)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if !bits { // as where files have no such bit
			s.Exec = func(name string, info fs.FileInfo) bool {
				return strings.HasSuffix(name, ".sh") && info.Name() != ""
			}
		}
		b.spaces["project"] = s
		b.look()
		c, _ := b.close()
		for i, p := range c.Pins {
			if p.Digest != want.Pins[i].Digest || p.Mode != want.Pins[i].Mode || p.Files != want.Pins[i].Files {
				t.Errorf("%+v was %+v", p, want.Pins[i])
			}
		}
		if err := os.Chmod(filepath.Join(dir, "tools/acme/kit/b.py"), 0o755); err != nil {
			t.Fatal(err)
		}
		_, err = closure.Close(t.Context(), b.options(nil))
		if _, ok := err.(*closure.Error); ok != bits { // the tree of a.py is another one
			t.Errorf("with another mode: %v", err)
		}
		if err := os.Chmod(filepath.Join(dir, "tools/acme/kit/b.py"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
