package disk

import (
	"testing"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/castest"
)

func TestStore(t *testing.T) {
	castest.Store(t, func(t *testing.T) cas.Store {
		s, err := Open(t.TempDir(), Options{Create: true})
		if err != nil {
			t.Fatal(err)
		}
		return s
	})
}

// The same with packs of a few objects, which roll over within a batch and merge at once.
func TestStoreTinyPacks(t *testing.T) {
	castest.Store(t, func(t *testing.T) cas.Store {
		s := tinyStore(t, Options{})
		s.packObjects = 500
		return s
	})
}

func TestHistory(t *testing.T) {
	s := tinyStore(t, Options{})
	r := &run{Store: s, w: newWorld()}
	for _, step := range history() {
		if err := step.do(r); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		must(t, r.w.check(s))
		must(t, clean(s))
		must(t, swept(s.dir))
	}
}
