//go:build peers

package vendor

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rye-build/rye/cas"
)

// A repo is a git repository with a vendor directory.
type repo struct {
	*world
	top string
}

func newRepo(t *testing.T, w *world) *repo {
	r := &repo{w, t.TempDir()}
	w.dir = filepath.Join(r.top, "vendor")
	r.git("init", "-q", "-b", "main")
	return r
}

// run runs git without anybody's configuration.
func (r *repo) run(args ...string) (string, error) {
	cmd := exec.Command("git", args...)
	cmd.Dir = r.top
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a",
		"GIT_COMMITTER_EMAIL=a@example.com")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (r *repo) git(args ...string) {
	r.t.Helper()
	if out, err := r.run(args...); err != nil {
		r.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
}

func (r *repo) commit(objects []Object) {
	r.t.Helper()
	r.objects = objects
	r.write()
	r.git("add", "-A")
	r.git("commit", "-q", "--allow-empty", "-m", "vendor")
}

// someOf returns most of the objects that stand before a place, and some of those that stand in a part behind it.
func someOf(rnd *rand.Rand, all []Object, at, part int) []Object {
	out := rnd.IntN(4)
	objects := slices.Clone(all[:at])
	for range out {
		i := rnd.IntN(len(objects))
		objects = slices.Delete(objects, i, i+1)
	}
	return append(objects, all[at+10*part:at+10*part+1+rnd.IntN(10)]...)
}

// TestMerges lets two branches add and take away objects, and git merge them: there is no conflict, everything that
// both have is there, and so is what one has added; and Check says what is left to do.
func TestMerges(t *testing.T) {
	for _, n := range []int{0, 12, 60, 500} {
		for _, style := range []string{"merge", "diff3"} {
			t.Run(fmt.Sprint(n, style), func(t *testing.T) {
				t.Parallel()
				rnd := rand.New(rand.NewPCG(uint64(n), 1))
				w := many(t, n+20, 3000)
				all := w.objects
				r := newRepo(t, w)
				r.git("config", "merge.conflictStyle", style)
				if n == 0 {
					r.git("commit", "-q", "--allow-empty", "-m", "nothing")
				} else {
					r.commit(all[:n])
				}
				for round := range 5 {
					var sides [2][]Object
					for i := range sides {
						r.git("checkout", "-q", "-f", "-B", fmt.Sprint("side", i), "main")
						if sides[i] = all[n+10*i : n+10*i+3]; n > 0 {
							sides[i] = someOf(rnd, all, n, i)
						}
						r.commit(sides[i])
					}
					if out, err := r.run("merge", "-q", "-m", "merge", "side0"); err != nil {
						t.Fatalf("round %d: %v\n%s", round, err, out)
					}
					r.merged(sides[0], sides[1], all[:n])
				}
			})
		}
	}
}

// merged looks at a directory that git has merged.
func (r *repo) merged(a, b, base []Object) {
	r.t.Helper()
	has := func(list []Object, o Object) bool {
		return slices.ContainsFunc(list, func(p Object) bool { return p.ID == o.ID })
	}
	var want []Object
	for _, o := range slices.Concat(a, b) {
		if has(a, o) && has(b, o) || !has(base, o) {
			want = append(want, o)
		}
	}
	if err := r.whole(want); err != nil {
		r.t.Fatal(err)
	}
	r.objects = want
	if rep := r.check(); len(rep.Missing)+len(rep.Damaged)+len(rep.Foreign) > 0 {
		r.t.Fatalf("%+v", rep)
	}
	store := r.store
	r.store = new(cas.Memory) // the directory is enough
	r.write()
	r.store = store
	if rep := r.check(); !inOrder(rep) || len(rep.Superfluous) > 0 {
		r.t.Fatalf("%+v", rep)
	}
}

// TestConflicts merges where git doesn't know the merge "union", as on servers: what it leaves can be read.
func TestConflicts(t *testing.T) {
	w := many(t, 26, 3000)
	all := w.objects
	r := newRepo(t, w)
	r.git("config", "merge.conflictStyle", "diff3")
	if err := os.WriteFile(filepath.Join(r.top, ".git", "info", "attributes"), []byte("*.pack merge\n"),
		0o644); err != nil {
		t.Fatal(err)
	}
	r.commit(all[:6])
	r.git("checkout", "-q", "-b", "side")
	r.commit(all[:16])
	r.git("checkout", "-q", "main")
	r.commit(slices.Concat(all[:6], all[16:]))
	if out, err := r.run("merge", "-q", "side"); err == nil || !strings.Contains(r.files()["all.pack"], "<<<<<<< ") {
		t.Fatalf("there is no conflict: %v\n%s", err, out)
	}
	r.merged(all[:16], slices.Concat(all[:6], all[16:]), all[:6])
}

// TestDelta packs a repository of many versions: git finds that almost nothing is new in each.
func TestDelta(t *testing.T) {
	w := many(t, 600, 4000)
	all := w.objects
	r := newRepo(t, w)
	r.commit(all[:560])
	size := func() (n int64) {
		r.git("repack", "-q", "-a", "-d", "-f") // not even a delta of before counts
		packs, _ := filepath.Glob(filepath.Join(r.top, ".git", "objects", "pack", "*.pack"))
		for _, p := range packs {
			if info, err := os.Stat(p); err == nil {
				n += info.Size()
			}
		}
		return n
	}
	first := size()
	for i := range 40 {
		r.commit(all[i : 561+i])
	}
	// 40 new objects, each less than 4 KiB, and the trees.
	if more := size() - first; more > 40*3000 {
		t.Errorf("the repository has grown from %d by %d", first, more)
	}
}

// TestCheckout writes the files of a commit anew where git changes line ends.
func TestCheckout(t *testing.T) {
	w := small(t)
	before := w.files()
	r := newRepo(t, w)
	r.commit(r.objects)
	r.git("config", "core.autocrlf", "true")
	if err := os.RemoveAll(r.dir); err != nil {
		t.Fatal(err)
	}
	r.git("checkout", "-q", "--", ".")
	for name, b := range r.files() {
		if before[name] != b {
			t.Errorf("%s is another one", name)
		}
	}
	if err := r.whole(r.objects); err != nil || !inOrder(r.check()) {
		t.Error(err)
	}
}
