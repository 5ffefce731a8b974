package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/disk"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
)

// TestStoreTreeOfABomb: a few trees that name each other twice stand for more than anybody can list.
func TestStoreTreeOfABomb(t *testing.T) {
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	dir := filepath.Join(t.TempDir(), "store")
	s, err := disk.Open(dir, disk.Options{Create: true})
	must(err)
	defer s.Close()
	x, err := s.Put(t.Context(), cas.Blob, strings.NewReader("x"))
	must(err)
	entries := []cas.Entry{{Name: "x", Mode: cas.File, Digest: x.Digest, Size: 1}}
	for level := range 41 {
		b, err := cas.AppendTree(nil, entries)
		must(err)
		tree, err := s.Put(t.Context(), cas.TreeKind, bytes.NewReader(b))
		must(err)
		entries = []cas.Entry{{Name: "a", Mode: cas.Dir, Digest: tree.Digest},
			{Name: "b", Mode: cas.Dir, Digest: tree.Digest}}
		switch level {
		case 2:
			must(s.PutRef(t.Context(), "small", tree.ID))
		case 40:
			must(s.PutRef(t.Context(), "bomb", tree.ID))
		}
	}
	for _, c := range []struct {
		ref, want string
		exit      int
	}{
		{"small", "4 files, 4 B", fault.ExitDone},
		{"bomb", "more than 4194304 entries", fault.ExitRefused},
	} {
		h, stdout, stderr := testHost("RYE_STORE="+dir, "HOME="+t.TempDir())
		start := time.Now()
		if got := cli.Run(h, commands(), []string{"store", "tree", c.ref}); got != c.exit ||
			!strings.Contains(stderr.String(), c.want) {
			t.Errorf("%s: exit %d, %q", c.ref, got, stderr)
		}
		if took := time.Since(start); took > 10*time.Second {
			t.Errorf("%s: it took %s", c.ref, took)
		}
		if lines := strings.Count(stdout.String(), "\n"); c.exit == fault.ExitDone && lines != 10 {
			t.Errorf("%s: %d lines", c.ref, lines)
		}
	}
}
