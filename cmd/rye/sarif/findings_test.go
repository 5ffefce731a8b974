package sarif

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/goldentest"
)

// report has a finding of each level, one without a line, and names that would like to be markup.
func report() *Report {
	r := &Report{Command: "lock --check", Version: "1.2.3", Checked: "4 items", Findings: []Finding{
		{Code: fault.Unsigned, Level: Error, File: ".ai/tools/acme/b.py", Name: "tool:acme/b",
			Message: `is unsigned; "**" requires 1 key`, Hint: []string{"rye sign tool:acme/b"}},
		{Code: fault.LockMismatch, Level: Note, File: "rye.lock", Line: 7, Name: "tool:acme/a",
			Message: "pin changed  tool:acme/a"},
		{Code: fault.Validation, Level: Warning, File: ".ai/tools/acme/ä b%20.py", Line: 3, Column: 19,
			Message: "a|b\\|c ``` <script>alert(1)</script>\n| x | @alice #1 \u202e\x1b[31m\xff"},
		{Code: fault.Unsigned, Level: Error, File: "system:acme/base/tools/x.py", Message: "is unsigned",
			Hint: []string{"rye sign `x`", "rye sign `x`"}},
	}, Fault: fault.New(fault.Unsigned, "the project cannot be locked: 2 problems").Asked().
		Try("rye lock --sign tool:acme/b")}
	r.sort()
	return r
}

// TestGolden keeps the bytes of both formats.
func TestGolden(t *testing.T) {
	t.Parallel()
	failed := &Report{Command: "verify", Fault: fault.New(fault.Config, "rye.yaml:2:1: unknown key").On("file",
		"rye.yaml").On("line", 2).On("column", 1).Because("it is new").Try("rye docs project")}
	failed.explain("/p")
	for name, r := range map[string]*Report{"mixed": report(),
		"passed": {Command: "check", Version: "1.2.3", Checked: "1 item"}, "failed": failed} {
		sarif, err := r.SARIF()
		if err != nil {
			t.Fatal(err)
		}
		for ext, got := range map[string][]byte{".sarif": sarif, ".md": r.Markdown()} {
			goldentest.File(t, "testdata/"+name+ext, got)
		}
	}
}

// TestLarge: a summary is never larger than GitHub takes.
func TestLarge(t *testing.T) {
	t.Parallel()
	r := &Report{Command: "check"}
	for range 200 {
		r.Findings = append(r.Findings, Finding{Code: fault.Parsing, Level: Error, File: "a",
			Message: strings.Repeat("\x1b", 500)})
	}
	if text := r.Markdown(); len(text) > 1<<20 || !bytes.Contains(text, []byte(" more\n")) ||
		!bytes.Contains(text, []byte("\n200 errors, ")) {
		t.Errorf("%d bytes: %.200s", len(text), text)
	}
}

// TestMany: a summary lists so many findings and counts the others; their order says nothing.
func TestMany(t *testing.T) {
	t.Parallel()
	r := &Report{Command: "check"}
	for i := range 1234 {
		r.Findings = append(r.Findings, Finding{Code: fault.Validation, Level: Error, File: fmt.Sprintf("%04d", i),
			Message: "x", Hint: []string{fmt.Sprint("rye ", i)}})
	}
	first := r.Markdown()
	slices.Reverse(r.Findings)
	if r.sort(); !bytes.Equal(first, r.Markdown()) {
		t.Error("the order matters")
	}
	if n := bytes.Count(first, []byte("| error |")); n != mostRows ||
		!bytes.Contains(first, []byte("\nand 934 more\n")) ||
		!bytes.Contains(first, []byte("1234 errors")) || bytes.Count(first, []byte("\n- `rye ")) != fault.MaxLines {
		t.Errorf("%d rows\n%s", n, first)
	}
}

var reference = regexp.MustCompile(`&#([0-9]+);`)

// FuzzCode: whatever a text says, it is one cell of a table, in which nothing is markup.
func FuzzCode(f *testing.F) {
	for _, s := range []string{"", "a", " a", "`", "``a`", "|", `\|`, "<b>", "a\nb", "\r", "\x1b[2J", "&lt;", "@x #1",
		"\xff", "\u202e", "www.x.y https://x", "</code>"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got := Code(text)
		if strings.ContainsFunc(got, func(r rune) bool {
			return !unicode.IsPrint(r)
		}) || strings.ContainsAny(got, "|\\\n") {
			t.Fatalf("%q: %q", text, got)
		}
		switch inner, ok := strings.CutPrefix(got, "<code>"); {
		case text == "":
			if got != "" {
				t.Fatal(got)
			}
		case ok:
			inner, ok := strings.CutSuffix(inner, "</code>")
			if rest := reference.ReplaceAllString(inner, ""); !ok || strings.ContainsAny(rest, "`<>&*_[]()!@#:.~\"'") {
				t.Fatalf("%q: %q", text, got)
			}
		default: // a span that holds the text as it is
			if got != "`"+text+"`" || strings.Count(got, "`") != 2 {
				t.Fatalf("%q: %q", text, got)
			}
		}
	})
}

// FuzzSARIF: whatever a finding says, the log is JSON without a character that a terminal obeys, and places are
// relative.
func FuzzSARIF(f *testing.F) {
	f.Add("a", "b", "c")
	f.Add("system:a/b", "\x1b[31m\u009b", "\xff\u2028")
	f.Add("../a b%2f?#", "|", "`")
	f.Fuzz(func(t *testing.T, file, name, message string) {
		r := &Report{Command: "check", Findings: []Finding{{Code: fault.Validation, Level: Error, File: file,
			Name: name, Message: message}}}
		doc, err := r.SARIF()
		if err != nil {
			t.Fatal(err)
		}
		if bytes.ContainsFunc(doc, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }) || !json.Valid(doc) {
			t.Fatalf("%q", doc)
		}
		again, err := r.SARIF()
		if err != nil || !bytes.Equal(doc, again) {
			t.Fatal("other bytes")
		}
	})
}
