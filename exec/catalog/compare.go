package catalog

import (
	"slices"

	"github.com/rye-build/rye/ai/flags"
	"github.com/rye-build/rye/ai/shape"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/manifest/jcs"
)

// A State is the relation of an announced tool to its item.
type State string

// The states. All but Same and Removed are quarantined: the tool can't be called as it is announced.
const (
	Same    State = "same"
	Added   State = "added"
	Changed State = "changed"
	Renamed State = "renamed" // added, with the schemas of one that was removed
	Removed State = "removed"
)

// A Change is one tool, and how it differs from its item.
type Change struct {
	State      State         `json:"state"`
	Tool       string        `json:"tool"` // as the server calls it
	Ref        string        `json:"ref"`
	From       string        `json:"from,omitempty"` // of a renamed one: its former name
	Definition cas.Digest    `json:"definition,omitzero"`
	Former     cas.Digest    `json:"pinned,omitzero"` // the definition that the item, or the former one, pins
	Flags      []flags.Flag  `json:"flags"`
	Refused    string        `json:"refused,omitempty"` // why it can't become an item
	Texts      []TextChange  `json:"texts"`
	Shape      *shape.Report `json:"shape,omitempty"`

	announced Definition
	pinned    *Pinned
}

// A TextChange is a field that isn't a schema.
type TextChange struct {
	Field string `json:"field"`
	From  string `json:"from"`
	To    string `json:"to"`
}

// Quarantined reports whether the tool waits for a person.
func (c *Change) Quarantined() bool {
	return c.State == Added || c.State == Changed || c.State == Renamed
}

// Differs reports whether the pinned definition is no longer the announced one. It is false for a tool without an
// item.
func (c *Change) Differs() bool { return c.State == Changed || c.State == Removed }

// Critical reports whether it has to be accepted by name.
func (c *Change) Critical() bool { return flags.AnyCritical(c.Flags) }

// Announced is the definition as the server announces it; nil if it was removed.
func (c *Change) Announced() Definition { return c.announced }

// Pinned is the item of the tool; nil if it has none.
func (c *Change) Pinned() *Pinned { return c.pinned }

// Compare compares the announced tools of a server with its items. The changes are sorted by
// the tools' names.
func Compare(at Place, pinned []*Pinned, announced *Announcement, others flags.Others) ([]Change, error) {
	wrong := checkNames(at, announced.Tools)
	var names []string
	for _, tool := range announced.Tools {
		names = append(names, tool.Name())
	}
	named := flags.Names(names, others)
	var all []Change
	for _, tool := range announced.Tools {
		id, err := tool.Digest()
		if err != nil {
			return nil, err
		}
		change := Change{State: Added, Tool: tool.Name(), Ref: at.Tool(tool.Name()).String(), Definition: id,
			announced: tool,
			Flags:     append(named[tool.Name()], tool.Flags(others)...), Texts: []TextChange{}}
		if change.Flags == nil {
			change.Flags = []flags.Flag{}
		}
		if err := wrong[tool.Name()]; err != nil {
			change.Refused = err.Error()
		}
		if i := slices.IndexFunc(pinned, func(former *Pinned) bool { return former.Tool == tool.Name() }); i >= 0 {
			former := pinned[i]
			change.State, change.Former, change.pinned = Same, former.Definition, former
			change.Ref = former.Item.Ref.String()
			if former.Definition != id {
				change.State = Changed
				change.differ(former.Fields)
			}
		}
		all = append(all, change)
	}
	for _, former := range pinned {
		if announced.Tool(former.Tool) == nil {
			all = append(all, Change{State: Removed, Tool: former.Tool, Ref: former.Item.Ref.String(),
				Former: former.Definition, pinned: former, Flags: []flags.Flag{}, Texts: []TextChange{}})
		}
	}
	rename(all)
	slices.SortFunc(all, func(x, y Change) int { return compare(x.Tool, y.Tool) })
	return all, nil
}

// rename finds those that were added with the schemas of one that was removed.
func rename(all []Change) {
	schemas := func(d Definition) string {
		text, _ := jcs.Append(nil, []any{d["inputSchema"], d["outputSchema"]})
		return string(text)
	}
	for i := range all {
		added := &all[i]
		if added.State != Added {
			continue
		}
		var from *Change
		for j := range all {
			removed := &all[j]
			if removed.State != Removed || schemas(removed.pinned.Fields) != schemas(added.announced) {
				continue
			}
			if from == nil || removed.pinned.Fields.Text("description") == describe(added.announced) {
				from = removed
			}
		}
		if from != nil {
			added.State, added.From, added.Former = Renamed, from.Tool, from.Former
			added.differ(from.pinned.Fields)
		}
	}
}

// differ fills in how a definition differs from what was pinned.
func (c *Change) differ(old Definition) {
	now := c.announced
	for _, name := range []string{"name", "title", "description"} {
		from, to := old.Text(name), now.Text(name)
		if name == "description" {
			to = describe(now)
		}
		if from != to {
			c.Texts = append(c.Texts, TextChange{name, from, to})
		}
	}
	if from, to := text(old["annotations"]), text(now["annotations"]); from != to {
		c.Texts = append(c.Texts, TextChange{"annotations", from, to})
	}
	of := func(d Definition) *shape.Shape {
		return &shape.Shape{Interface: shape.Interface{Input: d["inputSchema"], Output: d["outputSchema"]}}
	}
	r := shape.Diff(of(old), of(now))
	// The report leaves out what decides about no call, such as a description under $defs. A model reads it.
	for _, name := range []string{"inputSchema", "outputSchema"} {
		if from, to := text(old[name]), text(now[name]); from != to {
			c.Texts = append(c.Texts, TextChange{name, from, to})
		}
	}
	if len(r.Items) > 0 {
		c.Shape = &r
	}
}

func text(v any) string {
	if v == nil {
		return ""
	}
	b, err := jcs.Append(nil, v)
	if err != nil {
		return err.Error()
	}
	return string(b)
}
