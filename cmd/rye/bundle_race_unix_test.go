//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rye-build/rye/bundle/find"
)

// TestBundleCreatedTwice makes bundles of one project from several processes at once. Of the same files each makes the
// same bundle; where bundle.yaml changes meanwhile, what stands there in the end is one that some process
// acknowledged. It is never a mixture, and nothing half-written is left.
func TestBundleCreatedTwice(t *testing.T) {
	h := newTrustHome(t)
	project := filepath.Join(h.dir, "p")
	write := func(name, text string) {
		t.Helper()
		// By a rename, so that no process reads half of it.
		path, temp := filepath.Join(project, filepath.FromSlash(name)), filepath.Join(h.dir, "temp")
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(temp, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(temp, path); err != nil {
			t.Fatal(err)
		}
	}
	type made struct {
		Success bool
		Data    struct{ Manifest, Version string }
		Error   struct{ Code, Message string }
	}
	create := func(done chan<- made) {
		out, err := h.command("bundle", "create", "-C", project).Output()
		var m made
		if e := json.Unmarshal(out, &m); e != nil || (err == nil) != m.Success {
			t.Errorf("%v, %v: %s", err, e, out)
		}
		done <- m
	}
	home := filepath.Join(project, ".ai", "bundles", "acme")
	look := func(round int) (id, version string) {
		t.Helper()
		entries, err := os.ReadDir(home)
		if err != nil || len(entries) != 1 {
			t.Errorf("round %d: %v, %v", round, entries, err)
		}
		read, err := find.ReadManifest(project, "acme")
		if err != nil || len(read.Signatures) != 1 {
			t.Fatalf("round %d: %v", round, err)
		}
		return read.ID.String(), read.Version
	}
	write(".ai/tools/acme/x.py", itemText("x"))
	h.must("sign", "-C", project, "tool:acme/x")
	const processes = 4
	for round := range 6 {
		same := round%2 == 0
		for i := range 20 {
			write(fmt.Sprintf("docs/%d.txt", i), strings.Repeat(fmt.Sprintf("line of %d in %d\n", i, round), 50))
		}
		if round == 4 {
			if err := os.RemoveAll(home); err != nil {
				t.Fatal(err)
			}
		}
		done := make(chan made, processes)
		for i := range processes {
			if i == 0 || !same {
				write("bundle.yaml", fmt.Sprintf("id: acme\nversion: 1.%d.%d\nassets: [\"docs/*\"]\n", round, i))
			}
			go create(done)
		}
		ids := map[string]string{}
		for range processes {
			m := <-done
			switch {
			case m.Success:
				ids[m.Data.Manifest] = m.Data.Version
			case same || m.Error.Code != "CONFLICT":
				t.Errorf("round %d: %s: %s", round, m.Error.Code, m.Error.Message)
			}
		}
		id, version := look(round)
		if was, ok := ids[id]; !ok || was != version || same && len(ids) != 1 {
			t.Errorf("round %d: %s %s is there, %v were made", round, id, version, ids)
		}
		if same {
			h.must("bundle", "verify", "-C", project, "acme")
		}
	}
	h.must("store", "fsck")
}
