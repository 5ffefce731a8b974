package shape_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/rye-build/rye/ai/shape"
)

// leaves are files of a project, and none of kept is ever written.
var (
	leaves = []string{"z", "a/z", "a/b/z", "ab/z", "a-b/z", "rye.lock", "rye.yaml", ".ai/z", ".ai/outputs/z",
		".ai/outputs/b/z", ".ai/tools/z", ".git/z"}
	kept = []string{"rye.lock", "rye.yaml", ".ai/z", ".ai/tools/z", ".git/z"}
)

// A touch is what paths allow, file by file.
type touch struct{ reads, writes map[string]bool }

func touches(read, write []string) touch {
	t := touch{map[string]bool{}, map[string]bool{}}
	under := func(paths []string, leaf string) bool {
		return slices.ContainsFunc(paths, func(p string) bool {
			return p == "." || p == leaf || strings.HasPrefix(leaf, p+"/")
		})
	}
	for _, leaf := range leaves {
		t.writes[leaf] = under(write, leaf) && !slices.Contains(kept, leaf)
		t.reads[leaf] = t.writes[leaf] || under(read, leaf)
	}
	return t
}

// more reports whether t allows what o doesn't.
func (t touch) more(o touch) bool {
	return slices.ContainsFunc(leaves, func(leaf string) bool {
		return t.reads[leaf] && !o.reads[leaf] || t.writes[leaf] && !o.writes[leaf]
	})
}

// Files are wider exactly when there is a file that may now be touched and might not before.
func TestFilesAreSound(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	pick := func(from ...string) []string {
		list := []string{}
		for range random.IntN(4) {
			list = append(list, from[random.IntN(len(from))])
		}
		return list
	}
	state := func() (shape.Grants, touch) {
		read := pick(".", "a", "a/b", "ab", "a-b", "rye.lock", ".ai", ".ai/outputs", ".ai/tools")
		write := pick(".", "a", "a/b", "ab", "a-b", ".ai/outputs", ".ai/outputs/b")
		return shape.Grants{Files: map[string]any{"read": read, "write": write}}, touches(read, write)
	}
	wider := 0
	for range 20000 {
		before, old := state()
		after, now := state()
		got := shape.Widened(before, after)
		if want := now.more(old); want != (len(got) == 1) {
			t.Fatalf("%v to %v: %v", before.Files, after.Files, got)
		}
		wider += len(got)
	}
	if wider < 2000 || wider > 18000 {
		t.Errorf("%d of 20000 are wider", wider)
	}
}

func TestWritable(t *testing.T) {
	for path, want := range map[string]bool{
		".": true, "docs": true, "rye.lock.d": true, "sub/rye.yaml": true, ".ai/outputs": true,
		".ai/outputs/x/y": true, ".aix": true, ".gitignore": true,
		".ai": false, ".ai/output": false, ".ai/outputs.d": false, ".ai/tools/outputs": false, ".AI/outputs": false,
		".ai/OUTPUTS": false,
		".git":        false, ".GIT/hooks": false, "rye.lock": false, "Rye.YAML": false, "rye.yaml/x": false,
	} {
		if got := shape.Writable(path); got != want {
			t.Errorf("%q: got %v", path, got)
		}
	}
}

func TestOutermost(t *testing.T) {
	given := []string{"b/c", "a/b/c", "a/b", "ab", "a/b", "b/cd"}
	if got := shape.Outermost(given); strings.Join(got, " ") != "a/b ab b/c b/cd" || given[0] != "b/c" {
		t.Errorf("got %q of %q", got, given)
	}
	if got := shape.Outermost(append(given, ".", ".ai")); strings.Join(got, " ") != "." {
		t.Errorf("got %q", got)
	}
}
