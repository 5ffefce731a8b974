//go:build unix

package worktree

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
)

func TestImportNeverOpensWhatMayBlock(t *testing.T) {
	bothWays(t, func(t *testing.T, way bool) {
		dir := t.TempDir()
		must(t, syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
		t.Chdir(dir) // the path of a socket has a low limit
		l, err := net.Listen("unix", "socket")
		must(t, err)
		defer l.Close()
		var s cas.Memory
		_, err = tryImport(t.Context(), &s, dir, Options{portable: way})
		refused, ok := errors.AsType[*RefusedError](err)
		if !ok || len(refused.Problems) != 2 || !strings.Contains(err.Error(), "FIFO") ||
			!strings.Contains(err.Error(), "socket") {
			t.Errorf("got %v", err)
		}
		if _, err := tryImport(t.Context(), &s, filepath.Join(dir, "pipe"),
			Options{}); !strings.Contains(fmt.Sprint(err), "FIFO") {
			t.Errorf("the FIFO itself: got %v", err)
		}
	})
}

// TestOpenNeverWaitsForAFIFO is about one that takes the place of a file after the listing.
func TestOpenNeverWaitsForAFIFO(t *testing.T) {
	dir := t.TempDir()
	must(t, syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
	must(t, os.Symlink("pipe", filepath.Join(dir, "link")))
	for _, open := range []func(string) (folder, folderInfo, error){openDir, openRoot} {
		f, _, err := open(dir)
		must(t, err)
		defer f.close()
		for _, name := range []string{"pipe", "link"} {
			_, _, err = f.open(name)
			if _, ok := errors.AsType[*KindError](err); !ok {
				t.Errorf("%s: got %v", name, err)
			}
		}
	}
}

func TestFoldersFollowNoLinks(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	put(t, dir, "sub/file", "inside")
	put(t, outside, "file", secret)
	for link, to := range map[string]string{
		"dir": "sub", "file": "sub/file", "outside": outside, "outside file": filepath.Join(outside, "file"),
		"self": ".",
	} {
		must(t, os.Symlink(to, filepath.Join(dir, link)))
		for _, open := range []func(string) (folder, folderInfo, error){openDir, openRoot} {
			f, _, err := open(dir)
			must(t, err)
			if _, _, err := f.sub(link); err == nil {
				t.Errorf("%q was opened as a directory", link)
			}
			if _, _, err := f.open(link); err == nil {
				t.Errorf("%q was opened as a file", link)
			}
			must(t, f.close())
		}
	}
}

// TestImportSwappedAfterListing puts links in the place of what was just listed, every time.
func TestImportSwappedAfterListing(t *testing.T) {
	bothWays(t, func(t *testing.T, way bool) {
		for _, name := range []string{"d", "d/f", "f", "d/sub"} {
			dir, outside := t.TempDir(), t.TempDir()
			for _, file := range []string{"f", "d/f", "d/sub/f", "sub/f"} {
				put(t, dir, file, "inside")
				put(t, outside, file, secret)
			}
			var s cas.Memory
			b, err := s.Batch(t.Context())
			must(t, err)
			_, err = Import(t.Context(), b, dir, Options{portable: way, Skip: func(path string, _ bool) bool {
				if path == name {
					must(t, os.RemoveAll(filepath.Join(dir, path)))
					must(t, os.Symlink(filepath.Join(outside, path), filepath.Join(dir, path)))
				}
				return false
			}})
			if !isRace(err) {
				t.Errorf("%q: got %v", name, err)
			}
			gone, err := b.Missing(t.Context(), []cas.ID{{Kind: cas.Blob, Digest: cas.Sum([]byte(secret))}})
			must(t, err)
			if len(gone) == 0 {
				t.Errorf("%q: a file outside was read", name)
			}
		}
	})
}

// TestImportOtherwiseThanListed has a directory take a file's place, and a file that of a directory: a tree may hold
// both.
func TestImportOtherwiseThanListed(t *testing.T) {
	bothWays(t, func(t *testing.T, way bool) {
		for _, name := range []string{"f", "d", "d/f", "d/sub"} {
			dir := t.TempDir()
			for _, file := range []string{"f", "d/f", "d/sub/f"} {
				put(t, dir, file, "inside")
			}
			var s cas.Memory
			_, err := tryImport(t.Context(), &s, dir, Options{portable: way, Skip: func(path string, isDir bool) bool {
				if path == name {
					must(t, os.RemoveAll(filepath.Join(dir, path)))
					if isDir {
						put(t, dir, path, "now a file")
					} else {
						put(t, dir, path+"/./", "")
					}
				}
				return false
			}})
			if fault.CodeOf(err) != fault.Conflict || !strings.Contains(err.Error(), strconv.Quote(name)) {
				t.Errorf("%q: got %v", name, err)
			}
		}
	})
}

func TestCheckoutHidesWhatItBuilds(t *testing.T) {
	s, root := storeOf(t, files)
	parent := t.TempDir()
	old := syscall.Umask(0)
	defer syscall.Umask(old)
	_, err := Checkout(t.Context(), s, root, filepath.Join(parent, "out"), CheckoutOptions{Progress: func(_, _ int64) {
		found, _ := filepath.Glob(filepath.Join(parent, tmpPrefix+"*"))
		if len(found) != 1 {
			t.Errorf("found %q", found)
		}
		for _, path := range found {
			if fi, err := os.Lstat(path); err != nil || fi.Mode() != os.ModeDir|0o700 {
				t.Errorf("%v, %v", fi.Mode(), err)
			}
		}
	}})
	must(t, err)
}

const secret = "a secret outside"

// swapping puts a directory, a link out of the tree and a file in one another's place until the test ends.
func swapping(t *testing.T, dir, name, outside string) {
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	path := filepath.Join(dir, name)
	aside := filepath.Join(t.TempDir(), "aside")
	link := filepath.Join(t.TempDir(), "link")
	must(t, os.Symlink(outside, link))
	wg.Go(func() {
		for ctx.Err() == nil {
			os.Rename(path, aside)
			os.Rename(link, path)
			os.Rename(path, link)
			os.Rename(aside, path)
		}
	})
	t.Cleanup(func() { stop(); wg.Wait() })
}

func TestImportNeverLeavesTheDirectory(t *testing.T) {
	bothWays(t, func(t *testing.T, way bool) {
		dir, outside := t.TempDir(), t.TempDir()
		for i := range 20 {
			put(t, outside, fmt.Sprintf("sub/f%d", i), secret)
			put(t, dir, fmt.Sprintf("d/sub/f%d", i), "inside")
			put(t, dir, fmt.Sprintf("e/sub/f%d", i), "inside")
		}
		put(t, dir, "file", "inside")
		put(t, outside, "file", secret)
		swapping(t, dir, "d", outside)
		swapping(t, dir, "e/sub", filepath.Join(outside, "sub"))
		swapping(t, dir, "file", filepath.Join(outside, "file"))
		var s cas.Memory
		done := 0
		for range 200 {
			if _, err := tryImport(t.Context(), &s, dir, Options{portable: way}); err == nil {
				done++
				continue
			} else if !isRace(err) {
				t.Errorf("%v", err)
			}
		}
		t.Logf("%d of 200 imports came through", done)
		gone, err := s.Missing(t.Context(), []cas.ID{{Kind: cas.Blob, Digest: cas.Sum([]byte(secret))}})
		must(t, err)
		if len(gone) == 0 {
			t.Error("a file outside was read")
		}
	})
}

// isRace reports whether an error tells of a change during the import.
func isRace(err error) bool {
	_, refused := errors.AsType[*RefusedError](err)
	changed := fault.CodeOf(err) == fault.Conflict
	return refused || changed
}

func TestCheckoutNeverLeavesTheDirectory(t *testing.T) {
	bothWays(t, func(t *testing.T, way bool) {
		in := map[string]string{}
		for i := range 30 {
			in[fmt.Sprintf("d/sub/f%d", i)] = fmt.Sprint(i)
			in[fmt.Sprintf("e%d/f", i)] = fmt.Sprint(i)
		}
		s, root := storeOf(t, in)
		parent, outside := t.TempDir(), t.TempDir()
		aside := t.TempDir()
		ctx, stop := context.WithCancel(context.Background())
		var wg sync.WaitGroup
		wg.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				for _, pattern := range []string{"", "/tree", "/tree/d", "/tree/d/sub", "/tree/e1*"} {
					found, _ := filepath.Glob(filepath.Join(parent, tmpPrefix+"*") + pattern)
					for i, path := range found {
						if n%7 == 0 || pattern != "" {
							os.Rename(path, filepath.Join(aside, fmt.Sprint(n, "-", i, len(pattern))))
							os.Symlink(outside, path)
						}
					}
				}
			}
		})
		done := 0
		for i := range 25 {
			dst := filepath.Join(parent, fmt.Sprint(i))
			if _, err := Checkout(t.Context(), s, root, dst, CheckoutOptions{portable: way}); err == nil {
				done++
			}
		}
		stop()
		wg.Wait()
		t.Logf("%d of 25 came through", done)
		names, err := os.ReadDir(outside)
		must(t, err)
		if len(names) > 0 {
			t.Errorf("outside there is now %v", names)
		}
	})
}

func TestCheckoutRefusesParentsOpenToAll(t *testing.T) {
	s, root := storeOf(t, map[string]string{"a": ""})
	parent := t.TempDir()
	dst := filepath.Join(parent, "out")
	must(t, os.Chmod(parent, 0o777))
	_, err := Checkout(t.Context(), s, root, dst, CheckoutOptions{Force: true})
	if d, ok := errors.AsType[*DestinationError](err); !ok || d.Path != parent {
		t.Errorf("got %v", err)
	}
	must(t, os.Chmod(parent, 0o777|os.ModeSticky))
	_, err = Checkout(t.Context(), s, root, dst, CheckoutOptions{})
	must(t, err)
}

func TestCheckoutHonoursTheUmask(t *testing.T) {
	s, root := storeOf(t, map[string]string{"d/file": "", "d/exec*": ""})
	for _, mask := range []int{0, 0o022, 0o027, 0o077} {
		bothWays(t, func(t *testing.T, way bool) {
			dst := filepath.Join(t.TempDir(), "out")
			old := syscall.Umask(mask)
			_, err := Checkout(t.Context(), s, root, dst, CheckoutOptions{portable: way})
			syscall.Umask(old)
			must(t, err)
			for name, perm := range map[string]os.FileMode{"": 0o777, "d": 0o777, "d/file": 0o644, "d/exec": 0o755} {
				fi, err := os.Stat(filepath.Join(dst, name))
				must(t, err)
				if want := perm &^ os.FileMode(mask); fi.Mode().Perm() != want {
					t.Errorf("umask %03o: %q has mode %03o, not %03o", mask, name, fi.Mode().Perm(), want)
				}
			}
		})
	}
}

// TestDirectoriesAreClosed counts descriptors after runs that succeed and runs that fail.
func TestDirectoriesAreClosed(t *testing.T) {
	s, root := storeOf(t, files)
	dir := t.TempDir()
	putFiles(t, dir)
	count := func() int {
		names, err := os.ReadDir("/dev/fd")
		must(t, err)
		return len(names)
	}
	before := count()
	for n := range 24 {
		bothWays(t, func(t *testing.T, way bool) {
			b, err := s.Batch(t.Context())
			must(t, err)
			Import(t.Context(), &brokenBatch{b, n}, dir, Options{portable: way, Workers: 1})
			ctx, cancel := context.WithCancel(t.Context())
			var calls atomic.Int64
			Checkout(ctx, getter{s}, root, filepath.Join(t.TempDir(), "out"),
				CheckoutOptions{portable: way, Progress: func(_, _ int64) {
					if calls.Add(1) > int64(n) {
						cancel()
					}
				}})
			cancel()
		})
	}
	if after := count(); after > before {
		t.Errorf("%d descriptors, %d before", after, before)
	}
}

// TestCheckoutOntoAMountPoint goes by what renaming and removing one gives, since mounting is the administrator's.
func TestCheckoutOntoAMountPoint(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "mnt/./", "")
	put(t, dir, "file", "x")
	s, err := openSite(filepath.Join(dir, "mnt"), CheckoutOptions{})
	must(t, err)
	defer s.close()
	for _, number := range []syscall.Errno{syscall.EBUSY, syscall.EXDEV} {
		failed := &os.LinkError{Op: "rename", Old: "tree", New: "mnt", Err: number}
		if d, ok := errors.AsType[*DestinationError](s.mounted(failed)); !ok || d.Force ||
			!strings.Contains(d.Why, "mount point") {
			t.Errorf("%v: got %v", number, s.mounted(failed))
		}
		s.base = "file"
		if got := s.mounted(failed); got != error(failed) {
			t.Errorf("%v, where no directory is: got %v", number, got)
		}
		s.base = "mnt"
	}
	if got := s.mounted(syscall.EACCES); got != syscall.EACCES {
		t.Errorf("got %v", got)
	}
}
