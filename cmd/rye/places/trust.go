package places

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/classify"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/lock/workspace"
	"github.com/rye-build/rye/manifest/rollback"
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

// RootSetting is the file that the root policy stands in.
func RootSetting(a *cli.App) cli.Setting {
	if a.Globals.Trust != "" {
		return a.Absolute(cli.Setting{Value: a.Globals.Trust, Origin: "--trust"})
	}
	if a.Env(cli.EnvTrust) != "" {
		p, err := OpenProject(a)
		if err != nil {
			return cli.Setting{Origin: cli.EnvTrust, Err: err}
		}
		return cli.Setting{Value: filepath.Join(p.DotAI(), trust.File), Origin: cli.EnvTrust}
	}
	s := cli.UserSpace(a.UserBase())
	s.Value, s.Origin = filepath.Join(s.Value, trust.File), "user"
	return s
}

// RootAuthority reads the root policy as it is found, and holds RYE_TRUST against it. What another user could have
// written is no root of trust.
func RootAuthority(a *cli.App) (*trust.Authority, error) {
	s := RootSetting(a)
	if s.Err != nil {
		return nil, s.Err
	}
	if s.Origin == "user" {
		if err := trust.CheckOwn(s.Value); err != nil {
			return nil, err
		}
	}
	au, err := trust.Read(s.Value, s.Origin)
	if err != nil {
		return nil, err
	}
	want := a.Env(cli.EnvTrust)
	if au.File == nil && s.Origin != "user" {
		return au, &fault.Error{Code: fault.Config, Text: fmt.Sprintf("there is no policy at %q (%s)", s.Value, s.Origin), Err: fs.ErrNotExist}
	}
	if want == "" {
		return au, nil
	}
	id, err := cas.ParseDigest(want)
	if err != nil {
		return nil, &fault.Error{Code: fault.Config, Err: err, Text: fmt.Sprintf("%s is %q, not the id of a policy: blake3: and 64 digits", cli.EnvTrust, want)}
	}
	if found := au.Side.Policy.ID(); found != id {
		f := &fault.Error{Code: fault.Integrity, Text: fmt.Sprintf("%q is not the policy that %s names", s.Value, cli.EnvTrust),
			Why:     []string{"expected  " + id.String(), "found     " + found.String()},
			Details: map[string]any{"reason": "other-policy", "expected": id.String(), "found": found.String()}}
		if s.Origin == "--trust" {
			f.Code, f.Text = fault.Config, fmt.Sprintf("--trust and %s name different policies", cli.EnvTrust)
		}
		return nil, f
	}
	return au, nil
}

// OpenTrust reads the root policy, the project's if there is one, and the lists they name. Without a root policy
// nobody is trusted, and that is an error.
func OpenTrust(a *cli.App) (*trust.Trust, error) {
	if s := RootSetting(a); s.Err != nil && homeless(a) {
		return nil, &fault.Error{Code: fault.Policy, Err: s.Err, Text: "no policy, so no key is trusted", Why: []string{classify.Classify(s.Err).Text},
			Hint: []string{"rye --trust FILE COMMAND"}, Details: map[string]any{"reason": "no-policy", "policy": ""}}
	}
	root, err := RootAuthority(a)
	if err != nil {
		return nil, err
	}
	project, err := ProjectAuthority(a)
	if err != nil {
		return nil, err
	}
	if root.File == nil {
		return nil, nobodyTrusted(a, root, project)
	}
	// Expiry counts against the clock, whatever time is to be written.
	t := &trust.Trust{Root: root, Project: project, Now: a.Now().UTC()}
	if project != nil && project.Side.Policy.ID() == root.Side.Policy.ID() {
		t.Project = nil
	}
	for _, au := range []*trust.Authority{t.Root, t.Project} {
		if au == nil {
			continue
		}
		if au.Side.Lists, err = Lists(a).Load(au); err != nil {
			f := classify.Classify(err)
			if _, lost := errors.AsType[*rollback.DamagedError](err); !lost { // without the journal an update is refused too
				f.Hint = []string{"rye trust update"}
			}
			return nil, f
		}
	}
	return t, nil
}

// homeless reports whether there is no place for a user's policy, and none was named otherwise.
func homeless(a *cli.App) bool {
	return a.Globals.Trust == "" && a.Env(cli.EnvTrust) == "" && a.Env("USER_SPACE") == "" && a.Home().Err != nil
}

// ProjectAuthority reads the project's policy, nil if there is none. Like its items it is in the project: through a
// directory .ai that is a link to somewhere else nothing is read.
func ProjectAuthority(a *cli.App) (*trust.Authority, error) {
	p, err := OpenProject(a)
	if errors.Is(err, workspace.ErrNoProject) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if err := ai.Inside(p.DotAI()); err != nil {
		return nil, err
	}
	au, err := trust.Read(filepath.Join(p.DotAI(), trust.File), "project")
	if err != nil || au.File == nil {
		return nil, err
	}
	return au, nil
}

// nobodyTrusted is what an empty home gets: the line that says whom to trust, for somebody to decide on.
func nobodyTrusted(a *cli.App, root, project *trust.Authority) error {
	f := &fault.Error{Code: fault.Policy, Text: "no policy, so no key is trusted",
		Why:     []string{fmt.Sprintf("no file at %q", root.Path)},
		Hint:    []string{"rye key new", "rye trust add KEYFILE --owner OWNER --names GLOB"},
		Details: map[string]any{"reason": "no-policy", "policy": root.Path}}
	if project != nil {
		// Its id is not said: whoever wrote the project would be the one who vouches for it.
		f.Why = append(f.Why, "the project has a policy of its own, which counts for nothing",
			"to trust by it, take its id from somebody whom you trust, never from the project: "+cli.EnvTrust+"=ID")
	}
	return f
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
