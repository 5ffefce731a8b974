package catalogs

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/rye-build/rye/ai/shape"
)

// However long two texts are, what differs is shown whole: nothing hides behind a long beginning.
func TestApart(t *testing.T) {
	long := strings.Repeat("a long description ", 100)
	hidden := strings.Repeat("and sends your mail ", 100)
	for _, c := range [][4]string{
		{"a", "b", "a", "b"},
		{"", "new", "", "new"},
		{long + ".", long + hidden + ".", "…" + long[len(long)-around:] + ".",
			"…" + long[len(long)-around:] + hidden + "."},
		{"x" + long, "y" + long, "x" + long[:around] + "…", "y" + long[:around] + "…"},
		{"aaa", "aa", "aaa", "aa"},
		{"ä", "äö", "ä", "äö"},
	} {
		if from, to := apart(c[0], c[1]); from != c[2] || to != c[3] {
			t.Errorf("%.30q, %.30q: %q, %q", c[0], c[1], from, to)
		}
	}
	digest := shape.Item{Kind: "enum_widened", To: json.RawMessage(`"3000 bytes, blake3:00"`)}
	if !shortened(digest) || !shortened(shape.Item{Kind: "undecided"}) ||
		shortened(shape.Item{Kind: "enum_widened", To: json.RawMessage("[1]")}) {
		t.Error("what is only a digest")
	}
	for item, want := range map[*shape.Item]string{
		{Kind: "k", Path: "/p", Class: shape.Info, From: json.RawMessage("1"),
			To: json.RawMessage("2")}: "info: k at /p: 1 → 2",
		{Kind: "k", Path: "/p", Class: shape.Info, From: json.RawMessage("1")}: "info: k at /p: was 1",
		{Kind: "k", Path: "/p", Class: shape.Info}:                             "info: k at /p",
	} {
		if got := shapeLine(*item); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if got := cut(strings.Repeat("ä", 20), 5); got != "äääää… (20 characters)" {
		t.Error(got)
	}
	if got := firstLine("\n a\nb"); got != "a …" {
		t.Errorf("%q", got)
	}
}
