package catalogs

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/exec/catalog"
)

// ListRun is rye mcp list.
type ListRun struct {
	Tools bool `help:"List the tools too."`
}

// List is what servers there are.
type List struct {
	Servers []Line `json:"servers"`
}

// A Line is one server.
type Line struct {
	Name        string     `json:"name"`
	Scope       string     `json:"scope"` // the space
	Transport   string     `json:"transport,omitempty"`
	Target      string     `json:"target,omitempty"` // command or URL
	Count       int        `json:"tool_count"`
	Tools       []ToolLine `json:"tools,omitempty"`
	Quarantined int        `json:"quarantined"`
	Trust       string     `json:"trust,omitempty"` // of its item: signed, unsigned, refused, …
	Error       string     `json:"error,omitempty"`
	worth       string     // in words, if the item isn't used
}

// A ToolLine is one tool. State is empty where nothing is remembered of the server.
type ToolLine struct {
	Tool        string `json:"tool"`
	Ref         string `json:"ref"`
	Description string `json:"description"`
	State       string `json:"state,omitempty"`
}

// Text implements cli.Answer.
func (x *List) Text(t *cli.Terminal) {
	var rows [][]string
	for _, l := range x.Servers {
		rows = append(rows, l.row())
		if len(l.Tools) == 0 {
			continue
		}
		t.Rows(rows)
		rows = nil
		for _, tool := range l.Tools {
			rows = append(rows, []string{"  " + tool.Tool, tool.State, tool.Ref, cut(firstLine(tool.Description), 80)})
		}
		t.Rows(rows)
		rows = nil
	}
	t.Rows(rows)
}

func (l *Line) row() []string {
	state := tools(l.Count)
	if l.Quarantined > 0 {
		state += fmt.Sprintf(", %d quarantined", l.Quarantined)
	}
	if l.Error != "" {
		state = l.Error
	} else if l.worth != "" {
		state += ", " + l.worth
	}
	return []string{l.Name, l.Scope, l.Transport, l.Target, state}
}

// Run implements cli.Runner.
func (c *ListRun) Run(ctx context.Context, a *cli.App) (cli.Answer, error) {
	o, err := openServers(ctx, a, false)
	if err != nil {
		return nil, err
	}
	defer o.Close()
	x := &List{Servers: []Line{}}
	c.add(ctx, a, o, x)
	if o.User == nil { // a project that doesn't look there: rye mcp show finds them nevertheless
		if own, err := openServers(ctx, a, true); err == nil {
			defer own.Close()
			c.add(ctx, a, own, x)
		}
	}
	slices.SortStableFunc(x.Servers, func(a, b Line) int { return cmp.Compare(a.Name, b.Name) })
	if len(x.Servers) == 0 {
		a.Term.Note("no MCP servers yet: rye help mcp add")
	}
	return x, nil
}

// add adds the servers whose names aren't there yet.
func (c *ListRun) add(ctx context.Context, a *cli.App, o *opened, x *List) {
	before := x.Servers
	for _, s := range o.servers {
		if slices.ContainsFunc(before, func(l Line) bool { return l.Name == s.Name }) {
			continue
		}
		l := Line{Name: s.Name, Count: len(s.Tools)}
		if s.Wrong != nil {
			l.Error = fault.Of(s.Wrong).Text
		}
		if s.Item != nil {
			l.Scope = s.Item.Space.Label
			w, _ := o.Worth(ctx, s.Item)
			if l.Trust = w.Trust; w.Trust == "refused" || w.Trust == "unsigned" {
				l.worth = w.Words()
			}
		}
		if s.Spec != nil {
			l.Transport, l.Target = s.Spec.Transport, target(s.Spec)
		}
		_, changes, err := o.changes(s)
		if err != nil {
			a.Term.Warn("%s: %s", s.Name, fault.Of(err).Text)
		}
		l.Quarantined = number(changes, (*catalog.Change).Quarantined)
		if c.Tools {
			l.Tools = toolLines(s, changes)
		}
		x.Servers = append(x.Servers, l)
	}
}

func target(s *catalog.Spec) string {
	if s.Transport == catalog.HTTP {
		return s.URL
	}
	return strings.Join(append([]string{s.Command}, s.Args...), " ")
}

// toolLines are the tools that have items, and those that wait for a person.
func toolLines(s *catalog.Server, changes []catalog.Change) []ToolLine {
	lines := []ToolLine{}
	state := map[string]string{}
	for i := range changes {
		state[changes[i].Tool] = string(changes[i].State)
	}
	for _, p := range s.Tools {
		lines = append(lines, ToolLine{p.Tool, p.Item.Ref.String(), p.Fields.Text("description"), state[p.Tool]})
	}
	for i := range changes {
		if c := &changes[i]; c.State == catalog.Added || c.State == catalog.Renamed {
			lines = append(lines, ToolLine{c.Tool, c.Ref, c.Announced().Text("description"), string(c.State)})
		}
	}
	return lines
}
