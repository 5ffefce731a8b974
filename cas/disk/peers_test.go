//go:build peers && linux

package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
)

// mount mounts a tmpfs of so many KiB. These tests run as root.
func mount(t *testing.T, kib int) string {
	t.Helper()
	dir := t.TempDir()
	must(t, syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%dk", kib)))
	t.Cleanup(func() { syscall.Unmount(dir, syscall.MNT_DETACH) })
	return dir
}

// TestFullDisk fills a real file system by every operation that writes. Each time the store stays clean.
func TestFullDisk(t *testing.T) {
	for kib := 64; kib <= 1600; kib += 64 {
		dir := mount(t, kib)
		s, err := Open(filepath.Join(dir, "store"), Options{Create: true})
		if err != nil {
			if !errors.Is(err, syscall.ENOSPC) {
				t.Fatal(err)
			}
			continue
		}
		s.packObjects, s.fanout = 24, 3
		r := &run{Store: s, w: newWorld()}
		full := false
		for _, step := range history() {
			if err := step.do(r); err != nil {
				if !errors.Is(err, syscall.ENOSPC) {
					t.Fatalf("%d KiB, %s: %v", kib, step.name, err)
				}
				full = true
			}
			must(t, r.w.readable(s))
			must(t, clean(s))
		}
		if kib == 128 && !full {
			t.Error("the disk was never full")
		}
		must(t, s.Close())
		must(t, syscall.Unmount(dir, syscall.MNT_DETACH))
	}
}

// TestReadOnlyMedia reads a store on a file system that can't be written.
func TestReadOnlyMedia(t *testing.T) {
	dir := mount(t, 8<<10)
	c, lines, stderr := start(t, "put", dir, 0) // another process: this one would keep its packs open for writing
	for lines.Scan() {
	}
	if err := c.Wait(); err != nil {
		t.Fatal(err, stderr)
	}
	must(t, syscall.Mount("", dir, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""))
	s, err := Open(dir, Options{ReadOnly: true})
	must(t, err)
	must(t, clean(s))
	must(t, childReads(s))
	tree, err := s.Ref("p0/1")
	must(t, err)
	release, err := s.Pin(t.Context(), tree)
	must(t, err)
	must(t, release())
	if _, err := s.GC(t.Context(), GCOptions{DryRun: true}); err != nil {
		t.Errorf("a dry run: %v", err)
	}
	for name, err := range map[string]error{
		"put":     func() error { _, err := s.Put(t.Context(), cas.Blob, strings.NewReader("")); return err }(),
		"ref":     s.PutRef(t.Context(), "main", tree),
		"gc":      func() error { _, err := s.GC(t.Context(), GCOptions{}); return err }(),
		"repack":  func() error { _, err := s.Repack(t.Context()); return err }(),
		"reindex": func() error { _, err := s.Reindex(t.Context()); return err }(),
	} {
		if fault.CodeOf(err) != fault.Files {
			t.Errorf("%s: %v", name, err)
		}
	}
	s, err = Open(dir, Options{Create: true})
	must(t, err)
	if _, err := s.Put(t.Context(), cas.Blob, strings.NewReader("")); !errors.Is(err, syscall.EROFS) {
		t.Errorf("put: %v", err)
	}
	must(t, childReads(s))
}

// TestOtherUser reads a store of another user, who may have changed it, and one that can't be read in part.
func TestOtherUser(t *testing.T) {
	dir, _ := smallStore(t, noise(3, 257<<10))
	must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		mode := fs.FileMode(0o664)
		if d.IsDir() {
			mode = 0o775
		}
		return errors.Join(err, os.Chmod(path, mode))
	}))
	exe, err := os.Executable()
	must(t, err)
	copied := filepath.Join(t.TempDir(), "test")
	must(t, exec.Command("cp", exe, copied).Run())
	for d := filepath.Dir(copied); d != "/" && d != os.TempDir(); d = filepath.Dir(d) {
		must(t, os.Chmod(d, 0o755))
	}
	read := func(want bool) {
		t.Helper()
		c := exec.Command(copied)
		c.Env = []string{childVar + "=read 0 " + dir}
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		if out, err := c.CombinedOutput(); (err == nil) != want {
			t.Errorf("as another user: %v %s", err, out)
		}
	}
	read(true)
	paths, err := listPacks(dir)
	must(t, err)
	must(t, os.Chmod(paths[0], 0))
	read(false)
	must(t, os.Chmod(paths[0], 0o644))
	flip(t, paths[0], headerSize+200)
	read(false)
}
