package key

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/cas/osfile"
)

func testKey(t *testing.T, b byte) Private {
	t.Helper()
	p, err := Generate(bytes.NewReader(bytes.Repeat([]byte{b}, 32)))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// work changes a directory in every way that there is.
func work(d Dir, p, q Private) error {
	if err := d.Add("a", p, ""); err != nil {
		return err
	}
	if err := d.Add("b", q, ""); err != nil {
		return err
	}
	if err := d.SetDefault("b"); err != nil {
		return err
	}
	return d.Remove("a")
}

// whole reports what is wrong with what is left when work ended early.
func whole(t *testing.T, path string, p, q Private) {
	t.Helper()
	d := OpenDir(path)
	list, err := d.List()
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		want := map[string]Private{"a": p, "b": q}[e.Name]
		got, err := d.Private(e.Name, nil)
		if e.Err != nil || err != nil || e.Public != want.Public() || got.Public() != want.Public() {
			t.Errorf("%+v, %v, %v", e, got, err)
		}
	}
	if name, err := d.Default(); err != nil || name != "default" && name != "b" {
		t.Errorf("default is %q, %v", name, err)
	}
	files, _ := filepath.Glob(filepath.Join(path, osfile.Unfinished+"*"))
	for _, f := range files {
		if err := os.Chtimes(f, time.Time{}, time.Unix(1, 0)); err != nil {
			t.Error(err)
		}
	}
	// The next one can go on.
	for name, key := range map[string]Private{"a": p, "b": q, "c": testKey(t, 3)} {
		if err := d.Add(name, key, ""); err != nil && !errors.Is(err, fs.ErrExist) {
			t.Error(err)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(path, osfile.Unfinished+"*")); len(left) > 0 {
		t.Errorf("left %v", left)
	}
}

// Every step fails once.
func TestDirFaults(t *testing.T) {
	p, q := testKey(t, 1), testKey(t, 2)
	boom := errors.New("boom")
	for n := 0; ; n++ {
		path := filepath.Join(t.TempDir(), "keys")
		d := OpenDir(path)
		left := n
		d.hook = func(op, path string) error {
			if left--; left < 0 {
				return fmt.Errorf("%s %s: %w", op, path, boom)
			}
			return nil
		}
		err := work(d, p, q)
		if err == nil {
			if n < 20 {
				t.Errorf("only %d steps", n)
			}
			return
		}
		if !errors.Is(err, boom) {
			t.Fatal(err)
		}
		if temps, _ := filepath.Glob(filepath.Join(path, osfile.Unfinished+"*")); len(temps) > 0 {
			t.Errorf("step %d left %v", n, temps)
		}
		whole(t, path, p, q)
	}
}

// The process is killed before every step.
func TestDirKilled(t *testing.T) {
	p, q := testKey(t, 1), testKey(t, 2)
	for n := 0; ; n++ {
		path := filepath.Join(t.TempDir(), "keys")
		child, err := os.StartProcess(os.Args[0], []string{os.Args[0], "-test.run=^TestDirKilledChild$"},
			&os.ProcAttr{Env: append(os.Environ(), "KEY_TEST_DIR="+path, "KEY_TEST_STEP="+strconv.Itoa(n))})
		if err != nil {
			t.Fatal(err)
		}
		state, err := child.Wait()
		if err != nil {
			t.Fatal(err)
		}
		if state.Success() {
			if n < 20 {
				t.Errorf("only %d steps", n)
			}
			return
		}
		if state.Exited() && !strings.Contains(state.String(), "exit status 1") || n > 100 {
			t.Fatalf("step %d: %v", n, state)
		}
		whole(t, path, p, q)
	}
}

// TestDirKilledChild is what TestDirKilled kills; alone it does nothing.
func TestDirKilledChild(t *testing.T) {
	path := os.Getenv("KEY_TEST_DIR")
	if path == "" {
		return
	}
	left, err := strconv.Atoi(os.Getenv("KEY_TEST_STEP"))
	if err != nil {
		t.Fatal(err)
	}
	d := OpenDir(path)
	d.hook = func(string, string) error {
		if left--; left < 0 {
			self, err := os.FindProcess(os.Getpid())
			if err == nil {
				err = self.Kill()
			}
			if err != nil {
				return err
			}
			time.Sleep(time.Hour)
		}
		return nil
	}
	if err := work(d, testKey(t, 1), testKey(t, 2)); err != nil {
		t.Fatal(err)
	}
}
