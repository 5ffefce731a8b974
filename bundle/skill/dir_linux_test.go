package skill

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
)

// TestWriteDirSynced: a folder counts as written once its name is durable: after a power failure a user would have no
// skill although rye said that it had written one.
func TestWriteDirSynced(t *testing.T) {
	const other = 65534
	up := filepath.Join(t.TempDir(), "up")
	err := errors.Join(os.Chmod(filepath.Dir(filepath.Dir(up)), 0o755), os.Chmod(filepath.Dir(up), 0o755),
		os.Mkdir(up, 0o700))
	if os.Getuid() == 0 {
		err = errors.Join(err, os.Chown(up, other, other))
	}
	if err != nil {
		t.Fatal(err)
	}
	// A directory that can't be read is one that can't be synced.
	for mode, synced := range map[fs.FileMode]bool{0o300: false, 0o700: true} {
		if err := os.Chmod(up, mode); err != nil {
			t.Fatal(err)
		}
		dir := filepath.Join(up, mode.String())
		done := make(chan error)
		go func() {
			runtime.LockOSThread() // and it ends with the goroutine
			if os.Getuid() == 0 {
				if err := syscall.Setfsuid(other); err != nil {
					done <- err
					return
				}
			}
			done <- WriteDir(dir, []File{{Path: "SKILL.md", Bytes: []byte("x")}})
		}()
		if err := <-done; (err == nil) != synced || !synced && !errors.Is(err, fs.ErrPermission) {
			t.Errorf("%v: %v", mode, err)
		}
		if err := os.Chmod(up, 0o700); err != nil {
			t.Fatal(err)
		}
		if b, err := os.ReadFile(filepath.Join(dir, "SKILL.md")); err != nil || string(b) != "x" {
			t.Errorf("%v: %q, %v", mode, b, err)
		}
	}
}
