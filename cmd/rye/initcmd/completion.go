// The command rye completion.

package initcmd

import (
	"context"
	_ "embed"

	"github.com/rye-build/rye/cmd/rye/cli"
)

// The scripts call the binary (rye __complete), so all shells get the same candidates.
var (
	//go:embed completion/rye.bash
	bashScript string
	//go:embed completion/rye.zsh
	zshScript string
	//go:embed completion/rye.fish
	fishScript string
)

type completionRun struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"Shell: bash, zsh or fish."`
}

type completionAnswer struct {
	Shell  string `json:"shell"`
	Script string `json:"script"`
}

func (c *completionRun) Run(context.Context, *cli.App) (cli.Answer, error) {
	scripts := map[string]string{"bash": bashScript, "zsh": zshScript, "fish": fishScript}
	return completionAnswer{c.Shell, scripts[c.Shell]}, nil
}

func (c completionAnswer) Text(t *cli.Terminal) { t.Printf("%s", cli.Styled(c.Script)) }
