package exec_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/env"
	"github.com/rye-build/rye/lock/file"
)

const enforce = "\nexec: {toolchain: enforce}\n"

// program puts a program on the machine, and has the probe start it.
func (w *world) program(name, text string) string {
	w.Helper()
	path := filepath.Join(w.dir, filepath.FromSlash(name))
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755),
		os.WriteFile(path, []byte(text), 0o755)); err != nil {
		w.Fatal(err)
	}
	w.probe.starts = func(map[string]any) []string { return []string{path} }
	return path
}

// pins is a lock that names programs.
func pins(all ...file.Program) func(string, cas.Digest) *file.Program {
	return func(name string, digest cas.Digest) *file.Program {
		for _, same := range []func(file.Program) bool{
			func(p file.Program) bool {
				return p.Digest == digest
			}, func(p file.Program) bool { return p.Name == name },
		} {
			if i := slices.IndexFunc(all, same); i >= 0 {
				return &all[i]
			}
		}
		return nil
	}
}

// TestToolchain: which programs are started is known, and where the policy says so they are those of the lock.
func TestToolchain(t *testing.T) {
	good := cas.Sum([]byte("good"))
	for name, c := range map[string]struct {
		policy string
		pins   []file.Program
		pinned bool
		want   cas.Digest // of a *ToolchainError; zero with refused for one that isn't pinned
		no     bool
	}{
		"record":                {},
		"record, pinned":        {pins: []file.Program{{Name: "program", Digest: good}}, pinned: true},
		"record, by its digest": {pins: []file.Program{{Name: "other", Digest: good}}, pinned: true},
		"enforce, by its digest": {policy: enforce, pins: []file.Program{{Name: "program", Digest: cas.Sum(nil)},
			{Name: "other", Digest: good}}, pinned: true},
		"record, another": {pins: []file.Program{{Name: "program", Digest: cas.Sum(nil)}}},
		"enforce, pinned": {policy: enforce, pins: []file.Program{{Name: "program", Digest: good}},
			pinned: true},
		"enforce, another": {policy: enforce, pins: []file.Program{{Name: "program", Digest: cas.Sum(nil)}},
			want: cas.Sum(nil), no: true},
		"enforce, not pinned": {policy: enforce, pins: []file.Program{{Name: "other", Digest: cas.Sum(nil)}},
			no: true},
		"enforce, without a lock": {policy: enforce, no: true},
	} {
		w := newWorld(t).with()
		w.policy = c.policy
		path := w.program("bin/program", "good")
		b := w.base()
		if c.pins != nil {
			b.Program = pins(c.pins...)
		}
		p, err := w.kernel.Prepare(t.Context(), b, call(x, nil))
		if c.no {
			code, want := fault.LockMismatch, c.want.String()
			if c.want.IsZero() {
				code, want = fault.NotLocked, ""
			}
			e := fault.Of(err)
			if e.Code != code || e.Details["expected"] != want || e.Details["found"] != good.String() ||
				e.Details["path"] != path || e.Details["program"] != "program" ||
				!strings.Contains(e.Text, `"tool:acme/x" needs the program "program"`) {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if len(p.Programs) != 1 || p.Programs[0].Digest != good || p.Programs[0].Pinned != c.pinned ||
			p.Programs[0].Path != path {
			t.Errorf("%s: %+v", name, p.Programs)
		}
		if q := p.Action.Programs[path]; q.Path != path || (q.File != nil) != (c.policy != "") {
			t.Errorf("%s: %+v", name, q)
		}
		r, err := p.Run(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := w.proved(r).Call.Toolchain; len(got) != 1 || got[0] != p.Programs[0] {
			t.Errorf("%s: the receipt has %+v", name, got)
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A disk does something when a file has been read.
type disk struct {
	env.Files
	path string
	then func()
}

func (d disk) Open(name string) (fs.File, error) {
	f, err := d.Files.Open(name)
	if name != d.path || err != nil {
		return f, err
	}
	return closing{f, d.then}, nil
}

type closing struct {
	fs.File
	then func()
}

func (c closing) Close() error {
	defer c.then()
	return c.File.Close()
}

// TestSwapped: a program that is another by the time it is opened isn't started.
func TestSwapped(t *testing.T) {
	w := newWorld(t).with()
	w.policy = enforce
	path := w.program("bin/program", "good")
	swap := func(text string) {
		if err := errors.Join(os.WriteFile(path+".new", []byte(text), 0o755),
			os.Rename(path+".new", path)); err != nil {
			t.Error(err)
		}
	}
	w.kernel.Host.Files = disk{env.Disk{}, path, func() { swap("evil") }}
	b := w.base()
	b.Program = pins(file.Program{Name: "program", Digest: cas.Sum([]byte("good"))})
	_, err := w.kernel.Prepare(t.Context(), b, call(x, nil))
	if e := fault.Of(err); e.Code != fault.LockMismatch || e.Details["expected"] != cas.Sum([]byte("good")).String() ||
		e.Details["found"] != cas.Sum([]byte("evil")).String() {
		t.Error(err)
	}
	swap("good")
	w.kernel.Host.Files = disk{env.Disk{}, path, func() { os.Remove(path) }}
	if _, err := w.kernel.Prepare(t.Context(), b, call(x, nil)); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}

	// One that is swapped after that is still open, and what was opened is what starts.
	swap("good")
	w.kernel.Host.Files = env.Disk{}
	p, err := w.kernel.Prepare(t.Context(), b, call(x, nil))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	swap("evil")
	var text [4]byte
	if _, err := p.Action.Programs[path].File.ReadAt(text[:], 0); err != nil || string(text[:]) != "good" {
		t.Errorf("%q would start (%v)", text, err)
	}
}

// TestMissingProgram: what isn't there is said before anything else is made.
func TestMissingProgram(t *testing.T) {
	w := newWorld(t).with()
	w.probe.starts = func(map[string]any) []string { return []string{filepath.Join(w.dir, "none")} }
	err := w.refused(call(x, nil))
	if _, ok := errors.AsType[*env.NotFoundError](err); !ok {
		t.Error(err)
	}
	if e := fault.Of(err); e.Code != fault.Failed || e.Details["ref"] != x ||
		!slices.Equal(e.Hint, []string{"rye doctor"}) {
		t.Errorf("%+v", e)
	}
}
