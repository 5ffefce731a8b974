//go:build unix

package create

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
)

// A swapper changes what stands in a bundle's directory while it is bundled: files for other good ones, for links out
// of it, for directories, for nothing; whole directories; and the place of the manifest.
type swapper struct {
	*world
	outside string
	states  map[string]map[cas.Digest]bool // what each file has ever been
	random  *rand.Rand
}

func newSwapper(w *world, seed uint64) *swapper {
	s := &swapper{world: w, outside: w.TempDir(), states: map[string]map[cas.Digest]bool{},
		random: rand.New(rand.NewPCG(seed, 1))}
	w.write("docs/deep/b.md", "deep\n")
	s.was(os.MkdirAll(filepath.Join(s.outside, "deep"), 0o755))
	for _, name := range []string{"a.md", "deep/b.md", "notes.md"} {
		s.was(os.WriteFile(filepath.Join(s.outside, filepath.FromSlash(name)), []byte("not the bundle's\n"), 0o644))
	}
	// Another signed version of an item, and another directory of assets.
	const notes = ".ai/knowledge/acme/deploy/notes.md"
	first := w.read(notes)
	w.write(notes, strings.Replace(knowledgeText, "0.1.0", "0.2.0", 1))
	w.signAll(alice, "knowledge:acme/deploy/notes")
	s.was(os.Rename(w.path(notes), w.path("second.md")))
	w.write(notes, first)
	w.write("docs.other/a.md", "about something else\n")
	w.write("docs.other/deep/b.md", "deeper\n")
	const tool = ".ai/tools/acme/deploy/"
	for to, from := range map[string][]string{
		notes: {notes, "second.md"}, "docs/a.md": {"docs/a.md", "docs.other/a.md"},
		"docs/deep/b.md": {"docs/deep/b.md", "docs.other/deep/b.md"},
		// These stay unchanged.
		".ai/directives/acme/deploy.md": nil, tool + "one.yaml": nil, tool + "run/run.py": nil,
		tool + "run/__init__.py": nil, tool + "run/lib/help.sh": nil,
	} {
		if from == nil {
			from = []string{to}
		}
		s.states[to] = map[cas.Digest]bool{}
		for _, name := range from {
			s.states[to][cas.Sum([]byte(w.read(name)))] = true
		}
	}
	// A directory was in the place of a file, and this was in it.
	s.states["docs/a.md/in.md"] = map[cas.Digest]bool{cas.Sum(nil): true}
	// This one is rewritten where it stands: it can be read at any length.
	s.states["docs/x.txt"] = map[cas.Digest]bool{}
	for n := range 40 {
		s.states["docs/x.txt"][cas.Sum([]byte(strings.Repeat("x", n)))] = true
	}
	w.write("docs/x.txt", "x")
	return s
}

func (s *swapper) was(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// exchange makes two names change places, with a moment at which the first is gone.
func (s *swapper) exchange(a, b string) {
	s.was(os.Rename(s.path(a), s.path("swapping")))
	s.was(os.Rename(s.path(b), s.path(a)))
	s.was(os.Rename(s.path("swapping"), s.path(b)))
}

// hide puts something else into the place of a name for a moment.
func (s *swapper) hide(name string, make func(at string) error) {
	s.was(os.Rename(s.path(name), s.path("hidden")))
	s.was(make(s.path(name)))
	s.was(os.RemoveAll(s.path(name)))
	s.was(os.Rename(s.path("hidden"), s.path(name)))
}

func (s *swapper) link(to string) func(string) error {
	return func(at string) error { return os.Symlink(filepath.Join(s.outside, filepath.FromSlash(to)), at) }
}

// step is one change, and all that has been hidden is back at its end.
func (s *swapper) step() {
	switch s.random.IntN(9) {
	case 0:
		s.exchange(".ai/knowledge/acme/deploy/notes.md", "second.md")
	case 1:
		s.exchange("docs/a.md", "docs.other/a.md")
	case 2:
		s.exchange("docs/deep", "docs.other/deep")
	case 3:
		s.hide("docs/a.md", s.link("a.md"))
	case 4:
		s.hide("docs/deep", s.link("deep"))
	case 5:
		s.hide(".ai/knowledge/acme/deploy/notes.md", s.link("notes.md"))
	case 6:
		s.hide("docs/a.md", func(at string) error {
			return errors.Join(os.Mkdir(at, 0o755), os.WriteFile(at+"/in.md", nil, 0o644))
		})
	case 7:
		s.was(os.WriteFile(s.path("docs/x.txt"), []byte(strings.Repeat("x", s.random.IntN(40))), 0o644))
	case 8:
		// Another process may create the manifest's directory meanwhile.
		if os.Rename(s.path(".ai/bundles"), s.path("bundles")) == nil {
			os.RemoveAll(s.path(".ai/bundles")) // a file may come into it meanwhile
			if os.Symlink(s.outside, s.path(".ai/bundles")) == nil {
				s.was(os.Remove(s.path(".ai/bundles")))
			}
			// It may be made again between the two.
			for os.Rename(s.path("bundles"), s.path(".ai/bundles")) != nil {
				os.RemoveAll(s.path(".ai/bundles"))
			}
		}
	}
}

// made looks at a bundle that was made meanwhile: it verifies, and everything in it has once been there.
func (s *swapper) made(r *Result) {
	s.Helper()
	o := bundle.VerifyOptions{Trust: s.o.Trust, Below: s.o.Below}
	report, err := bundle.Verify(s.Context(), bundle.Given(&r.Bundle, s.o.Store), o)
	if err != nil || !report.OK() {
		s.Errorf("%v, %v", report.Failures, err)
	}
	for _, f := range r.Bundle.Files {
		if !s.states[f.Path][f.Digest] {
			s.Errorf("%s has never been %s", f.Path, f.Digest)
		}
	}
}

// A file that is exchanged while the bundle is made is in it as it was at some moment, or the bundle is refused; and
// when all is quiet again, nothing that was remembered meanwhile is in the way of what is there now.
func TestCreateWhileFilesAreSwapped(t *testing.T) {
	for _, remembers := range []bool{false, true} {
		t.Run(fmt.Sprintf("remembers %v", remembers), func(t *testing.T) {
			w := newWorld(t)
			if remembers {
				w.remember()
			}
			s := newSwapper(w, 7)
			w.create()
			made, refused := 0, 0
			for range 4 {
				stop, wait := make(chan struct{}), sync.WaitGroup{}
				wait.Go(func() {
					for {
						select {
						case <-stop:
							return
						default:
							s.step()
						}
					}
				})
				for i := 0; i < 25 || i < 400 && (made == 0 || refused == 0); i++ {
					r, err := Create(t.Context(), w.o)
					if err == nil {
						made++
						s.made(r)
						continue
					}
					refused++
					_, bad := errors.AsType[*RefusedError](err)
					changed := fault.CodeOf(err) == fault.Conflict
					// of what isn't there, or is something else, just then
					_, system := errors.AsType[syscall.Errno](err)
					_, path := errors.AsType[*fs.PathError](err) // or is a link that leads out
					_, link := errors.AsType[*os.LinkError](err)
					if !bad && !changed && !system && !path && !link {
						t.Errorf("refused with %T: %v", err, err)
					}
				}
				close(stop)
				wait.Wait()
				s.made(w.create())
				// other items stand in the project
				o := bundle.VerifyOptions{Trust: w.o.Trust, Below: w.o.Below, AllowExtra: true}
				if report, err := bundle.Verify(t.Context(), bundle.InDir(w.dir, "acme/deploy"), o); err != nil ||
					!report.OK() {
					t.Fatalf("when all was quiet: %v, %v", report.Failures, err)
				}
			}
			if made == 0 || refused == 0 {
				t.Errorf("%d were made meanwhile, %d refused", made, refused)
			}
			t.Logf("%d were made meanwhile, %d refused", made, refused)
			if _, err := os.Stat(filepath.Join(s.outside, "acme")); err == nil {
				t.Error("a manifest was written outside")
			}
		})
	}
}
