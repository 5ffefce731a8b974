package restore_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/lock/file"
	"github.com/rye-build/rye/lock/restore"
	"github.com/rye-build/rye/lock/vendor"
	"github.com/rye-build/rye/lock/workspace/projecttest"
)

// A lost project is one whose lock has more files than are synced one by one, of directories that are not there.
type lost struct {
	*projecttest.Project
	pins  []file.Pin
	texts map[string]string // by paths below .ai
}

// lose makes a project that has its objects in .ai/vendor, and not in the store.
func lose(t *testing.T) *lost {
	p := &lost{vendored(t), nil, map[string]string{}}
	l := p.Lock()
	batch, err := l.DiskStore().Batch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer batch.Close()
	var objects []vendor.Object
	for i := range 60 {
		text := fmt.Sprintf("# File %d\n", i)
		switch i {
		case 10, 11:
			text = "# The same\n"
		case 12, 13:
			text = strings.Repeat("# Large\n", 10_000)
		}
		ref := model.Ref{Kind: "knowledge", ID: fmt.Sprintf("many/%d/%d/x%d", i%3, i%11, i)}
		pin := file.Pin{Ref: ref, From: file.FromProject, Path: ref.Kind + "/" + ref.ID + ".md",
			Size: int64(len(text)), Mode: cas.File}
		if i%4 == 0 {
			pin.Mode = cas.Exec
		}
		if pin.Digest, err = batch.PutBytes(t.Context(), cas.Blob, []byte(text)); err != nil {
			t.Fatal(err)
		}
		objects = append(objects, vendor.Object{ID: cas.ID{Kind: cas.Blob, Digest: pin.Digest}, Size: pin.Size})
		p.pins, p.texts[pin.Path] = append(p.pins, pin), text
	}
	if err := batch.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := vendor.Write(t.Context(), l.VendorDir(), objects, l.DiskStore()); err != nil {
		t.Fatal(err)
	}
	l.Close()
	p.ForgetStore()
	return p
}

func (p *lost) restore(ctx context.Context) (*restore.RestoreResult, error) {
	return restore.Restore(ctx, p.Unopened(), p.pins, false)
}

// has checks that each file is whole or isn't there, and that nothing half-written is left, and returns how many there
// are.
func (p *lost) has(t *testing.T) (n int) {
	t.Helper()
	err := filepath.WalkDir(p.At(".ai"), func(name string, d fs.DirEntry, err error) error {
		if strings.HasPrefix(d.Name(), ".rye-tmp-") {
			t.Errorf("%s is left", name)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	for _, pin := range p.pins {
		fi, err := os.Lstat(p.At(path.Join(".ai", pin.Path)))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		n++
		if err != nil || p.Read(path.Join(".ai", pin.Path)) != p.texts[pin.Path] ||
			(fi.Mode().Perm() == 0o755) != (pin.Mode == cas.Exec) {
			t.Errorf("%s: %v, %v", pin.Path, fi, err)
		}
	}
	return n
}

// A directory that is missing comes back whole, from wherever its files are.
func TestRestoreWhole(t *testing.T) {
	p := lose(t)
	first := path.Join(".ai", p.pins[0].Path)
	for _, gone := range []string{".ai/knowledge", ".ai/knowledge/many", ".ai/knowledge/many/1",
		".ai/knowledge/many/2/5", first} {
		p.Remove(gone)
		want := len(p.pins) - p.has(t)
		r, err := p.restore(t.Context())
		if err != nil || len(r.Files) != want || p.has(t) != len(p.pins) {
			t.Errorf("%s: %v; %d files are back, want %d", gone, err, len(r.Files), want)
		}
	}
}

// As long as one file is nowhere, none comes back; the store may have what .ai/vendor has no more.
func TestRestoreWholeOrNone(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(pack string) string
		is    func(error) bool
	}{
		"damaged": {
			func(pack string) string { return strings.Replace(pack, "# File 7\\n", "# File 9\\n", 1) },
			func(err error) bool { return errors.Is(err, cas.ErrDamaged) },
		},
		"missing": {
			func(pack string) string { return pack[:strings.LastIndexByte(pack[:len(pack)-1], '\n')+1] },
			func(err error) bool { return fault.CodeOf(err) == fault.NotFound },
		},
	} {
		p := lose(t)
		whole := p.Read(pack)
		p.Remove(".ai/knowledge")
		p.Write(pack, c.spoil(whole))
		r, err := p.restore(t.Context())
		if !c.is(err) || r != nil && len(r.Files) > 0 || p.has(t) > 0 {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
		if hint := fault.Of(err).Hint; len(hint) == 0 || !strings.HasPrefix(hint[0], "git ") ||
			strings.Count(hint[0], ".md") > 1 {
			t.Errorf("%s: the hint is %q", name, hint)
		}
		s := p.Lock().DiskStore()
		for _, text := range p.texts {
			if _, err := s.Put(t.Context(), cas.Blob, strings.NewReader(text)); err != nil {
				t.Fatal(err)
			}
		}
		if r, err := p.restore(t.Context()); err != nil || len(r.Files) != len(p.pins) || p.has(t) != len(p.pins) {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
}

// Interrupted at whatever moment, it leaves whole files and nothing else, and goes through the next time.
func TestRestoreWholeInterrupted(t *testing.T) {
	p := lose(t)
	ended := 0
	for n := 0; ; n += 1 + n/8 {
		p.Remove(".ai/knowledge/many")
		p.Write(".ai/knowledge/many/0/mine.md", "# Mine\n")
		r, err := p.restore(newCountdown(t, n))
		if err == nil {
			break
		}
		ended++
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("step %d: %v", n, err)
		}
		if placed := p.has(t); r != nil && placed != len(r.Files) {
			t.Errorf("step %d: %d files are there, %d are told", n, placed, len(r.Files))
		}
		if _, err := p.restore(t.Context()); err != nil || p.has(t) != len(p.pins) {
			t.Fatalf("after step %d: %v", n, err)
		}
	}
	if p.has(t) != len(p.pins) || ended < 3 {
		t.Errorf("%d times interrupted, %d files", ended, p.has(t))
	}
}
