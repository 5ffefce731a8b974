package catalog

import (
	"context"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/model"
)

// Stubs makes, signs and stages the items of tools. A tool that can't be an item is left out, with Refused set in its
// change.
func (s *Stage) Stubs(ctx context.Context, at Place, spec *Spec, changes []*Change, key Key) ([]*ai.Item, error) {
	var all []*ai.Item
	for _, c := range changes {
		if c.Refused != "" {
			continue
		}
		it, err := stub(s.Draft, at, spec, c)
		if err != nil {
			c.Refused = err.Error()
			continue
		}
		if err := s.Write(ctx, it, key); err != nil {
			return nil, err
		}
		all = append(all, it)
	}
	return all, nil
}

// A Drafter returns the item that a file with these bytes would be; ext is its extension.
type Drafter func(ref model.Ref, ext string, text []byte) (*ai.Item, error)

// CheckStubs sets Refused in each change whose tool can't be an item.
func (s *Stage) CheckStubs(at Place, spec *Spec, changes []Change) {
	CheckStubs(s.Draft, at, spec, changes)
}

// CheckStubs is Stage.CheckStubs for items that aren't on a stage.
func CheckStubs(draft Drafter, at Place, spec *Spec, changes []Change) {
	for i := range changes {
		if c := &changes[i]; c.announced != nil && c.Refused == "" {
			if _, err := stub(draft, at, spec, c); err != nil {
				c.Refused = err.Error()
			}
		}
	}
}

// stub returns the item of a tool, and refuses one that differs from the announcement.
func stub(draft Drafter, at Place, spec *Spec, c *Change) (*ai.Item, error) {
	b, err := Stub(at, spec, c.announced)
	if err != nil {
		return nil, err
	}
	it, err := draft(at.Tool(c.Tool), ".yaml", b)
	if err != nil {
		return nil, err
	}
	return it, checkStub(it.Model, c.announced)
}
