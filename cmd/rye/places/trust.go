package places

import (
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/manifest/trust"
)

// TrustGroup is what "rye trust" alone shows.
func TrustGroup() cli.Command {
	return cli.Command{
		Path: "trust", Group: "trust", Help: "Manage trusted keys and the names they may sign.",
		Aka: []string{"policy"},
		More: "The policy is a file, policy.yaml in the user space, or what --trust names for one command. The project's own policy, " +
			".ai/policy.yaml, can forbid and never allow. " + cli.EnvTrust + "=blake3:… takes the project's for the user's, if it has this id.\n\n" +
			"What changes a policy shows the difference and asks; comments are kept.",
	}
}

// RootSetting is the file of the root policy.
func RootSetting(a *cli.App) cli.Setting {
	p, err := Paths(a)
	if err != nil {
		return cli.Setting{Err: err}
	}
	s := p.RootPolicyFile()
	return cli.Setting{Value: s.Path, Origin: s.Origin, Err: s.Err}
}

// RootAuthority reads the root policy.
func RootAuthority(a *cli.App) (*trust.Authority, error) {
	p, err := Paths(a)
	if err != nil {
		return nil, err
	}
	return p.RootPolicy()
}

// ProjectAuthority reads the project's policy, nil if there is none.
func ProjectAuthority(a *cli.App) (*trust.Authority, error) {
	p, err := Paths(a)
	if err != nil {
		return nil, err
	}
	return p.ProjectPolicy()
}

// OpenTrust reads the policies and the revocation lists that they name.
func OpenTrust(a *cli.App) (*trust.Trust, error) {
	w, err := UnreadWorkspace(a)
	if err != nil {
		return nil, err
	}
	return w.Policy()
}

// TrustSetting is where the root policy is, and its id.
func TrustSetting(a *cli.App) cli.Setting {
	s := RootSetting(a)
	if s.Err != nil {
		return s
	}
	if au, err := RootAuthority(a); err != nil {
		s.Err = err
	} else if au.File == nil {
		s.Origin = "user, not there"
	}
	return s
}

func SecretSetting(a *cli.App, name, otherwise string) cli.Setting {
	if a.Env(name) == "" {
		return cli.Setting{Origin: otherwise}
	}
	return cli.Setting{Value: "set", Origin: name}
}
