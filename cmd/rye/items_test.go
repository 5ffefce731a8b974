package main

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/initcmd"
	"github.com/rye-build/rye/cmd/rye/items"
)

// TestConfined writes and removes below a directory and nowhere else.
func TestConfined(t *testing.T) {
	dir := t.TempDir()
	away := t.TempDir()
	d, err := osfile.OpenDir(dir, 0o777)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	check := func(what string, err, want error) {
		t.Helper()
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", what, err, want)
		}
	}
	check("new", d.Write("tools/acme/a.py", 0o755, true, []byte("one")), nil)
	check("again", d.Write("tools/acme/a.py", 0o644, true, []byte("two")), fs.ErrExist)
	check("replace", d.Write("tools/acme/a.py", 0o644, false, []byte("three")), nil)
	if b, err := d.Read("tools/acme/a.py", 10); err != nil || string(b) != "three" {
		t.Errorf("read: %q, %v", b, err)
	}
	if b, err := d.Read("tools/none/a.py", 10); b != nil || err != nil {
		t.Errorf("read what isn't there: %q, %v", b, err)
	}
	if _, err := d.Read("tools/acme/a.py", 2); err == nil {
		t.Error("read more than may be")
	}
	left, err := os.ReadDir(filepath.Join(dir, "tools", "acme"))
	if err != nil || len(left) != 1 {
		t.Errorf("left behind: %v, %v", left, err)
	}

	if err := os.Symlink(away, filepath.Join(dir, "knowledge")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("acme", filepath.Join(dir, "tools", "inside")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(away, "x.md"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"knowledge/x.md", "knowledge/deep/x.md", "tools/inside/x.md"} {
		if f := fault.Of(d.Write(name, 0o644, false, nil)); f.Code != fault.Denied ||
			!strings.Contains(f.Text, "symbolic link") {
			t.Errorf("write %s: %v", name, f)
		}
	}
	if f := fault.Of(d.Remove("knowledge/x.md")); f.Code != fault.Denied {
		t.Errorf("remove through a link: %v", f)
	}
	// A link in the place of the file is replaced or refused, and never followed.
	if err := os.Symlink(filepath.Join(away, "x.md"), filepath.Join(dir, "link.md")); err != nil {
		t.Fatal(err)
	}
	if f := fault.Of(mustFail(t, func() error {
		_, err := d.Read("link.md", 10)
		return err
	})); f.Code != fault.Denied {
		t.Errorf("read a link: %v", f)
	}
	check("replace a link", d.Write("link.md", 0o644, false, []byte("mine")), nil)
	if b, err := os.ReadFile(filepath.Join(away, "x.md")); err != nil || len(b) != 0 {
		t.Errorf("written through a link: %q, %v", b, err)
	}
	check("a file for a directory", d.Write("link.md/x", 0o644, false, nil), osfile.NotDirectory)

	check("remove", d.Remove("tools/acme/a.py"), nil)
	if _, err := os.Lstat(filepath.Join(dir, "tools", "acme")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the empty directory stays: %v", err)
	}
	if _, err := os.Lstat(filepath.Join(dir, "tools")); err != nil {
		t.Errorf("the kind's directory is gone: %v", err)
	}
	check("remove again", d.Remove("tools/acme/a.py"), nil)
}

func mustFail(t *testing.T, f func() error) error {
	t.Helper()
	err := f()
	if err == nil {
		t.Fatal("no error")
	}
	return err
}

// TestWithLines adds what is missing and leaves the rest.
func TestWithLines(t *testing.T) {
	for _, tt := range []struct{ file, want string }{
		{"", "a b\nc\n"},
		{"x", "x\na b\nc\n"},
		{"a \t b\n", "a \t b\nc\n"},
		{"c\r\nx\r\n", "c\r\nx\r\na b\r\n"},
		{"a b\nc", "a b\nc"},
		{"#c\n", "#c\na b\nc\n"},
	} {
		if out := initcmd.WithLines([]byte(tt.file), []string{"a b", "c"}); string(out) != tt.want {
			t.Errorf("%q: %q, want %q", tt.file, out, tt.want)
		}
	}
}

// TestShowPart gives a terminal only what can't repaint it, and everybody else the bytes.
func TestShowPart(t *testing.T) {
	const part = "a\tb\x1b[31m\r\nlast\u202e"
	var out bytes.Buffer
	for _, tty := range []bool{false, true} {
		out.Reset()
		term := cli.NewTerminal(cli.Stream{Writer: &out, Tty: tty}, cli.Stream{Writer: &out})
		(&items.ShowAnswer{Part: part, Only: true}).Text(term)
		if err := term.Data.Flush(); err != nil {
			t.Fatal(err)
		}
		want := part
		if tty {
			want = "a\tb\\x1b[31m\\r\nlast\\u202e\n"
		}
		if out.String() != want {
			t.Errorf("tty %v: %q, want %q", tty, out.String(), want)
		}
	}
}

// TestStarter makes a name of whatever a directory is called.
func TestStarter(t *testing.T) {
	for dir, want := range map[string]string{
		"/src/My Site.example": `name: "my-site-example"`,
		"/src/2026":            `name: "2026"`,
		"/src/ü":               `name: "project"`,
		"/":                    `name: "project"`,
	} {
		if got := initcmd.Starter(filepath.FromSlash(dir)); !strings.Contains(got, "\n"+want+"\n") {
			t.Errorf("%s: %s", dir, got)
		}
	}
}

// TestConfinedTogether writes and removes in one directory from several sides, which make it and take it away.
func TestConfinedTogether(t *testing.T) {
	dir := t.TempDir()
	var group sync.WaitGroup
	for n := range 8 {
		group.Go(func() {
			d, err := osfile.OpenDir(dir, 0o777)
			if err != nil {
				t.Error(err)
				return
			}
			defer d.Close()
			name := "tools/acme/" + string(rune('a'+n/4)) + ".py" // four of each
			for range 500 {
				if err := errors.Join(d.Write(name, 0o644, false, nil), d.Remove(name)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
}
