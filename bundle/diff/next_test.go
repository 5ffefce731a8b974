package diff

import (
	"testing"

	"github.com/rye-build/rye/ai/shape"
)

// TestNext: the lowest version is the one that callers of the old one may take without looking. Below 1.0.0 the second
// number is what breaks.
func TestNext(t *testing.T) {
	breaking := &Report{Class: shape.Breaking, Items: []Item{{Change: Removed, Class: shape.Breaking}}}
	added := &Report{Class: shape.Compatible, Items: []Item{{Change: Added, Class: shape.Compatible}}}
	wider := &Report{Class: shape.Compatible, Items: []Item{{Change: Changed, Class: shape.Compatible,
		Shape: []shape.Item{{Kind: "optional_added", Class: shape.Compatible}}}}}
	text := &Report{Class: shape.Info, Items: []Item{{Change: Changed, Class: shape.Info,
		Shape: []shape.Item{{Kind: "description", Class: shape.Info}}}}}
	for _, c := range []struct {
		report     *Report
		from, want string
	}{
		{breaking, "1.4.2", "2.0.0"}, {added, "1.4.2", "1.5.0"}, {wider, "1.4.2", "1.5.0"}, {text, "1.4.2", "1.4.3"},
		{&Report{}, "1.4.2", "1.4.3"},
		{breaking, "0.4.2", "0.5.0"}, {added, "0.4.2", "0.4.3"}, {text, "0.4.2", "0.4.3"},
		{breaking, "2.0.0-rc.1", "2.0.0"}, {breaking, "1.4.2+build.5", "2.0.0"}, {added, "1.4.2+a-b", "1.5.0"},
	} {
		if got := c.report.Next(c.from); got != c.want {
			t.Errorf("after %s: %s, want %s", c.from, got, c.want)
		}
	}
}
