package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/rye-build/rye/manifest/policy"
)

// TestPolicyChangedMeanwhile: what was shown is what is written, or nothing.
func TestPolicyChangedMeanwhile(t *testing.T) {
	h, home, _ := askingHost(t, "y\n")
	a, err := newApp(h, h.terminal(true), globals{}, commands())
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(home, ".ai", policyFile)
	const theirs = "rye: policy/2\n\noverride:\n  - \"tool:rye/a\"\n"
	_, err = a.editPolicy(context.Background(), edit{question: "sure?", change: func(root *policy.Side) (*policy.Policy, error) {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return nil, err
		}
		if err := os.WriteFile(path, []byte(theirs), 0o600); err != nil {
			return nil, err
		}
		return policy.Parse([]byte("rye: policy/2\n\noverride:\n  - \"tool:rye/b\"\n"))
	}})
	if f, ok := errors.AsType[*fault](err); !ok || f.code != "CONFLICT" {
		t.Errorf("%v", err)
	}
	if b, _ := os.ReadFile(path); string(b) != theirs {
		t.Errorf("%s", b)
	}
}
