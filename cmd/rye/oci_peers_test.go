//go:build peers

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestDistribution: a registry as it is in use, which knows no Referrers API. What is pushed there comes back on a
// machine with an empty store; a change of one file sends little; a second signer's push changes no digest.
func TestDistribution(t *testing.T) {
	h := newTrustHome(t)
	to := "oci://" + distribution(t) + "/acme/deploy"
	project := filepath.Join(h.dir, "p")
	write := func(name, text string) {
		path := filepath.Join(project, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(".ai/tools/acme/x.py", itemText("x"))
	write("docs/large.txt", strings.Repeat("some text of many lines\n", 1<<19))
	write("docs/small.txt", "small")
	write("bundle.yaml", "id: acme\nversion: 1.0.0\nassets: [\"docs/*\"]\n")
	h.must("bundle", "create", "-C", project, "--sign", "tool:acme/x")
	digest := func(out string) string {
		_, rest, _ := strings.Cut(out, `"digest":"`)
		text, _, ok := strings.Cut(rest, `"`)
		if !ok {
			t.Fatalf("no digest: %s", out)
		}
		return text
	}
	first := digest(h.must("bundle", "push", "-C", project, "acme", to))
	h.must("key", "new", "second", "--owner", "Second")
	show := h.command("key", "export", "second")
	show.Args = append([]string{show.Args[0]}, "key", "export", "second") // as text
	public, err := show.Output()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(h.dir, "second.pem"), public, 0o644); err != nil {
		t.Fatal(err)
	}
	h.must("trust", "add", "second.pem", "--name", "second", "--owner", "Second", "--names", "bundle:**")
	h.must("trust", "add", "default", "--names", "bundle:**")
	h.must("bundle", "cosign", "-C", project, "acme", "--key", "second")
	if again := digest(h.must("bundle", "push", "-C", project, "acme", to+":1.0.0")); again != first {
		t.Errorf("signing makes %s of %s", again, first)
	}
	store := filepath.Join(h.dir, "other")
	for _, ref := range []string{to, to + ":1.0.0", to + "@" + first} {
		h.must("bundle", "pull", ref, "--store", store)
	}
	if out := h.must("bundle", "verify", "acme@1.0.0", "--store", store); !strings.Contains(out, `"count":2`) {
		t.Errorf("one signer: %s", out)
	}
	write("docs/small.txt", "changed")
	write("bundle.yaml", "id: acme\nversion: 1.1.0\nassets: [\"docs/*\"]\n")
	h.must("bundle", "create", "-C", project)
	out := h.must("bundle", "push", "-C", project, "acme", to)
	var sent, reused int
	_, counts, _ := strings.Cut(out, `"sent":`)
	if n, err := fmt.Sscanf(counts, `%d,"reused":%d`, &sent, &reused); n != 2 || err != nil || sent > 10_000 ||
		reused == 0 {
		t.Errorf("%v: %s", err, out)
	}
	if out := h.must("bundle", "pull", to, "--store", store); !strings.Contains(out, `"version":"1.1.0"`) {
		t.Errorf("not the newest: %s", out)
	}
}
