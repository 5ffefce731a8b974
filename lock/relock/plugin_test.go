package relock_test

import (
	"slices"
	"testing"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/lock"
)

// TestPlugin: a lock names every file of a plugin, whatever is pinned of it: its servers run with them. In its space
// is still what is pinned alone.
func TestPlugin(t *testing.T) {
	const id, label = "plugins/demo", "system:plugins/demo"
	readme := cas.ID{Kind: cas.Blob, Digest: cas.Sum([]byte("# About\n"))}
	for name, c := range map[string]struct {
		root   string
		plugin bool
		want   bool
	}{
		"an item of the plugin":       {"tool:plugins/demo/servers/s", true, true},
		"an item made for a project":  {"tool:plugins/demo/servers/mine", true, true},
		"none of it":                  {"tool:plugins/demonstration/x", true, true},
		"a bundle that isn't one":     {"tool:plugins/demo/servers/s", false, false},
		"a bundle with other's items": {"tool:plugins/demo/servers/mine", false, false},
	} {
		w := shop(t)
		w.files[label] = files{"tools/plugins/demo/servers/s.yaml": tool("plugins/demo/servers/s", http),
			"tools/plugins/demo/servers/idle.yaml": tool("plugins/demo/servers/idle", http)}
		w.files["project"]["tools/plugins/demo/servers/mine.yaml"] = tool("plugins/demo/servers/mine", http)
		w.files["project"]["tools/plugins/demonstration/x.yaml"] = tool("plugins/demonstration/x", http)
		w.versions[label], w.roots = "1.0.0", append(w.roots, c.root)
		if c.plugin {
			w.plugin = label
		}
		set := w.build().set()
		objects, err := set.Objects(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(objects, func(o lock.Object) bool { return o.ID == readme })
		if got := i >= 0; got != c.want {
			t.Errorf("%s: README.md is named: %v", name, got)
		}
		if i >= 0 && objects[i].NeededBy != "bundle:plugins/demo@1.0.0" {
			t.Errorf("%s: it is needed by %s", name, objects[i].NeededBy)
		}
		space := set.Spaces()[slices.Index(labels(set), label)]
		if _, err := space.FS.Open("tools/plugins/demo/servers/idle.yaml"); err == nil {
			t.Errorf("%s: the space has an item that isn't pinned", name)
		}
		if set.Bundle(id) == nil {
			t.Errorf("%s: no bundle", name)
		}
	}
}

// labels are those of the spaces of a set.
func labels(set *lock.Set) (all []string) {
	for _, s := range set.Spaces() {
		all = append(all, s.Label)
	}
	return all
}
