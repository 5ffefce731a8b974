//go:build unix

package trust_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/manifest/trust"
)

// TestCheckOwn: a policy that others can write, or replace through its directory or that of a link, decides nothing.
// The hint takes the right away.
func TestCheckOwn(t *testing.T) {
	for name, c := range map[string]struct {
		path string
		mode os.FileMode
		why  string
	}{
		"written by everyone":        {"home/policy.yaml", 0o606, "the policy "},
		"written by its group":       {"home/policy.yaml", 0o660, "the policy "},
		"replaced by everyone":       {"home", 0o703, "the directory of the policy "},
		"replaced by its group":      {"home", 0o770, "the directory of the policy "},
		"a link's file":              {"dotfiles/policy.yaml", 0o660, "the policy "},
		"a link's file, replaced":    {"dotfiles", 0o770, "the directory of the policy "},
		"read by everyone":           {"home/policy.yaml", 0o644, ""},
		"in a directory for reading": {"home", 0o755, ""},
	} {
		dir := t.TempDir()
		at := func(name string) string { return filepath.Join(dir, filepath.FromSlash(name)) }
		err := errors.Join(os.Mkdir(at("home"), 0o700), os.Mkdir(at("dotfiles"), 0o700))
		if file := at("home/policy.yaml"); strings.HasPrefix(c.path, "dotfiles") {
			err = errors.Join(err, os.WriteFile(at("dotfiles/policy.yaml"), nil, 0o600),
				os.Symlink(at("dotfiles/policy.yaml"), file))
		} else {
			err = errors.Join(err, os.WriteFile(file, nil, 0o600))
		}
		if err := errors.Join(err, os.Chmod(at(c.path), c.mode)); err != nil {
			t.Fatal(err)
		}
		err = trust.CheckOwn(at("home/policy.yaml"))
		if c.why == "" {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		place := at(c.path)
		if filepath.Ext(place) != "" { // chmod follows the link
			place = at("home/policy.yaml")
		}
		if codeOf(err) != fault.Denied || !strings.HasPrefix(err.Error(), c.why+`"`+place) ||
			fault.Of(err).Hint[0] != "chmod go-w "+place {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestLockPolicy: while one process edits a policy another waits, and gives up without the lock when it is cancelled.
func TestLockPolicy(t *testing.T) {
	path := filepath.Join(t.TempDir(), trust.File)
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for range 2 {
		unlock, err := trust.LockPolicy(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := trust.LockPolicy(over, path); !errors.Is(err, context.Canceled) {
			t.Errorf("locked twice: %v", err)
		}
		unlock()
	}
	if _, err := trust.LockPolicy(t.Context(), filepath.Join(path, "x")); err == nil {
		t.Error("locked what can't be opened")
	}
}
