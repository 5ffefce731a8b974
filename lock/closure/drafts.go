package closure

import (
	"errors"
	"slices"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/lock/project"
)

// findDrafts returns the items with problems that may be drafts, or nil if there are none. Whether another item needs
// one of them shows when they are left out.
func (c *closer) findDrafts() map[model.Ref]bool {
	if c.Pinned == nil || c.drafts != nil {
		return nil
	}
	drafts, no := map[model.Ref]bool{}, map[model.Ref]bool{}
	for _, p := range c.problems {
		switch may, enough := unfinished(p.Err); {
		case !may || !c.mayBeDraft(p):
			no[p.Ref] = true // one problem of another kind is enough
		case enough || c.unsigned(p):
			drafts[p.Ref] = true
		}
	}
	for ref := range no {
		delete(drafts, ref)
	}
	if len(drafts) == 0 {
		return nil
	}
	return drafts
}

// mayBeDraft reports whether a problem is about an item of the working tree that is neither pinned nor named by a
// root, and overrides nothing. Config is always in use.
func (c *closer) mayBeDraft(problem *Problem) bool {
	if problem.Ref == (model.Ref{}) || problem.Ref.Kind == configKind || len(c.Pinned(problem.Ref)) > 0 {
		return false
	}
	own := ai.Project
	if c.User {
		own = ai.User
	}
	if problem.Space != nil && problem.Space.Level != own {
		return false
	}
	files := c.filesAt(problem.Ref)
	for _, f := range files {
		if f.Space.Level != own {
			return false
		}
	}
	return len(files)+len(c.bad[problem.Ref]) > 0 && !c.rooted(problem.Ref)
}

// unsigned reports whether the item of a problem has no signature, which isn't a problem of its own beside others.
func (c *closer) unsigned(p *Problem) bool {
	n := c.nodes[nodeKey{p.Ref, p.Space}]
	return n != nil && n.unsigned
}

// rooted reports whether a root is exactly this item.
func (c *closer) rooted(ref model.Ref) bool {
	return slices.ContainsFunc(c.Roots, func(r project.Root) bool { return r.One && r.Text == ref.String() })
}

// unfinished reports whether an unfinished item may have a problem, and whether that is enough to be one: it is
// unsigned or invalid, and doesn't only lack what it uses. A signature that was made for another name, as in a copied
// file, is invalid. No untrusted key and no unreadable file is one of these.
func unfinished(err error) (may, enough bool) {
	if errors.Is(err, cas.ErrDamaged) {
		return false, false
	}
	switch fault.CodeOf(err) {
	case fault.Unsigned, fault.Integrity, fault.SignatureInvalid, fault.Validation, fault.Parsing:
		return true, true
	case fault.NotFound, fault.ExecutorNotFound, fault.Circular, fault.TooDeep:
		return true, false
	}
	return false, false
}
