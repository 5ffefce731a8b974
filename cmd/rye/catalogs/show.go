package catalogs

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/exec/catalog"
)

// ShowRun is rye mcp show.
type ShowRun struct {
	Name string `arg:"" complete:"mcp" help:"Name of the server."`
	Tool string `arg:"" optional:"" help:"One of its tools, as the server calls it."`
}

// Shown describes a server, or one of its tools.
type Shown struct {
	Name        string               `json:"name"`
	Ref         string               `json:"ref"`
	File        string               `json:"file"`
	Transport   string               `json:"transport"`
	Trust       string               `json:"trust"`       // of its item: signed, unsigned, refused, …
	Executables []catalog.Executable `json:"executables"` // the fields that decide what runs or where data is sent
	Read        []string             `json:"read"`
	Write       []string             `json:"write"`
	Network     []string             `json:"network"`
	Secrets     []string             `json:"secrets"`
	Tools       []ShownTool          `json:"tools"`
	Refreshed   time.Time            `json:"refreshed,omitzero"` // the time of the last announcement
	Changes     []catalog.Change     `json:"changes"`            // how that announcement differs from the items
	one         bool
	worth       string
}

// A ShownTool is one tool that has an item.
type ShownTool struct {
	Tool         string          `json:"tool"`
	Ref          string          `json:"ref"`
	Title        string          `json:"title,omitempty"`
	Description  string          `json:"description"`
	Risk         string          `json:"risk"`
	Definition   string          `json:"definition"`
	Faithful     bool            `json:"faithful"` // false: the item was edited and differs from its definition
	Annotations  json.RawMessage `json:"annotations,omitempty"`
	InputSchema  json.RawMessage `json:"input_schema,omitempty"`
	OutputSchema json.RawMessage `json:"output_schema,omitempty"`
}

// Text implements cli.Answer.
func (x *Shown) Text(term *cli.Terminal) {
	if x.one {
		for i := range x.Tools {
			x.Tools[i].print(term)
		}
		x.printChanges(term)
		return
	}
	term.Printf("%s  %s\n", x.Ref, x.File)
	rows := [][]string{{"trust", x.worth}}
	for _, e := range x.Executables {
		rows = append(rows, []string{e.Field, e.Value})
	}
	term.Rows(append(rows, grantRows(x.Read, x.Write, x.Network, x.Secrets, nil)...))
	rows = nil
	for _, tool := range x.Tools {
		note := cut(firstLine(tool.Description), 80)
		if !tool.Faithful {
			note = "edited: it differs from its definition"
		}
		rows = append(rows, []string{tool.Tool, tool.Risk, tool.Definition[:19], note})
	}
	term.Rows(rows)
	x.printChanges(term)
}

func (x *Shown) printChanges(t *cli.Terminal) {
	for i := range x.Changes {
		for _, line := range changeLines(&x.Changes[i]) {
			t.Printf("%s\n", line)
		}
	}
	if next := nextAccept(x.Name, x.Changes); next != "" {
		t.Note("next: %s", next)
	}
}

func (s *ShownTool) print(term *cli.Terminal) {
	term.Printf("%s\n", s.Ref)
	rows := [][]string{{"tool", s.Tool}, {"title", s.Title}, {"risk", s.Risk}, {"definition", s.Definition}}
	if s.Title == "" {
		rows = slices.Delete(rows, 1, 2)
	}
	if !s.Faithful {
		rows = append(rows, []string{"edited", "it differs from its definition"})
	}
	term.Rows(rows)
	for line := range strings.Lines(s.Description) {
		term.Printf("  %s\n", strings.TrimSuffix(line, "\n"))
	}
	for _, section := range []struct {
		name string
		text json.RawMessage
	}{{"annotations", s.Annotations}, {"input_schema", s.InputSchema}, {"output_schema", s.OutputSchema}} {
		if section.text != nil {
			term.Printf("%s %s\n", section.name, string(section.text))
		}
	}
}

// Run implements cli.Runner.
func (c *ShowRun) Run(ctx context.Context, app *cli.App) (cli.Answer, error) {
	view, server, err := openServer(ctx, app, c.Name)
	if err != nil {
		return nil, err
	}
	defer view.Close()
	ans := &Shown{Name: server.Name, Ref: server.Item.Ref.String(), File: view.Name(server.Item.Space,
		server.Item.Path),
		Transport: server.Spec.Transport, Executables: server.Spec.Executables(),
		Read: list(server.Spec.Read), Write: list(server.Spec.Write), Network: list(server.Spec.Network),
		Secrets: list(server.Spec.Secrets), Tools: []ShownTool{},
		Changes: []catalog.Change{}, one: c.Tool != ""}
	for _, p := range server.Tools {
		if c.Tool == "" || calls(c.Tool, p.Tool, p.Item.Ref.String()) {
			ans.Tools = append(ans.Tools, shownTool(p))
		}
	}
	w, _ := view.Worth(ctx, server.Item)
	ans.Trust, ans.worth = w.Trust, w.Words()
	k, changes, err := view.changes(server)
	if err != nil {
		return nil, err
	}
	if k != nil {
		ans.Refreshed = k.At
	}
	for i := range changes {
		ch, named := changes[i], calls(c.Tool, changes[i].Tool, changes[i].Ref)
		if ch.State != catalog.Same && (c.Tool == "" || named) || named && len(ch.Flags) > 0 {
			ans.Changes = append(ans.Changes, ch)
		}
	}
	if c.Tool != "" && len(ans.Tools)+len(ans.Changes) == 0 {
		return nil, noTool(server.Name, c.Tool)
	}
	for _, stray := range server.Stray {
		app.Term.Warn("%s", fault.Of(stray).Text)
	}
	return ans, nil
}

func noTool(server, tool string) error {
	return fault.New(fault.NotFound, "the server %q has no tool %q", server,
		tool).Try(fault.Command("rye mcp show", server)).
		On("server", server).On("tool", tool)
}

func list(all []string) []string { return append([]string{}, all...) }

func shownTool(pinned *catalog.Pinned) ShownTool {
	raw := func(name string) json.RawMessage {
		v, ok := pinned.Fields[name]
		if !ok {
			return nil
		}
		b, err := json.Marshal(v)
		if err != nil {
			return nil
		}
		return b
	}
	return ShownTool{Tool: pinned.Tool, Ref: pinned.Item.Ref.String(), Title: pinned.Fields.Text("title"),
		Description: pinned.Fields.Text("description"),
		Risk:        pinned.Item.Model.Tool.Risk.String(), Definition: pinned.Definition.String(),
		Faithful:    pinned.Faithful(),
		Annotations: raw("annotations"),
		InputSchema: raw("inputSchema"), OutputSchema: raw("outputSchema")}
}
