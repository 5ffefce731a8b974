package paths

import (
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/manifest/trust"
)

// OpenTrust reads the policies and the revocation lists that they name.
func OpenTrust(a *cli.App) (*trust.Trust, error) {
	return UnreadWorkspace(a).Policy()
}

// TrustSetting returns the place of the root policy, and its id.
func TrustSetting(a *cli.App) cli.Setting {
	p := Paths(a)
	at := p.RootPolicyFile()
	s := cli.Setting{Value: at.Path, Origin: at.Origin, Err: at.Err}
	if s.Err != nil {
		return s
	}
	if au, err := p.RootPolicy(); err != nil {
		s.Err = err
	} else if au.File == nil {
		s.Origin = "user, missing"
	}
	return s
}

// SecretSetting reports whether a secret variable is set, without its value.
func SecretSetting(a *cli.App, name, otherwise string) cli.Setting {
	if a.Env(name) == "" {
		return cli.Setting{Origin: otherwise}
	}
	return cli.Setting{Value: "set", Origin: name}
}
