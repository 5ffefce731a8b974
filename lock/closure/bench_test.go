package closure_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/lock/closure"
)

// onDisk writes a project to disk and looks at it there.
func onDisk(t testing.TB, w *world) *built {
	t.Helper()
	b := w.build(t)
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
	s, err := ai.OpenDir(dir, "project", ai.Project)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	b.spaces["project"] = s
	b.look()
	return b
}

// many is a project of so many items of all kinds that name each other.
func many(n int) *world {
	f := files{}
	for i := range n {
		id := fmt.Sprintf("acme/d%d/i%05d", i/50, i)
		switch i % 5 {
		case 0:
			f["directives/"+id+".md"] = directive(id,
				`<permissions><execute><tool>acme/*</tool></execute></permissions>`,
				`<load item_type="knowledge" item_id="acme/d0/i00001"/>`)
		case 1, 2:
			f["knowledge/"+id+".md"] = note(id, fmt.Sprintf("acme/d%d/i%05d", i/50, i/5*5+1), "acme/d0/i00001")
		default:
			f["tools/"+id+".sh"] = shTool(id)
		}
	}
	return one(f)
}

// beside is a project of so many tools in one directory; each belongs to the tree of all others.
func beside(n int) *world {
	f := files{"tools/acme/kit/__init__.py": ""}
	for i := range n {
		id := fmt.Sprintf("acme/kit/t%04d", i)
		f["tools/"+id+".py"] = pyTool(id, python)
	}
	return one(f)
}

func BenchmarkClose(b *testing.B) {
	for _, bc := range []struct {
		name  string
		world *world
		items int
	}{{"10000 items", many(10000), 10000}, {"500 tools of one directory", beside(500), 500}} {
		b.Run(bc.name, func(b *testing.B) {
			w := onDisk(b, bc.world)
			for _, dry := range []bool{true, false} {
				b.Run(map[bool]string{true: "dry", false: "into memory"}[dry], func(b *testing.B) {
					b.ReportAllocs()
					for b.Loop() {
						var store closure.Store
						if !dry {
							store = batch(b)
						}
						c, err := closure.Close(b.Context(), w.options(store))
						if err != nil {
							b.Fatal(err)
						}
						if len(pinned(c)) < bc.items {
							b.Fatalf("%d pins", len(c.Pins))
						}
					}
				})
			}
		})
	}
}
