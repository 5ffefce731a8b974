package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/initcmd"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/policy"
	"github.com/rye-build/rye/manifest/trust"
)

// TestPolicyChangedMeanwhile: what was shown is what is written, or nothing.
func TestPolicyChangedMeanwhile(t *testing.T) {
	h, home, _ := askingHost(t, "y\n")
	a, err := cli.NewApp(h, h.Terminal(true), cli.Globals{}, commands())
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(home, ".ai", trust.File)
	const theirs = "rye: policy/2\n\noverride:\n  - \"tool:rye/a\"\n"
	_, err = paths.EditPolicy(context.Background(), a,
		paths.Edit{Question: "sure?", Edit: trust.Edit{Change: func(root *policy.Side) (*policy.Policy, error) {
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				return nil, err
			}
			if err := os.WriteFile(path, []byte(theirs), 0o600); err != nil {
				return nil, err
			}
			return policy.Parse([]byte("rye: policy/2\n\noverride:\n  - \"tool:rye/b\"\n"))
		}}})
	if f, ok := errors.AsType[*fault.Error](err); !ok || f.Code != fault.Conflict {
		t.Errorf("%v", err)
	}
	if b, _ := os.ReadFile(path); string(b) != theirs {
		t.Errorf("%s", b)
	}
}

// TestExpiringKey: a warning about a key that expires soon names the rotation of that key and of no other.
func TestExpiringKey(t *testing.T) {
	h, home, _ := askingHost(t, "")
	h.Now = func() time.Time { return time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC) }
	a, err := cli.NewApp(h, h.Terminal(true), cli.Globals{}, commands())
	if err != nil {
		t.Fatal(err)
	}
	own, err := key.Generate(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := key.Generate(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if err := key.OpenDir(filepath.Join(home, ".ai", "keys")).Add("release", own, ""); err != nil {
		t.Fatal(err)
	}
	for public, want := range map[key.Public]string{own.Public(): "rye key rotate release",
		theirs.Public(): "rye trust list"} {
		text := fmt.Sprintf(
			"rye: policy/2\n\nkeys:\n  k: {key: %q, expires: \"2026-12-01\"}\n\nnames:\n  \"**\": {keys: [k]}\n",
			public)
		if err := os.WriteFile(filepath.Join(home, ".ai", trust.File), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := initcmd.CheckPolicy(context.Background(), a); got.Status != paths.StatusWarn || got.Hint != want {
			t.Errorf("%+v, want %q", got, want)
		}
	}
}
