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

// List lists the servers of the project and the user.
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
	worth       string     // why the item isn't used, in words; empty if it is
}

// A ToolLine is one tool. State is empty if the server's announcement isn't known.
type ToolLine struct {
	Tool        string `json:"tool"`
	Ref         string `json:"ref"`
	Description string `json:"description"`
	State       string `json:"state,omitempty"`
}

// Text implements cli.Answer.
func (x *List) Text(term *cli.Terminal) {
	var rows [][]string
	for _, l := range x.Servers {
		rows = append(rows, l.row())
		if len(l.Tools) == 0 {
			continue
		}
		term.Rows(rows)
		rows = nil
		for _, tool := range l.Tools {
			rows = append(rows, []string{"  " + tool.Tool, tool.State, tool.Ref, cut(firstLine(tool.Description), 80)})
		}
		term.Rows(rows)
		rows = nil
	}
	term.Rows(rows)
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
func (c *ListRun) Run(ctx context.Context, app *cli.App) (cli.Answer, error) {
	view, err := openServers(ctx, app, false)
	if err != nil {
		return nil, err
	}
	defer view.Close()
	ans := &List{Servers: []Line{}}
	c.add(ctx, app, view, ans)
	if view.User == nil { // rye.yaml hides the user space, but rye mcp show finds its servers
		if own, err := openServers(ctx, app, true); err == nil {
			defer own.Close()
			c.add(ctx, app, own, ans)
		}
	}
	slices.SortStableFunc(ans.Servers, func(a, b Line) int { return cmp.Compare(a.Name, b.Name) })
	if len(ans.Servers) == 0 {
		app.Term.Note("no MCP servers yet: rye help mcp add")
	}
	return ans, nil
}

// add appends the view's servers, except those whose name the list already has.
func (c *ListRun) add(ctx context.Context, app *cli.App, view *opened, ans *List) {
	before := ans.Servers
	for _, server := range view.servers {
		if slices.ContainsFunc(before, func(line Line) bool { return line.Name == server.Name }) {
			continue
		}
		line := Line{Name: server.Name, Count: len(server.Tools)}
		if server.Wrong != nil {
			line.Error = fault.Of(server.Wrong).Text
		}
		if server.Item != nil {
			line.Scope = server.Item.Space.Label
			w, _ := view.Worth(ctx, server.Item)
			if line.Trust = w.Trust; w.Trust == "refused" || w.Trust == "unsigned" {
				line.worth = w.Words()
			}
		}
		if server.Spec != nil {
			line.Transport, line.Target = server.Spec.Transport, target(server.Spec)
		}
		_, changes, err := view.changes(server)
		if err != nil {
			app.Term.Warn("%s: %s", server.Name, fault.Of(err).Text)
		}
		line.Quarantined = number(changes, (*catalog.Change).Quarantined)
		if c.Tools {
			line.Tools = toolLines(server, changes)
		}
		ans.Servers = append(ans.Servers, line)
	}
}

func target(s *catalog.Spec) string {
	if s.Transport == catalog.HTTP {
		return s.URL
	}
	return strings.Join(append([]string{s.Command}, s.Args...), " ")
}

// toolLines returns the tools that have items, and the new or renamed ones that wait for rye mcp accept.
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
