//go:build peers

package archive

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func run(t *testing.T, stdin []byte, name string, args ...string) []byte {
	t.Helper()
	c := exec.Command(name, args...)
	c.Stdin = bytes.NewReader(stdin)
	var failed bytes.Buffer
	c.Stderr = &failed
	out, err := c.Output()
	if err != nil || failed.Len() > 0 {
		t.Fatalf("%s %q: %v: %s", name, args, err, &failed)
	}
	return out
}

// TestPeersRead has zstd and tar read what we write, without a complaint.
func TestPeersRead(t *testing.T) {
	w := demo(t)
	plain := run(t, w.write(t), "zstd", "-dcq")
	if !bytes.Equal(plain, unpack(t, w.write(t))) {
		t.Error("zstd sees another stream")
	}
	dir := t.TempDir()
	run(t, plain, "tar", "-xf", "-", "-C", dir)
	for name, want := range map[string]string{
		"manifest.yaml":                string(w.body),
		"manifest.yaml.sig":            string(w.list.Signatures.Append(nil)),
		"files/.ai/tools/acme/run.sh":  "#!/bin/sh\necho hi\n",
		"files/ä/ö.txt":                strings.Repeat("x", 512),
		"files/" + long(120):           "deep",
		"evidence/sbom.json":           "{}",
		"files/.ai/tools/acme/none.py": "",
	} {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || string(b) != want {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
	if info, err := os.Stat(filepath.Join(dir, "files/.ai/tools/acme/run.sh")); err != nil ||
		info.Mode().Perm()&0o111 == 0 {
		t.Errorf("can't be executed: %v, %v", info, err)
	}
}

// TestPeersCompress: the frame may be made by another program, and the content may not.
func TestPeersCompress(t *testing.T) {
	plain := unpack(t, demo(t).write(t))
	for _, args := range [][]string{{"-cq"}, {"-cq", "-1"}, {"-cq", "-19"}, {"-cq", "--no-content-size"}} {
		if _, err := read(run(t, plain, "zstd", args...)); err != nil {
			t.Errorf("%q: %v", args, err)
		}
	}
	for _, args := range [][]string{{"-cq", "--no-check"}, {"-cq", "--format=gzip"}} {
		if _, err := read(run(t, plain, "zstd", args...)); err == nil {
			t.Errorf("%q: accepted", args)
		}
	}
	dir := t.TempDir()
	run(t, plain, "tar", "-xf", "-", "-C", dir)
	made := run(t, nil, "tar", "-C", dir, "--format=ustar", "--owner=0", "--group=0", "--numeric-owner", "--mtime=@0",
		"-cf", "-", "manifest.yaml", "manifest.yaml.sig", "files", "evidence")
	if _, err := read(pack(t, made)); err == nil {
		t.Error("an archive that tar has made of it is accepted")
	}
}
