package build

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rye-build/rye/cas"
)

// TestMovedEntry: an entry of the cache counts only for the action that it was kept for.
func TestMovedEntry(t *testing.T) {
	c := OpenCache(filepath.Join(t.TempDir(), "cache"), make([]byte, keySize))
	one, two, outputs := cas.Sum([]byte("one")), cas.Sum([]byte("two")), cas.Sum([]byte("outputs"))
	c.Keep(t.Context(), one, outputs)
	c.kept.Put(t.Context(), actionKey(two), c.kept.Get(t.Context(), actionKey(one)))
	if got, ok := c.Result(t.Context(), one); !ok || got != outputs {
		t.Errorf("%s, %v", got, ok)
	}
	if got, ok := c.Result(t.Context(), two); ok {
		t.Errorf("another action's entry gives %s", got)
	}
}

// FuzzAction: what is read as an action has no other form.
func FuzzAction(f *testing.F) {
	b, err := os.ReadFile(filepath.Join("..", "..", "testdata", "vectors", "action.json"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b[:len(b)-1])
	f.Add(b)
	f.Add([]byte(`{"chain":[{"digest":"blake3:00","ref":"x"}]}`))
	f.Add([]byte(`{"params":{"a":1e400}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		a := parseAction(b)
		if a == nil {
			return
		}
		if again, err := a.Append(nil); err != nil || string(again) != string(b) {
			t.Fatalf("%s (%v)", again, err)
		}
	})
}
