// Package sandboxtest is a set of helpers for tests that start programs in a sandbox. The programs are the test's own
// binary, which TestMain turns into one of them:
//
//	func TestMain(m *testing.M) {
//		sandboxtest.Programs(map[string]func(args []string) int{"__guest": guest})
//		os.Exit(m.Run())
//	}
package sandboxtest

import (
	"bytes"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rye-build/rye/exec/sandbox"
)

// StageWord starts the binary as the second stage of a sandbox.
const StageWord = "__stage"

// Programs runs the program whose word is the first argument, with the arguments after it, and exits with its status.
// It returns if the word is unknown. A binary that measures coverage doesn't write its profile in such a run.
func Programs(programs map[string]func(args []string) (status int)) {
	if len(os.Args) < 2 {
		return
	}
	if os.Args[1] == StageWord {
		syscall.Exit(sandbox.Stage(os.Args[2:]))
	}
	if run := programs[os.Args[1]]; run != nil {
		syscall.Exit(run(os.Args[2:]))
	}
}

// Self is the path of this binary, without links.
func Self(t testing.TB) string {
	t.Helper()
	path, err := os.Executable()
	return unlinked(t, path, err)
}

// Dir returns a new directory without links in its path.
func Dir(t testing.TB) string {
	t.Helper()
	return unlinked(t, t.TempDir(), nil)
}

// Removable makes a directory removable when the test ends.
func Removable(t testing.TB, dir string) { t.Cleanup(func() { Unlock(dir) }) }

// Unlock makes a directory removable: the copies in it that tools run from are read-only.
func Unlock(dir string) {
	filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			os.Chmod(path, 0o700)
		}
		return nil
	})
}

func unlinked(t testing.TB, path string, err error) string {
	t.Helper()
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// Machine returns a Machine that uses this binary as the second stage.
func Machine(t testing.TB) *sandbox.Machine {
	t.Helper()
	return sandbox.New(sandbox.Options{Self: []string{Self(t), StageWord}})
}

// Alive lists the processes that have a mark in a file of /proc, such as "environ" or "cmdline".
func Alive(file, mark string) (list []string) {
	paths, _ := filepath.Glob("/proc/[0-9]*/" + file)
	for _, path := range paths {
		if text, _ := os.ReadFile(path); bytes.Contains(text, []byte(mark)) {
			list = append(list, path)
		}
	}
	return list
}

// Listen listens on this machine. reached reports whether there was a connection.
func Listen(t testing.TB) (address string, reached func() bool) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	var came atomic.Int64
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			came.Add(1)
			c.Close()
		}
	}()
	own := int64(0)
	return listener.Addr().String(), func() bool {
		// The listener accepts earlier connections first, and this one once its end is seen.
		c, err := net.DialTimeout("tcp", listener.Addr().String(), 5*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		own++
		c.Read(make([]byte, 1))
		return came.Load() > own
	}
}
