package trusts

import (
	"context"
	"strings"

	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/manifest/trust"
)

type keyListRun struct{}

// KeyListAnswer is the result of rye key list.
type KeyListAnswer struct {
	Keys []trust.KeyState `json:"keys"`
}

func (*keyListRun) Run(_ context.Context, a *cli.App) (cli.Answer, error) {
	lines, err := KeyLines(a)
	if a.Env(cli.EnvKey) != "" {
		for i := range lines {
			lines[i].Default = false
		}
		a.Term.Note("%s is the default key: rye key show", cli.EnvKey)
	}
	if len(lines) == 0 && err == nil {
		a.Term.Note("no keys yet: rye key new creates one")
	}
	return KeyListAnswer{append([]trust.KeyState{}, lines...)}, err
}

func (k KeyListAnswer) Text(t *cli.Terminal) {
	var rows [][]string
	for _, l := range k.Keys {
		mark := " "
		if l.Default {
			mark = "*"
		}
		rows = append(rows, []string{mark + " " + l.Name, OrDash(paths.Short(l.Fingerprint)), keyText(l)})
	}
	t.Rows(rows)
}

// keyText says in a few words whether a key can be used, and which names it vouches for.
func keyText(keyState trust.KeyState) string {
	var words []string
	if keyState.Error != "" {
		return "can't be used: " + keyState.Error
	}
	if keyState.Locked {
		words = append(words, "locked")
	}
	switch {
	case keyState.InPolicy == "":
		words = append(words, "not in the policy")
	case keyState.Fault != "":
		words = append(words, strings.ReplaceAll(keyState.Fault, "-", " ")+", vouches for nothing")
	case len(keyState.Vouches) == 0:
		words = append(words, "in the policy, vouches for nothing")
	default:
		words = append(words, "vouches for "+strings.Join(keyState.Vouches, " "))
	}
	return strings.Join(words, ", ")
}

// OrDash returns s, or "-" for an empty text.
func OrDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
