package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/manifest/exam"
	"github.com/rye-build/rye/manifest/policy"
)

// trustGroup is what "rye trust" alone shows.
func trustGroup() command {
	return command{
		path: "trust", group: "trust", help: "Say who may vouch for which names.",
		aka: []string{"policy"},
		more: "The policy is a file, policy.yaml in the user space, or what --trust names for one command. The project's own policy, " +
			".ai/policy.yaml, can forbid and never allow. " + envTrust + "=blake3:… takes the project's for the user's, if it has this id.\n\n" +
			"What changes a policy shows the difference and asks; comments are kept.",
	}
}

const (
	policyFile = "policy.yaml"
	maxPolicy  = 1 << 20
)

// An authority is a policy that was read, and from where.
type authority struct {
	side   policy.Side
	path   string
	origin string // "user", "--trust", "RYE_TRUST", "project"
	file   []byte // nil where there is none
}

// rootSetting is the file that the root policy stands in.
func (a *app) rootSetting() setting {
	if a.globals.Trust != "" {
		return a.absolute(setting{value: a.globals.Trust, origin: "--trust"})
	}
	if a.env(envTrust) != "" {
		p, err := a.project()
		if err != nil {
			return setting{origin: envTrust, err: err}
		}
		return setting{value: filepath.Join(p.dotAI(), policyFile), origin: envTrust}
	}
	s := userSpace(a.userBase())
	s.value, s.origin = filepath.Join(s.value, policyFile), "user"
	return s
}

// readAuthority reads a policy, without its lists. One that isn't there says nothing: file is nil.
func readAuthority(path, origin string) (*authority, error) {
	au := &authority{path: path, origin: origin}
	file, err := readIfThere("the policy", path, maxPolicy)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	au.file = file
	if au.side.Policy, err = policy.Parse(file); err != nil {
		f := classify(err)
		f.Text = fmt.Sprintf("the policy %q: %s", path, f.Text)
		return nil, f
	}
	return au, nil
}

// rootAuthority reads the root policy as it is found, and holds RYE_TRUST against it. What another user could have
// written is no root of trust.
func (a *app) rootAuthority() (*authority, error) {
	s := a.rootSetting()
	if s.err != nil {
		return nil, s.err
	}
	if s.origin == "user" {
		if err := checkOwn(s.value); err != nil {
			return nil, err
		}
	}
	au, err := readAuthority(s.value, s.origin)
	if err != nil {
		return nil, err
	}
	want := a.env(envTrust)
	if au.file == nil && s.origin != "user" {
		return au, &fault.Error{Code: fault.Config, Text: fmt.Sprintf("there is no policy at %q (%s)", s.value, s.origin), Err: fs.ErrNotExist}
	}
	if want == "" {
		return au, nil
	}
	id, err := cas.ParseDigest(want)
	if err != nil {
		return nil, &fault.Error{Code: fault.Config, Err: err, Text: fmt.Sprintf("%s is %q, not the id of a policy: blake3: and 64 digits", envTrust, want)}
	}
	if found := au.side.Policy.ID(); found != id {
		f := &fault.Error{Code: fault.Integrity, Text: fmt.Sprintf("%q is not the policy that %s names", s.value, envTrust),
			Why:     []string{"expected  " + id.String(), "found     " + found.String()},
			Details: map[string]any{"reason": "other-policy", "expected": id.String(), "found": found.String()}}
		if s.origin == "--trust" {
			f.Code, f.Text = fault.Config, fmt.Sprintf("--trust and %s name different policies", envTrust)
		}
		return nil, f
	}
	return au, nil
}

// checkOwn refuses a policy that somebody else may write, or put another in the place of.
func checkOwn(path string) error {
	all := []string{path, filepath.Dir(path)}
	if to, err := filepath.EvalSymlinks(path); err == nil && to != path {
		all = append(all, to, filepath.Dir(to)) // where there is a link, both directories decide which policy it is
	}
	for _, p := range all {
		fi, err := os.Stat(p)
		if err != nil {
			continue // reading it tells
		}
		what := map[bool]string{true: "directory of the policy", false: "policy"}[fi.IsDir()]
		bad := func(why, hint string) error {
			return &fault.Error{Code: fault.Denied, Text: fmt.Sprintf("the %s %q %s", what, p, why), Hint: []string{hint},
				Why: []string{"whoever writes the policy decides whom this user trusts"}, Details: map[string]any{"reason": "policy-mode", "path": p}}
		}
		switch mode := fi.Mode(); {
		case ownedByOther(fi):
			return bad("belongs to another user", "ls -ld "+fault.Quote(p))
		case runtime.GOOS == "windows":
		case mode.Perm()&0o002 != 0:
			return bad("may be written by everybody", "chmod go-w "+fault.Quote(p))
		case mode.Perm()&0o020 != 0:
			return bad("may be written by its group", "chmod go-w "+fault.Quote(p))
		}
	}
	return nil
}

// A trust is what decides in one command.
type trust struct {
	root    *authority
	project *authority // nil: none, or it is the root
	now     time.Time
}

// trust reads the root policy, the project's if there is one, and the lists they name. Without a root policy
// nobody is trusted, and that is an error.
func (a *app) trust() (*trust, error) {
	if s := a.rootSetting(); s.err != nil && a.homeless() {
		return nil, &fault.Error{Code: fault.Policy, Err: s.err, Text: "there is no policy, so nobody is trusted", Why: []string{classify(s.err).Text},
			Hint: []string{"rye --trust FILE COMMAND"}, Details: map[string]any{"reason": "no-policy", "policy": ""}}
	}
	root, err := a.rootAuthority()
	if err != nil {
		return nil, err
	}
	project, err := a.projectAuthority()
	if err != nil {
		return nil, err
	}
	if root.file == nil {
		return nil, a.nobodyTrusted(root, project)
	}
	// Expiry counts against the clock, whatever time is to be written.
	t := &trust{root: root, project: project, now: a.now().UTC()}
	if project != nil && project.side.Policy.ID() == root.side.Policy.ID() {
		t.project = nil
	}
	for _, au := range []*authority{t.root, t.project} {
		if au == nil {
			continue
		}
		if au.side.Lists, err = a.lists().load(au); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// homeless reports whether there is no place for a user's policy, and none was named otherwise.
func (a *app) homeless() bool {
	return a.globals.Trust == "" && a.env(envTrust) == "" && a.env("USER_SPACE") == "" && a.home().err != nil
}

// projectAuthority reads the project's policy, nil if there is none. Like its items it is in the project: through a
// directory .ai that is a link to somewhere else nothing is read.
func (a *app) projectAuthority() (*authority, error) {
	p, err := a.project()
	if errors.Is(err, errNoProject) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if err := ai.Inside(p.dotAI()); err != nil {
		return nil, err
	}
	au, err := readAuthority(filepath.Join(p.dotAI(), policyFile), "project")
	if err != nil || au.file == nil {
		return nil, err
	}
	return au, nil
}

// nobodyTrusted is what an empty home gets: the line that says whom to trust, for somebody to decide on.
func (a *app) nobodyTrusted(root, project *authority) error {
	f := &fault.Error{Code: fault.Policy, Text: "there is no policy, so nobody is trusted",
		Why:     []string{fmt.Sprintf("no file at %q", root.path)},
		Hint:    []string{"rye key new", "rye trust add KEYFILE --owner OWNER --names GLOB"},
		Details: map[string]any{"reason": "no-policy", "policy": root.path}}
	if project != nil {
		// Its id is not said: whoever wrote the project would be the one who vouches for it.
		f.Why = append(f.Why, "the project has a policy of its own, which counts for nothing",
			"to trust by it, take its id from somebody whom you trust, never from the project: "+envTrust+"=ID")
	}
	return f
}

// exam is what examines files for this command.
func (t *trust) exam() *exam.Trust {
	x := &exam.Trust{Root: t.root.side, Now: t.now}
	if t.project != nil {
		x.Project = &t.project.side
	}
	return x
}

func (t *trust) authorities() []*authority {
	if t.project == nil {
		return []*authority{t.root}
	}
	return []*authority{t.root, t.project}
}

// trustSetting is where the root policy is, and its id.
func (a *app) trustSetting() setting {
	s := a.rootSetting()
	if s.err != nil {
		return s
	}
	if au, err := a.rootAuthority(); err != nil {
		s.err = err
	} else if au.file == nil {
		s.origin = "user, not there"
	}
	return s
}

func (a *app) secretSetting(name, otherwise string) setting {
	if a.env(name) == "" {
		return setting{origin: otherwise}
	}
	return setting{value: "set", origin: name}
}
