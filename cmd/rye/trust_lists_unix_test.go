//go:build unix

package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// TestListTakenMeanwhile reads a kept list while another process takes a newer issue, before the journal is read: the
// list is old, which is no rollback.
func TestListTakenMeanwhile(t *testing.T) {
	h := newTrustHome(t)
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(h.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	policy, err := os.ReadFile(filepath.Join(h.dir, ".ai/policy.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	write(".ai/policy.yaml", string(policy)+"\nlists:\n  acme: {from: list.yaml, key: default, max-age: \"7d\"}\n")
	for n, name := range []string{"1.yaml", "2.yaml"} {
		write(name, fmt.Sprintf(
			"rye: \"revocations/2\"\nname: \"acme\"\ncounter: %d\nissued: %q\nexpires: \"2999-01-01T00:00:00Z\"\n",
			n+1, time.Now().UTC().Add(-time.Hour).Format(time.RFC3339)))
		h.must("sign", name, "--as", "revocations:acme")
	}
	h.must("trust", "update", "acme", "--from", "1.yaml")
	kept, err := filepath.Glob(filepath.Join(h.dir, "state/rye/lists/*.yaml"))
	if err != nil || len(kept) != 1 {
		t.Fatal(kept, err)
	}
	// A reader of the pipe continues when the test wants it.
	first := filepath.Join(h.dir, "first")
	if err := errors.Join(os.Rename(kept[0], first), syscall.Mkfifo(kept[0], 0o600)); err != nil {
		t.Fatal(err)
	}
	reader, said := h.command("trust", "list"), new(bytes.Buffer)
	reader.Stdout, reader.Stderr = said, said
	if err := reader.Start(); err != nil {
		t.Fatal(err)
	}
	pipe, err := os.OpenFile(kept[0], os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	old, err := os.ReadFile(first)
	if err := errors.Join(err, os.Rename(first, kept[0])); err != nil {
		t.Fatal(err)
	}
	h.must("trust", "update", "acme", "--from", "2.yaml")
	_, err = pipe.Write(old)
	if err := errors.Join(err, pipe.Close()); err != nil {
		t.Fatal(err)
	}
	if err := reader.Wait(); err != nil || !bytes.Contains(said.Bytes(), []byte(`"counter":2`)) {
		t.Errorf("%v: %s", err, said)
	}
}
