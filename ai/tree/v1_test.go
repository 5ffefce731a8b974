package tree_test

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/rye-build/rye/ai/tree"
)

// firstLine is a line of the first format, which anybody can write above a file of a signed tree.
var firstLine = "rye:signed:2026-01-01T00:00:00Z:" + strings.Repeat("a", 64) + ":" + strings.Repeat("A",
	86) + "==:0123456789abcdef"

// TestMoreThanAComment: a line of the first format is taken off where it is a comment and nothing else. What stands
// behind its fields can choose a coding for Python, and ends the line for those who take CR or U+2028 as an end.
func TestMoreThanAComment(t *testing.T) {
	const code = "a = \"\\x0aimport os\"\n"
	coding, shebang := "# -*- coding: utf-8 -*-\n", "#!/bin/sh\n"
	for _, c := range []struct{ name, file, changed string }{
		{"a coding", "lib.py", "# " + firstLine + " coding:unicode_escape\n" + code},
		{"a coding behind an origin", "lib.py", "# " + firstLine + "|a@b coding:unicode_escape\n" + code},
		{"text without space", "lib.py", "# " + firstLine + "coding:unicode_escape\n" + code},
		{"CR", "lib.py", "# " + firstLine + "\rimport evil\n" + code},
		{"CR in a comment of sh", "lib.sh", "# " + firstLine + "\r" + code},
		{"CR behind #!", "lib.sh", shebang + "# " + firstLine + "\r" + code},
		{"CR behind a coding", "lib.py", coding + "# " + firstLine + "\rimport evil\n" + code},
		{"a byte order mark behind it", "lib.py", "# " + firstLine + "\n\ufeff" + code},
		{"#! behind it", "lib.sh", "# " + firstLine + "\n#! /bin/sh\n" + code},
		{"a coding behind it", "lib.py", "# " + firstLine + "\n# a\n# coding: latin-1\n" + code},
		{"U+2028 in JavaScript", "lib.js", "// " + firstLine + "\u2028evil()\n" + code},
		{"CR in JavaScript", "lib.js", "// " + firstLine + "\revil()\n" + code},
		{"two lines", "lib.js", "// " + firstLine + "\n// " + firstLine + "\revil()\n" + code},
		{"behind a byte order mark", "lib.py", "\ufeff# " + firstLine + "\rimport evil\n" + code},
		{"a comment of HTML", "lib.md", "<!-- " + firstLine + " --><script>evil()</script>\n" + code},
		{"a comment of Lua", "lib.lua", "-- " + firstLine + " --\n" + code},
	} {
		before := code
		switch {
		case strings.HasPrefix(c.changed, coding):
			before = coding + code
		case strings.HasPrefix(c.changed, shebang):
			before = shebang + code
		case strings.HasPrefix(c.changed, "\ufeff"):
			before = "\ufeff" + code
		case strings.Contains(c.changed, "\n\ufeff"):
			before = "\ufeff" + code
		case strings.Contains(c.changed, "\n#! "):
			before = "#! /bin/sh\n" + code
		case strings.Contains(c.changed, "latin-1"):
			before = "# a\n# coding: latin-1\n" + code
		}
		m := fstest.MapFS{"tools/x/x.py": file(""), "tools/x/" + c.file: file(before)}
		want := read(t, m).Digest
		m["tools/x/"+c.file] = file(c.changed)
		got, err := tree.Root{FS: m, Dir: "tools/x", Except: "x.py"}.Read(t.Context())
		if err == nil && got.Digest == want {
			t.Errorf("%s: the tree is the same", c.name)
		}
	}
	for _, text := range []string{"# %\n" + code, "# %\r\n" + code, "# %|a@b\n" + code, shebang + "# %\n" + code,
		"# %\n", "# %\n# a\n" + code} {
		m := fstest.MapFS{"tools/x/x.py": file(""), "tools/x/lib.py": file(strings.ReplaceAll(text, "%", firstLine))}
		got := read(t, m).Digest
		_, without, _ := strings.Cut(text, "# %")
		m["tools/x/lib.py"] = file(strings.ReplaceAll(text[:strings.Index(text, "# %")]+without[strings.Index(without,
			"\n")+1:], "%", firstLine))
		if want := read(t, m).Digest; got != want {
			t.Errorf("%q: the tree is another", text)
		}
	}
}

// endless is a file that never ends, as one of a terabyte with nothing in it does not.
type endless struct {
	fstest.MapFS
	cancel context.CancelFunc
}

func (e endless) Open(name string) (fs.File, error) {
	f, err := e.MapFS.Open(name)
	if err == nil && strings.HasSuffix(name, "/big") {
		f = endlessFile{f, e.cancel}
	}
	return f, err
}

type endlessFile struct {
	fs.File
	cancel context.CancelFunc
}

func (f endlessFile) Read(p []byte) (int, error) { f.cancel(); return len(p), nil }

// TestCancelledInFile: a file larger than anybody waits for doesn't keep an operation from being given up.
func TestCancelledInFile(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	m := endless{fstest.MapFS{"tools/x/x.py": file(""), "tools/x/big": file("")}, cancel}
	if _, err := (tree.Root{FS: m, Dir: "tools/x", Except: "x.py"}).Read(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
