//go:build unix

package fault

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestPermit: the hint for a file that this user may not use is the chmod that allows it. Root is refused nothing by a
// mode, so the errors are made here.
func TestPermit(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, err := range []error{os.Mkdir(at("closed"), 0o700), os.WriteFile(at("closed/file"), nil, 0o600),
		os.Mkdir(at("full"), 0o555), os.WriteFile(at("secret"), nil, 0), os.WriteFile(at("fixed"), nil, 0o400),
		os.WriteFile(at("fine file"), nil, 0o600), os.Chmod(at("closed"), 0o200)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { os.Chmod(at("closed"), 0o700) })
	for _, test := range []struct{ op, path, hint string }{
		{"open", "secret", "chmod u+r " + at("secret")},
		{"open", "fixed", "chmod u+w " + at("fixed")},
		{"open", "closed", "chmod u+rx " + at("closed")},
		{"open", "full/new", "chmod u+w " + at("full")},
		{"mkdir", "full/new", "chmod u+w " + at("full")},
		{"remove", "closed/file", "chmod u+rx " + at("closed")},
		{"open", "fine file", "ls -ld '" + at("fine file") + "'"}, // not by its mode
		{"mkdir", "gone/new", "ls -ld " + at("gone")},
		{"open", "/proc/1/mem", "ls -ld /proc/1/mem"},
	} {
		path := test.path
		if !filepath.IsAbs(path) {
			path = at(path)
		}
		f := Of(&fs.PathError{Op: test.op, Path: path, Err: syscall.EACCES})
		if len(f.Hint) != 1 || f.Hint[0] != test.hint {
			t.Errorf("%s %s: %q, want %q", test.op, test.path, f.Hint, test.hint)
		}
	}
	f := Of(os.NewSyscallError("setns", syscall.EPERM))
	if !errors.Is(f, fs.ErrPermission) || f.Hint[0] != "rye doctor" {
		t.Errorf("%q: without a path there is nothing to change", f.Hint)
	}
}
