package fault

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestQuote(t *testing.T) {
	for arg, want := range map[string]string{
		"": "''", "a-b/c.d:e=f,@%+": "a-b/c.d:e=f,@%+", "a b": "'a b'", "it's": `'it'\''s'`, "$(x)": "'$(x)'",
		"ä": "'ä'", "~": "'~'",
	} {
		if got := Quote(arg); got != want {
			t.Errorf("%q: %s, want %s", arg, got, want)
		}
	}
}

// absent is an error type that a caller looks for with errors.As.
type absent struct{ name string }

func (e *absent) Error() string { return "no " + e.name }

func (e *absent) Fault() *Error {
	return New(NotFound, "%s not found", e.name).On("name", e.name).Try("rye ls")
}

func TestOf(t *testing.T) {
	gone := filepath.Join(t.TempDir(), "dir", "file")
	_, err := os.Open(gone)
	for _, test := range []struct {
		err  error
		code Code
		exit int
		text string
	}{
		{New(Config, "bad %s", "x"), Config, ExitUsage, "bad x"},
		{&absent{"x"}, NotFound, ExitMissing, "x not found"},
		{fmt.Errorf("a: %w: b", &absent{"x"}), NotFound, ExitMissing, "a: x not found: b"},
		{Wrap(&absent{"x"}, "in here: %s", "it"), NotFound, ExitMissing, "in here: it"},
		{New(Config, "outer").From(&absent{"x"}), Config, ExitUsage, "outer"},
		{errors.Join(&absent{"x"}, errors.New("y")), NotFound, ExitMissing, "x not found\ny"},
		{context.Canceled, Cancelled, ExitInterrupted, "interrupted"},
		{fmt.Errorf("a: %w", context.DeadlineExceeded), Timeout, ExitNo, "a: context deadline exceeded"},
		{err, Files, ExitMissing, fmt.Sprintf("directory %q not found", filepath.Dir(gone))},
		{fs.ErrNotExist, NotFound, ExitMissing, "file does not exist"},
		{New(Files, "no").Missing(), Files, ExitMissing, "no"},
		{New(Unsigned, "no").Asked(), Unsigned, ExitNo, "no"},
		{New("NO_SUCH_CODE", "no"), "NO_SUCH_CODE", ExitNo, "no"},
		{errors.New("odd"), Unknown, ExitNo, "odd"},
	} {
		if e := Of(test.err); e.Code != test.code || e.Line().Exit != test.exit || e.Text != test.text {
			t.Errorf("%v: %s, exit %d, %q", test.err, e.Code, e.Line().Exit, e.Text)
		}
	}
	if code := CodeOf(nil); code != "" {
		t.Errorf("no error has the code %s", code)
	}
	// What Of returns is the caller's.
	first := New(Config, "x").On("a", 1).Try("rye ls")
	Of(first).On("b", 2).Hint[0] = "rm"
	if len(first.Details) != 1 || first.Hint[0] != "rye ls" {
		t.Errorf("changed: %v", first)
	}
	if e := Wrap(&absent{"x"}, "y"); e.Details["name"] != "x" || strings.Join(e.Hint, "") != "rye ls" ||
		!errors.As(e, new(*absent)) {
		t.Errorf("Wrap lost facts: %+v", e)
	}
}

func TestTable(t *testing.T) {
	seen := map[Code]bool{}
	for _, l := range Table() {
		if seen[l.Code] || l.Help == "" || l.Exit < ExitNo {
			t.Errorf("%+v", l)
		}
		seen[l.Code] = true
	}
	if New(Busy, "x").Permanent().Line().Retryable || !New(Busy, "x").Line().Retryable {
		t.Error("Permanent")
	}
}

func TestWords(t *testing.T) {
	if got := Count(1, "entry") + Count(2, "entry") + Count(0, "key"); got != "1 entry2 entries0 keys" {
		t.Error(got)
	}
	if e := New(Config, "x").List(strings.Split(strings.Repeat("a", 13), "")...); len(e.Why) != MaxLines+1 ||
		e.Why[MaxLines] != "and 3 more" {
		t.Error(e.Why)
	}
	if got := Gravest([]Code{Unsigned, Policy, Integrity}) + Gravest([]Code{Unsigned,
		Expired}); got != Integrity+Unsigned {
		t.Error(got)
	}
}

// TestCodeOfNothing: no error has no code.
func TestCodeOfNothing(t *testing.T) {
	if code := CodeOf(nil); code != "" {
		t.Error(code)
	}
}
