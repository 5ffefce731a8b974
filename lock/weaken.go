package lock

import (
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/ai/shape"
	"github.com/rye-build/rye/lock/file"
	"github.com/rye-build/rye/manifest/jcs"
)

// A Weakness is one way in which a lock checks less than the previous lock, or allows more. The user accepts it by
// its name.
type Weakness struct {
	Name    string       `json:"name"` // a ref, the id of a bundle, or what else the entry is called
	Kind    WeaknessKind `json:"kind"`
	From    string       `json:"from"`
	To      string       `json:"to"`
	Details []string     `json:"details"` // each wider grant, why it can't be told, or a missing risk
}

// A WeaknessKind is the kind of a weakness; most are kinds of changes in package file.
type WeaknessKind = file.Kind

// The kinds that package file lacks.
const (
	GrantsWidened WeaknessKind = "grants_widened"
	RiskRaised    WeaknessKind = "risk_raised"
	ServerChanged WeaknessKind = "server_changed" // of a plugin: what it starts, or where it connects to
)

// Weakening returns the weaknesses of the lock of to compared with that of from, in the order of file.Diff. New bytes
// by the same signers are no weakness, except those of the item of a plugin's server, which say what it starts.
// Neither are new or removed items. Wider grants and changed servers are found by reading the items; unreadable ones
// count as wider and as changed. An error is the context's.
func Weakening(ctx context.Context, from, to *Side) (all []Weakness, err error) {
	pair := &pair{sides: [2]*Side{from, to}}
	for _, change := range file.Diff(from.lock, to.lock) {
		var more []Weakness
		switch {
		case change.Kind == file.GrantsChanged:
			more, err = pair.widened(ctx, change)
		case change.Kind == file.PinChanged && mayBeServer(to.lock, change.Name):
			more, err = pair.server(ctx, change)
		case change.Weakens():
			more = []Weakness{{Name: change.Name, Kind: change.Kind, From: change.From, To: change.To}}
		}
		if err != nil {
			return nil, err
		}
		all = append(all, more...)
	}
	return all, nil
}

// A pair is two sides that are compared, and their views once they are needed.
type pair struct {
	sides [2]*Side
	views [2]*ai.View
}

// items returns both states of an item. why says what is unreadable, "" for nothing; an error is the context's.
func (p *pair) items(ctx context.Context, change file.Change, what string) (items [2]*ai.Item, why string, err error) {
	ref, err := model.ParseRef(change.Name)
	if err != nil {
		return items, "", err
	}
	for i, side := range p.sides {
		if p.views[i] == nil {
			if p.views[i], err = side.view(ctx); err != nil {
				return items, "", err
			}
		}
		items[i], err = side.item(ctx, p.views[i], ref)
		if ctx.Err() != nil {
			return items, "", context.Cause(ctx)
		}
		if err != nil {
			return items, fmt.Sprintf("the %s %s: %v", [...]string{"old", "new"}[i], what, err), nil
		}
	}
	return items, "", nil
}

// mayBeServer reports whether a ref is that of a server of a plugin which came as a bundle, as far as a lock says.
// What rye made of an unsigned plugin is in the project, after the user had seen it.
func mayBeServer(l *file.Lock, name string) bool {
	ref, err := model.ParseRef(name)
	if err != nil || ref.Kind != "tool" || path.Base(path.Dir(ref.ID)) != "servers" {
		return false
	}
	pin := l.Pin(ref)
	return pin != nil && strings.HasPrefix(pin.From, file.System)
}

// server compares what two states of a plugin's server start.
func (p *pair) server(ctx context.Context, change file.Change) ([]Weakness, error) {
	items, why, err := p.items(ctx, change, "server is unreadable and counts as another one")
	if err != nil {
		return nil, err
	}
	changed := Weakness{Name: change.Name, Kind: ServerChanged, From: change.From, To: change.To}
	if why != "" {
		changed.Details = []string{why}
		return []Weakness{changed}, nil
	}
	if items[1].Model.Tool.Plugin == "" {
		return nil, nil
	}
	was, now := starts(items[0].Model.Tool), starts(items[1].Model.Tool)
	for _, field := range slices.Sorted(maps.Keys(shared(was, now))) {
		switch {
		case was[field] == now[field]:
		case was[field] == "":
			changed.Details = append(changed.Details, field+": "+now[field]+" added")
		case now[field] == "":
			changed.Details = append(changed.Details, field+": "+was[field]+" removed")
		default:
			changed.Details = append(changed.Details, field+": "+was[field]+" → "+now[field])
		}
	}
	if ref := items[1].Ref; p.sides[0].lock.Pin(ref).Files != p.sides[1].lock.Pin(ref).Files {
		changed.Details = append(changed.Details, "its packages, or other files beside it")
	}
	if len(changed.Details) == 0 {
		return nil, nil
	}
	return []Weakness{changed}, nil
}

// starts returns the fields of a server that say what it starts, or where it connects to, each as JSON.
func starts(tool *model.Tool) map[string]string {
	fields := map[string]string{"executor": tool.Executor, "packages": tool.Packages}
	if tool.Config != nil {
		for _, entry := range tool.Config.Map {
			v, err := entry.Value.JSON()
			text, unwritable := jcs.Append(nil, v)
			if err != nil || unwritable != nil {
				text = []byte("invalid")
			}
			fields[entry.Key] = string(text)
		}
	}
	return fields
}

// shared returns the keys of both maps.
func shared(a, b map[string]string) map[string]string {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

// widened compares the grants of two states of an item.
func (p *pair) widened(ctx context.Context, change file.Change) ([]Weakness, error) {
	items, why, err := p.items(ctx, change, "grants are unreadable and count as wider")
	if err != nil {
		return nil, err
	}
	if why != "" {
		return []Weakness{{change.Name, GrantsWidened, change.From, change.To, []string{why}}}, nil
	}
	var wants [2]shape.Grants
	for i, it := range items {
		wants[i] = it.Model.Grants()
	}
	wider := Weakness{Name: change.Name, Kind: GrantsWidened, From: change.From, To: change.To}
	var all []Weakness
	for _, x := range shape.Widened(wants[0], wants[1]) {
		if x.Kind == string(RiskRaised) {
			raised := Weakness{Name: change.Name, Kind: RiskRaised, From: wants[0].Risk, To: wants[1].Risk}
			if x.Note != "" {
				raised.Details = []string{x.Note}
			}
			all = append(all, raised)
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
