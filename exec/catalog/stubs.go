package catalog

import (
	"context"

	"github.com/rye-build/rye/ai"
)

// Stubs makes, signs and stages the items of tools. A tool that can't be an item is left out, with Refused set in its
// change.
func (s *Stage) Stubs(ctx context.Context, at Place, spec *Spec, changes []*Change, key Key) ([]*ai.Item, error) {
	var all []*ai.Item
	for _, c := range changes {
		if c.Refused != "" {
			continue
		}
		it, err := s.stub(at, spec, c)
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

// CheckStubs sets Refused in each change whose tool can't be an item.
func (s *Stage) CheckStubs(at Place, spec *Spec, changes []Change) {
	for i := range changes {
		if c := &changes[i]; c.announced != nil && c.Refused == "" {
			if _, err := s.stub(at, spec, c); err != nil {
				c.Refused = err.Error()
			}
		}
	}
}

// stub returns the item of a tool, and refuses one that differs from the announcement.
func (s *Stage) stub(at Place, spec *Spec, c *Change) (*ai.Item, error) {
	b, err := Stub(at, spec, c.announced)
	if err != nil {
		return nil, err
	}
	it, err := s.Draft(at.Tool(c.Tool), ".yaml", b)
	if err != nil {
		return nil, err
	}
	return it, checkStub(it.Model, c.announced)
}
