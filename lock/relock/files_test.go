package relock_test

import (
	"slices"
	"testing"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/lock"
	"github.com/rye-build/rye/lock/file"
)

// What Files returns is written into a project: nothing that can't be a file of these items is among it.
func TestFiles(t *testing.T) {
	w := shop(t).build()
	l, _ := w.made()
	run := *l.Pin(ref("tool:acme/shop/run"))
	pins := []file.Pin{*l.Pin(ref("tool:acme/hello")), run, *l.Pin(ref("tool:acme/shop/walk"))}
	files, err := lock.Files(t.Context(), w, file.FromProject, pins)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range files {
		got = append(got, f.Ref+" "+f.Path)
	}
	want := []string{"tool:acme/hello tools/acme/hello.sh", "tool:acme/shop/run tools/acme/shop/__init__.py",
		"tool:acme/shop/run tools/acme/shop/idle.py",
		"tool:acme/shop/run tools/acme/shop/lib/go.sh", "tool:acme/shop/run tools/acme/shop/lib/help.py",
		"tool:acme/shop/run tools/acme/shop/run.py", "tool:acme/shop/run tools/acme/shop/walk.py"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}

	policy := w.tree(map[string]string{"tools/acme/shop/run.py": w.files["project"]["tools/acme/shop/run.py"],
		"policy.yaml": "keys:\n"})
	gone := run
	gone.Files = cas.Sum([]byte("gone"))
	for name, test := range map[string]struct {
		change func(p *file.Pin)
		want   string
	}{
		"the policy": {func(p *file.Pin) {
			p.Files = policy
		}, `"tool:acme/shop/run": its own file "tools/acme/shop/run.py" differs from the pin`},
		"the policy alone": {func(p *file.Pin) {
			p.Digest, p.Size, p.Files = cas.Sum([]byte("x")), 1,
				w.tree(map[string]string{"tools/acme/shop/run.py": "x", "policy.yaml": "keys:\n"})
		}, `"tool:acme/shop/run": its files are not all below "tools/acme"`},
		"vendored": {func(p *file.Pin) {
			p.Path = "vendor/acme/shop/run.py"
		}, `"tool:acme/shop/run": "vendor/acme/shop/run.py" is not a valid path of an item`},
		"another case": {func(p *file.Pin) {
			p.Path = "Bundles/acme/shop/run.py"
		}, `"tool:acme/shop/run": "Bundles/acme/shop/run.py" is not a valid path of an item`},
		"hidden": {func(p *file.Pin) {
			p.Path = ".git/acme/shop/run.py"
		}, `"tool:acme/shop/run": ".git/acme/shop/run.py" is not a valid path of an item`},
		"another id": {func(p *file.Pin) {
			p.Path = "tools/other/acme/shop/run.py"
		}, `"tool:acme/shop/run": "tools/other/acme/shop/run.py" is not its path`},
	} {
		changed := run
		test.change(&changed)
		files, err := lock.Files(t.Context(), w, file.FromProject, []file.Pin{changed})
		if len(files) > 0 {
			t.Errorf("%s: %d files", name, len(files))
		}
		w.says(err, test.want)
	}
	_, err = lock.Files(t.Context(), w, file.FromProject, []file.Pin{gone})
	if missing, ok := err.(*lock.MissingError); !ok || missing.NeededBy != "tool:acme/shop/run" {
		t.Errorf("a tree that isn't there: %v", err)
	}
}
