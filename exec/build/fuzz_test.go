package build

import (
	"os"
	"path/filepath"
	"testing"
)

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
