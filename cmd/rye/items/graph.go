// The flag --graph of rye show.

package items

import (
	"strings"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/graph"
	"github.com/rye-build/rye/cas/fault"
)

// drawn returns the drawing of a state graph. It refuses other items.
func drawn(it *ai.Item, form string) (string, error) {
	ref := it.Ref.String()
	if !graph.Is(it.Model.Tool) {
		return "", fault.New(fault.Validation, "%q is not a state graph", ref).On("ref", ref).Try("rye docs graphs")
	}
	g, problems := graph.Read(it.Model.Tool)
	if g == nil {
		return "", problems[0].Fault().On("ref", ref).Try(fault.Command("rye check", ref))
	}
	var b strings.Builder
	err := g.Draw(&b, form, "")
	return b.String(), err
}
