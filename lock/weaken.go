package lock

import (
	"context"
	"fmt"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/ai/shape"
	"github.com/rye-build/rye/lock/file"
)

// A Weakness is one way in which a lock checks less than the previous lock, or allows more. The user accepts it by
// its name.
type Weakness struct {
	Name    string       `json:"name"` // a ref, the id of a bundle, or what else the entry is called
	Kind    WeaknessKind `json:"kind"`
	From    string       `json:"from"`
	To      string       `json:"to"`
	Details []string     `json:"details"` // of grants: one line for each that is wider, or why it can't be told
}

// A WeaknessKind is the kind of a weakness; most are kinds of changes in package file.
type WeaknessKind = file.Kind

// The kinds that package file lacks.
const (
	GrantsWidened WeaknessKind = "grants_widened"
	RiskRaised    WeaknessKind = "risk_raised"
)

// Weakening returns the weaknesses of the lock of to compared with that of from, in the order of file.Diff. New bytes
// by the same signers are no weakness, and neither are new or removed items. Wider grants are found by reading the
// items; unreadable grants count as wider. An error is the context's.
func Weakening(ctx context.Context, from, to *Side) ([]Weakness, error) {
	var all []Weakness
	var views [2]*ai.View
	for _, c := range file.Weakening(file.Diff(from.lock, to.lock)) {
		if c.Kind != file.GrantsChanged {
			all = append(all, Weakness{Name: c.Name, Kind: c.Kind, From: c.From, To: c.To})
			continue
		}
		for i, s := range [...]*Side{from, to} {
			if views[i] == nil {
				v, err := s.view(ctx)
				if err != nil {
					return nil, err
				}
				views[i] = v
			}
		}
		wider, err := widened(ctx, from, to, views, c)
		if err != nil {
			return nil, err
		}
		all = append(all, wider...)
	}
	return all, nil
}

// widened compares the grants of two states of an item.
func widened(ctx context.Context, from, to *Side, views [2]*ai.View, c file.Change) ([]Weakness, error) {
	ref, err := model.ParseRef(c.Name)
	if err != nil {
		return nil, err
	}
	var wants [2]shape.Grants
	for i, s := range [...]*Side{from, to} {
		it, err := s.item(ctx, views[i], ref)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err != nil {
			which := [...]string{"old", "new"}[i]
			return []Weakness{{c.Name, GrantsWidened, c.From, c.To,
				[]string{fmt.Sprintf("the %s grants are unreadable and count as wider: %v", which, err)}}}, nil
		}
		wants[i] = it.Model.Grants()
	}
	wider := Weakness{Name: c.Name, Kind: GrantsWidened, From: c.From, To: c.To}
	var all []Weakness
	for _, x := range shape.Widened(wants[0], wants[1]) {
		if x.Kind == string(RiskRaised) {
			all = append(all, Weakness{Name: c.Name, Kind: RiskRaised, From: wants[0].Risk, To: wants[1].Risk})
			continue
		}
		wider.Details = append(wider.Details, line(x))
	}
	if len(wider.Details) > 0 {
		all = append([]Weakness{wider}, all...)
	}
	return all, nil
}

// line describes a change.
func line(x shape.Item) string {
	s := x.Kind + " " + x.Path
	switch {
	case x.From == nil && x.To != nil:
		s += fmt.Sprintf(": %s", x.To)
	case x.To == nil && x.From != nil:
		s += fmt.Sprintf(": %s removed", x.From)
	case x.From != nil:
		s += fmt.Sprintf(": %s → %s", x.From, x.To)
	}
	return s
}
