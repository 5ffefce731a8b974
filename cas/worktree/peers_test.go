//go:build peers && unix

package worktree

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// TestCheckoutRefusesDirectoriesOfOthers needs root, to give directories away.
func TestCheckoutRefusesDirectoriesOfOthers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("this test needs root")
	}
	s, root := storeOf(t, map[string]string{"a": ""})
	const other = 12345
	parent := t.TempDir()
	dst := filepath.Join(parent, "out")
	must(t, os.Mkdir(dst, 0o755))
	for _, given := range []string{dst, parent} {
		must(t, os.Chown(given, other, other))
		_, err := Checkout(t.Context(), s, root, dst, CheckoutOptions{Force: true})
		if d, ok := errors.AsType[*DestinationError](err); !ok || d.Path != given {
			t.Errorf("%q: got %v", given, err)
		}
		must(t, os.Chown(given, 0, 0))
	}
	_, err := Checkout(t.Context(), s, root, dst, CheckoutOptions{})
	must(t, err)
}
