package recall_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/cas/statcache"
	"github.com/rye-build/rye/lock/recall"
	"github.com/rye-build/rye/manifest/admission"
)

// A project with an answer, whose files were written long ago by its own clock.
type project struct {
	t        *testing.T
	dir, own string
	ahead    time.Duration

	files, read int64 // that were looked at last
}

func newProject(t *testing.T) *project {
	p := &project{t: t, dir: t.TempDir(), own: t.TempDir(), ahead: time.Minute}
	for name, text := range map[string]string{"rye.yaml": "a", "rye.lock": "b", ".ai/tools/a.py": "one",
		".ai/tools/b.py": "two", ".ai/vendor/v": "v", "src/x": "x"} {
		p.write(name, text)
	}
	return p
}

func (p *project) at(name string) string { return filepath.Join(p.dir, filepath.FromSlash(name)) }

func (p *project) must(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

func (p *project) write(name, text string) {
	p.must(os.MkdirAll(filepath.Dir(p.at(name)), 0o755))
	p.must(os.WriteFile(p.at(name), []byte(text), 0o644))
}

func (p *project) ask() *recall.Question {
	clock := statcache.NewClock()
	return &recall.Question{
		Trees: []recall.Tree{{Dir: p.dir}, {Dir: filepath.Join(p.own, "none"), Space: true}},
		Trust: &admission.Trust{Now: time.Now()}, File: filepath.Join(p.own, "found"), Under: "test",
		Cache: func() (*statcache.Cache, func(files, read int64)) {
			c := statcache.Open(filepath.Join(p.own, "stat.db"), statcache.Options{Now: func() statcache.Moment {
				m := clock()
				m.Wall, m.Up = m.Wall+int64(p.ahead), m.Up+int64(p.ahead)
				return m
			}})
			return c, func(files, read int64) {
				p.files, p.read = files, read
				c.Close(p.t.Context())
			}
		},
	}
}

// recalled reports whether there is an answer, and has it found if there is none.
func (p *project) recalled() bool {
	p.t.Helper()
	q := p.ask()
	b, ok := q.Recall(p.t.Context())
	if ok && string(b) != "yes" {
		p.t.Fatalf("the answer is %q", b)
	}
	if !ok {
		q.Keep(p.t.Context(), []byte("yes"))
	}
	return ok
}

// An answer is given again until anything changes that it depends on, however well the change is hidden.
func TestRecall(t *testing.T) {
	for name, c := range map[string]struct {
		change func(p *project)
		same   bool
	}{
		"nothing":            {func(*project) {}, true},
		"the vendored":       {func(p *project) { p.write(".ai/vendor/v", "w") }, true},
		"other files":        {func(p *project) { p.write("src/x", "y"); p.write("README", "") }, true},
		"an item":            {func(p *project) { p.write(".ai/tools/a.py", "onetwo") }, false},
		"as many bytes":      {func(p *project) { p.write(".ai/tools/a.py", "eno") }, false},
		"rye.yaml":           {func(p *project) { p.write("rye.yaml", "c") }, false},
		"rye.lock":           {func(p *project) { p.write("rye.lock", "c") }, false},
		"a new file":         {func(p *project) { p.write(".ai/knowledge/k.md", "k") }, false},
		"a large file":       {func(p *project) { p.write(".ai/tools/big", strings.Repeat("x", 1<<20)) }, false},
		"a file is gone":     {func(p *project) { p.must(os.Remove(p.at(".ai/tools/b.py"))) }, false},
		"an empty directory": {func(p *project) { p.must(os.Mkdir(p.at(".ai/Tools"), 0o755)) }, false},
		"a mode":             {func(p *project) { p.must(os.Chmod(p.at(".ai/tools/a.py"), 0o755)) }, false},
		"two files are swapped": {func(p *project) {
			p.must(os.Rename(p.at(".ai/tools/a.py"), p.at("src/a")))
			p.must(os.Rename(p.at(".ai/tools/b.py"), p.at(".ai/tools/a.py")))
			p.must(os.Rename(p.at("src/a"), p.at(".ai/tools/b.py")))
		}, false},
		"as many bytes with the old time": {func(p *project) {
			fi, err := os.Stat(p.at(".ai/tools/a.py"))
			p.must(err)
			p.write(".ai/tools/a.py", "eno")
			p.must(os.Chtimes(p.at(".ai/tools/a.py"), fi.ModTime(), fi.ModTime()))
		}, false},
		"another file in its place": {func(p *project) {
			fi, err := os.Stat(p.at(".ai/tools/a.py"))
			p.must(err)
			p.write("src/a", "eno")
			p.must(os.Chtimes(p.at("src/a"), fi.ModTime(), fi.ModTime()))
			p.must(os.Rename(p.at("src/a"), p.at(".ai/tools/a.py")))
		}, false},
		"a link to the same bytes": {func(p *project) {
			p.must(os.Rename(p.at(".ai/tools/a.py"), p.at("src/a")))
			p.must(os.Symlink("../../src/a", p.at(".ai/tools/a.py")))
		}, false},
		"a link to the same directory": {func(p *project) {
			p.must(os.Rename(p.at(".ai/tools"), p.at("tools")))
			p.must(os.Symlink("../tools", p.at(".ai/tools")))
		}, false},
		"the user's space": {func(p *project) { p.must(os.Mkdir(filepath.Join(p.own, "none"), 0o755)) }, false},
		"a damaged answer": {func(p *project) {
			p.must(os.WriteFile(filepath.Join(p.own, "found"), []byte("rye found good 2\n\n\nyes\n"), 0o600))
		}, false},
		"no answer": {func(p *project) { p.must(os.Remove(filepath.Join(p.own, "found"))) }, false},
		"a damaged stat cache": {func(p *project) {
			p.must(os.WriteFile(filepath.Join(p.own, "stat.db"), []byte("x"), 0o600))
		}, true},
	} {
		p := newProject(t)
		if p.recalled() || !p.recalled() {
			t.Fatalf("%s: the answer is there too early, or isn't kept", name)
		}
		c.change(p)
		if got := p.recalled(); got != c.same {
			t.Errorf("%s: recalled %v", name, got)
		}
	}
}

// A file that was written a moment ago may be written again without another stamp, so that it is read each time.
func TestRacy(t *testing.T) {
	p := newProject(t)
	p.ahead = 0
	for _, text := range []string{"one", "eno", "neo", "oen", "noe"} {
		p.write(".ai/tools/a.py", text)
		if p.recalled() || !p.recalled() {
			t.Fatalf("%s: not told from what was there before", text)
		}
	}
}

// What was found while something changed is no answer.
func TestChangedMeanwhile(t *testing.T) {
	p := newProject(t)
	q := p.ask()
	if _, ok := q.Recall(t.Context()); ok {
		t.Fatal("there is an answer")
	}
	p.write(".ai/tools/a.py", "eno")
	q.Keep(t.Context(), []byte("yes"))
	p.write(".ai/tools/a.py", "one")
	if p.recalled() {
		t.Error("an answer about other bytes is given")
	}
}

// An answer is about what it was asked under.
func TestUnder(t *testing.T) {
	p := newProject(t)
	p.recalled()
	q := p.ask()
	q.Under = "another rye"
	if _, ok := q.Recall(t.Context()); ok {
		t.Error("the answer of another binary is given")
	}
}

// Where nothing was kept nothing need be read, and what is expected is no answer.
func TestExpect(t *testing.T) {
	p := newProject(t)
	if p.ask().Known() {
		t.Error("an answer is known before there is one")
	}
	p.ask().Expect()
	if q := p.ask(); !q.Known() || p.recalled() {
		t.Error("an answer that is expected isn't asked for, or given")
	}
	if !p.recalled() {
		t.Error("the answer that was expected is not kept")
	}
}
