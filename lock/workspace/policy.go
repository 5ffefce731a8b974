package workspace

import (
	"context"
	"errors"
	"io/fs"
	"time"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/journal"
	"github.com/rye-build/rye/manifest/trust"
)

// The flag and the variables that choose a root policy.
const (
	PolicyFlag     = "--trust"
	PolicyVariable = "RYE_TRUST"
)

// RootPolicyFile returns the file of the root policy: the named file, the project's policy if only an id is named,
// otherwise the user's.
func (p *Paths) RootPolicyFile() Place {
	if p.Policy.Path != "" || p.Policy.Err != nil {
		return p.Policy
	}
	if p.PolicyID != "" {
		found, err := p.OpenProject()
		if err != nil {
			return Place{Origin: PolicyVariable, Err: err}
		}
		return Place{Path: found.DotAI(), Origin: PolicyVariable}.Below(trust.File)
	}
	own := p.UserSpace().Below(trust.File)
	own.Origin = "user"
	return own
}

// RootPolicy reads the root policy and compares its id with the named one. It refuses a user's policy that other
// users can write.
func (p *Paths) RootPolicy() (*trust.Authority, error) {
	id, err := cas.ParseDigest(p.PolicyID)
	if p.PolicyID != "" && err != nil {
		return nil, fault.New(fault.Config, "%s is %q, not the id of a policy: blake3: and 64 digits", PolicyVariable,
			p.PolicyID).From(err).Try("unset " + PolicyVariable)
	}
	place := p.RootPolicyFile()
	if place.Err != nil {
		return nil, place.Err
	}
	if place.Origin == "user" {
		if err := trust.CheckOwn(place.Path); err != nil {
			return nil, err
		}
	}
	au, err := p.policies.Read(place.Path, place.Origin)
	if err != nil {
		return nil, err
	}
	if au.File == nil && place.Origin != "user" {
		f := fault.New(fault.Config, "no policy at %q (%s)", place.Path, place.Origin).From(fs.ErrNotExist)
		if place.Origin == PolicyVariable {
			f.Try("unset " + PolicyVariable)
		}
		return au, f
	}
	if p.PolicyID == "" {
		return au, nil
	}
	found := au.Side.Policy.ID()
	if found == id {
		return au, nil
	}
	f := fault.New(fault.Integrity, "%q is not the policy that %s names", place.Path, PolicyVariable)
	if place.Origin == PolicyFlag {
		f = fault.New(fault.Config, "%s and %s name different policies", PolicyFlag, PolicyVariable)
	}
	return nil, f.Because("expected  "+id.String(), "found     "+found.String()).
		On("reason", "other-policy").On("expected", id.String()).On("found", found.String())
}

// Editable returns an error for a root policy that is named by its id, because a change would change the id.
func (p *Paths) Editable() error {
	if p.PolicyID == "" {
		return nil
	}
	return fault.New(fault.Config, "%s names a policy by its id, which an edit would change",
		PolicyVariable).Try("unset " + PolicyVariable)
}

// EditPolicy changes the root policy.
func (p *Paths) EditPolicy(ctx context.Context, now time.Time, edit trust.Edit) (trust.Change, error) {
	if err := p.Editable(); err != nil {
		return trust.Change{}, err
	}
	s := p.RootPolicyFile()
	if s.Err == nil && s.Origin == "user" {
		s.Err = trust.CheckOwn(s.Path)
	}
	if s.Err != nil {
		return trust.Change{}, s.Err
	}
	return edit.Apply(ctx, s.Path, s.Origin, now)
}

// ProjectPolicy reads the project's policy, or returns nil if it is missing. It refuses a .ai that links to another
// place.
func (p *Paths) ProjectPolicy() (*trust.Authority, error) {
	found, err := p.OpenProject()
	if errors.Is(err, ErrNoProject) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return p.projectPolicy(found)
}

func (p *Paths) projectPolicy(of Project) (*trust.Authority, error) {
	if err := ai.Inside(of.DotAI()); err != nil {
		return nil, err
	}
	au, err := p.policies.Read(Place{Path: of.DotAI()}.Below(trust.File).Path, "project")
	if err != nil || au.File == nil {
		return nil, err
	}
	return au, nil
}

// Policy reads the root policy, the project's, and the revocation lists that they name. trust.IsMissing recognises
// the error for a missing root policy.
func (w *Workspace) Policy() (*trust.Trust, error) {
	named := w.Paths.Policy != (Place{}) || w.PolicyID != "" || w.User.Origin == "USER_SPACE"
	if s := w.RootPolicyFile(); s.Err != nil && !named {
		return nil, fault.New(fault.Policy, noPolicyText).From(s.Err).Because(fault.Of(s.Err).Text).
			Try("rye docs policy").On("reason", "no-policy").On("policy", "")
	}
	root, err := w.RootPolicy()
	if err != nil {
		return nil, err
	}
	var project *trust.Authority
	if w.Root.Root != "" { // known, so it isn't looked for
		project, err = w.projectPolicy(w.Root)
	} else {
		project, err = w.ProjectPolicy()
	}
	if err != nil {
		return nil, err
	}
	if root.File == nil {
		return nil, noPolicy(root, project)
	}
	// Expiry is checked against the clock, even if rye writes another time.
	trusted := &trust.Trust{Root: root, Project: project, Now: w.Now().UTC()}
	if project != nil && project.Side.Policy.ID() == root.Side.Policy.ID() {
		trusted.Project = nil
	}
	for _, au := range trusted.Authorities() {
		if au.Side.Lists, err = w.Lists().Load(au); err != nil {
			_, lost := errors.AsType[*journal.DamagedError](err)
			if f, ok := fault.Find(err); ok && !lost { // without the journal an update is refused too
				f.Hint = []string{"rye trust update"}
			}
			return nil, err
		}
	}
	return trusted, nil
}

// Lists returns the revocation lists that were fetched for this user's policies.
func (w *Workspace) Lists() trust.Lists {
	return trust.Lists{Dir: w.State.Path, Err: w.State.Err, Clock: w.Now, Now: w.Now}
}

const noPolicyText = "no policy, so no key is trusted"

// noPolicy returns the error for a missing policy, with the commands that make one. The user decides whether to run
// them.
func noPolicy(root, project *trust.Authority) error {
	f := fault.New(fault.Policy, noPolicyText).Because("no file at \""+root.Path+"\"").
		Try("rye key new", "rye docs keys").On("reason", "no-policy").On("policy", root.Path)
	if project != nil {
		// Its id isn't shown: a project must not vouch for itself.
		f.Because("the project has a policy of its own, which counts for nothing",
			"to trust by it, take its id from a person you trust, never from the project: "+PolicyVariable+"=ID")
	}
	return f
}
