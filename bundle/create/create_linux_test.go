package create

import (
	"io/fs"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"unsafe"
)

// Where nothing changed no file is opened, says the system.
func TestCreateOpensNothing(t *testing.T) {
	w := newWorld(t)
	w.remember()
	w.create()
	w.o.Cache.Close(t.Context())
	if opened := w.opened(func() { w.o.Paranoid = true; w.create() }); len(opened) != 7 {
		t.Fatalf("to begin with, %v were opened", opened)
	}
	w.o.Paranoid = false
	if opened := w.opened(func() { w.create() }); len(opened) != 0 {
		t.Errorf("%v were opened", opened)
	}
	w.write("docs/a.md", "other\n")
	w.write("docs/z.md", "another\n")
	if opened := w.opened(func() { w.create() }); len(opened) != 2 {
		t.Errorf("of two new files %v were opened", opened)
	}
}

// opened returns the files of the bundle that are opened while f runs.
func (w *world) opened(f func()) map[string]bool {
	w.Helper()
	fd, err := syscall.InotifyInit1(syscall.IN_NONBLOCK | syscall.IN_CLOEXEC)
	if err != nil {
		w.Fatal(err)
	}
	defer syscall.Close(fd)
	dirs := map[int32]string{}
	err = filepath.WalkDir(w.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		if d.Name() == "bundles" {
			return fs.SkipDir
		}
		id, err := syscall.InotifyAddWatch(fd, path, syscall.IN_OPEN|syscall.IN_ACCESS)
		dirs[int32(id)] = path
		return err
	})
	if err != nil {
		w.Fatal(err)
	}
	f()
	opened := map[string]bool{}
	buf := make([]byte, 64<<10)
	for {
		n, err := syscall.Read(fd, buf)
		if err == syscall.EAGAIN {
			return opened
		}
		if err != nil {
			w.Fatal(err)
		}
		for b := buf[:n]; len(b) > 0; {
			e := (*syscall.InotifyEvent)(unsafe.Pointer(&b[0]))
			end := syscall.SizeofInotifyEvent + int(e.Len)
			if e.Mask&syscall.IN_ISDIR == 0 {
				opened[filepath.Join(dirs[e.Wd], strings.TrimRight(string(b[syscall.SizeofInotifyEvent:end]),
					"\x00"))] = true
			}
			b = b[end:]
		}
	}
}
