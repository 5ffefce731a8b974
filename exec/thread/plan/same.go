package plan

import (
	"github.com/rye-build/rye/ai/capability"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/thread/transcript"
)

// Same refuses to go on with another set or directive, and takes the permissions that the thread was begun with as far
// as its directive still has them.
func (p *Plan) Same(id string, started *transcript.Started) error {
	if set := p.Session().Set(); set != started.Set {
		return fault.New(fault.LockMismatch, "the thread %s ran with another lock", id).On("thread", id).On("set",
			started.Set.String()).
			Because("expected "+started.Set.String(), "found    "+set.String(),
				"a thread goes on with the lock that it began with: git log -p rye.lock")
	}
	if p.Directive.Raw != started.Directive.Digest {
		return fault.New(fault.Conflict, "%q has changed since the thread %s began", p.Directive.Ref, id).On("thread",
			id).
			Because("expected "+started.Directive.Digest.String(), "found    "+p.Directive.Raw.String()).Permanent()
	}
	had, err := capability.ParseSet(started.Grants)
	if err != nil {
		return err
	}
	return p.Narrow(had)
}
