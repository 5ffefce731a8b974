package parse

import (
	"testing"

	"github.com/rye-build/rye/ai/value"
)

// TestAttributeSpace: XML makes spaces of line ends and tabs in attributes, but for those that are written as numbers.
func TestAttributeSpace(t *testing.T) {
	p, _ := ByName("markdown_xml")
	for given, want := range map[string]string{
		"a\tb\nc": "a b c", "a&#10;b": "a\nb", "a\n&#10;\t&#x9;&amp;b": "a \n \t&b", "a\r\nb": "a b", " a ": " a ",
	} {
		d := p.Parse([]byte("<directive name='x'><inputs><input name='n' default='" + given +
			"'/></inputs></directive>"))
		if got := d.Fields.Get("inputs").Items[0].Get("default").String(); got != want || len(d.Problems) > 0 {
			t.Errorf("%q: got %q, %v", given, got, d.Problems)
		}
	}
}

// TestColonAtEnd: other readers take [x:, y] for a mapping and a text.
func TestColonAtEnd(t *testing.T) {
	_, problems := YAML([]byte("a: [x:, 'y:', \"z:\"]\n"), value.Pos{})
	if len(problems) != 1 || told(problems[0]) != "1:5 x: ends with a colon: put it in quotes [a[0]]" {
		t.Errorf("got %v", problems)
	}
}
