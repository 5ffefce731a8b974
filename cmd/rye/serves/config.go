package serves

import (
	"bytes"
	"context"
	"os"
	"strings"

	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/cmd/rye/signs"
	"github.com/rye-build/rye/exec/mcp/register"
	"github.com/rye-build/rye/exec/thread/toolcall"
)

// This file has rye mcp config, and the check of agents' configuration files for rye doctor.

type mcpConfigRun struct {
	Agent string   `arg:"" enum:"claude,cursor,vscode,codex" help:"The agent: ${enum}."`
	Tools []string `placeholder:"GLOB" sep:"none" help:"Offer these tools under their own names too (repeatable)."`
	Write bool     `help:"Write it into the agent's file in this project."`
}

// configured is the configuration that makes an agent start the server.
type configured struct {
	Agent   string   `json:"agent"`
	File    string   `json:"file"`    // of the agent, in the project
	Snippet string   `json:"snippet"` // the content of a file with this server only
	Changes []string `json:"changes"` // changed lines of the file, with --write
	Written bool     `json:"written"`
}

func (c *configured) Text(t *cli.Terminal) {
	switch {
	case c.Changes == nil:
		t.Printf("%s", cli.Styled(c.Snippet))
		t.Note("add this to %s, or run rye mcp config %s --write", c.File, c.Agent)
	case c.Written:
		t.Printf("wrote %s\n", c.File)
	default:
		t.Printf("%s starts this server already\n", c.File)
	}
}

func (c *mcpConfigRun) Run(ctx context.Context, app *cli.App) (cli.Answer, error) {
	agent, err := register.Find(c.Agent)
	if err != nil {
		return nil, err
	}
	if _, err := toolcall.Globs("--tools", c.Tools); err != nil {
		return nil, err
	}
	var more []string
	for _, glob := range c.Tools {
		more = append(more, "--tools", glob)
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	program := register.Program(self, app.Env("PATH"))
	ans := &configured{Agent: agent.Name, File: agent.File, Snippet: string(agent.Snippet(program, more))}
	if !c.Write {
		return ans, nil
	}
	p, err := paths.Paths(app).OpenProject()
	if err != nil {
		return nil, err
	}
	change, err := agent.Plan(p.Root, program, more)
	if err != nil {
		return nil, err
	}
	if ans.Changes = []string{}; bytes.Equal(change.Before, change.After) {
		return ans, nil
	}
	ans.Changes = signs.ChangedLines(change.Before, change.After)
	app.Term.Prompt("%s\n", change.Path)
	for _, line := range ans.Changes {
		app.Term.Prompt("  %s\n", strings.ReplaceAll(line, "\t", "    "))
	}
	if err := app.Confirm(ctx, agent.Title+" will start rye in this project: write the file?"); err != nil {
		return nil, err
	}
	if err := change.Write(); err != nil {
		return nil, err
	}
	ans.Written = true
	return ans, nil
}

// CheckAgents checks the agents' files in the project that start the server.
func CheckAgents(_ context.Context, a *cli.App) paths.Finding {
	p, err := paths.Paths(a).OpenProject()
	if err != nil {
		return paths.Good("not in a project")
	}
	var names []string
	for _, f := range register.Look(p.Root, a.Env("PATH")) {
		if f.Err != nil {
			return paths.Bad(paths.StatusWarn, f.Err)
		}
		names = append(names, f.Client.Title)
	}
	if names == nil {
		return paths.Good("no agent's file in this project starts rye mcp serve")
	}
	return paths.Good("%s: rye mcp serve", strings.Join(names, ", "))
}
