package spaces

import (
	"github.com/rye-build/rye/ai"
)

// Locked says whether an item is as the project's lock has it.
func (v *Items) Locked(it *ai.Item, tree *TreeLine) string {
	if v.Lock == nil || v.Lock.Old == nil {
		return ""
	}
	p := v.Lock.Old.Pin(it.Ref)
	switch {
	case p == nil:
		return "not locked"
	case p.From != it.Space.Label, p.Digest != it.Raw, tree == nil && !p.Tree.IsZero(), tree != nil && tree.Digest != p.Tree.String():
		return "differs"
	}
	return "locked"
}
