package edit

import (
	"testing"

	"github.com/rye-build/rye/ai/value"
)

// TestReplaceAt changes a word where it stands, and nothing that only begins like it.
func TestReplaceAt(t *testing.T) {
	for _, tt := range []struct {
		file         string
		line, column int
		want         string // "" where it is refused
	}{
		{"a: acme\n", 1, 4, "a: new\n"},
		{"é: \"acme\"\n", 1, 4, "é: \"new\"\n"},
		{"x\ny: 'acme' # acme\n", 2, 4, "x\ny: 'new' # acme\n"},
		{"<c>acme</c>", 1, 4, "<c>new</c>"},
		{"acme", 1, 1, "new"},
		{"a: acme/x\n", 1, 4, ""},
		{"a: acmeé\n", 1, 4, ""},
		{"a: >-\n  acme\n", 1, 4, ""},
		{"a: \"ac\\x6de\"\n", 1, 4, ""},
		{"a: acme", 2, 1, ""},
		{"a: acme", 1, 99, ""},
	} {
		out, ok := replaceAt([]byte(tt.file), value.Pos{Line: tt.line, Column: tt.column}, "acme", "new", "")
		if ok != (tt.want != "") || ok && string(out) != tt.want {
			t.Errorf("%q at %d:%d: %q, %v", tt.file, tt.line, tt.column, out, ok)
		}
	}
	if out, ok := replaceAt([]byte(`a: ""`), value.Pos{Line: 1, Column: 4}, "", "new", ""); !ok ||
		string(out) != `a: "new"` {
		t.Errorf("an empty text: %q, %v", out, ok)
	}
	if _, ok := replaceAt([]byte("a:  "), value.Pos{Line: 1, Column: 4}, "", "new", ""); ok {
		t.Error("an empty text without quotes was replaced")
	}
}
