package main

import (
	"context"
	_ "embed"
)

// The scripts ask the binary itself, so that there is one answer for all shells: see completeCommand.
var (
	//go:embed completion/rye.bash
	bashScript string
	//go:embed completion/rye.zsh
	zshScript string
	//go:embed completion/rye.fish
	fishScript string
)

func completionCommand() command {
	return command{
		path: "completion", group: "start", help: "Print the completion script of a shell.",
		more: "Examples:\n\n    source <(rye completion bash)\n    rye completion zsh > \"${fpath[1]}/_rye\"\n    rye completion fish > ~/.config/fish/completions/rye.fish",
		aka:  []string{"completions", "autocomplete"},
		new:  func() runner { return new(completionRun) }, schema: "completion/1", output: completionAnswer{},
	}
}

type completionRun struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

type completionAnswer struct {
	Shell  string `json:"shell"`
	Script string `json:"script"`
}

func (c *completionRun) run(context.Context, *app) (answer, error) {
	scripts := map[string]string{"bash": bashScript, "zsh": zshScript, "fish": fishScript}
	return completionAnswer{c.Shell, scripts[c.Shell]}, nil
}

func (c completionAnswer) text(t *terminal) { t.printf("%s", styled(c.Script)) }
