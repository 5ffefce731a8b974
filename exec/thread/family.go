package thread

import (
	"context"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/thread/roster"
)

// A family is the place of a thread among others: the one above it, the one before it and the one that goes on with
// its work.
type family struct {
	parent  *thread        // that starts this one; nil if this process doesn't drive one above it
	under   string         // the thread above then
	foreign bool           // a directive above that isn't the user's own
	chosen  bool           // rye itself chooses the directive
	row     *roster.Thread // of this thread, which a process has registered that died then; nil for a new one
	// of what is left of the parent's budget it may have one such part, unless it names an amount
	part int64

	continues string  // the thread that handed its work to this one
	handed    []any   // the messages that this thread was handed, or hands over
	next      *thread // that goes on with its work
}

// parentID returns the thread above, or "". A child that is resumed alone has one that this process doesn't drive.
func (f *family) parentID() string {
	if f.parent != nil {
		return f.parent.id
	}
	return f.under
}

// inherit bounds a thread by the policies, and a child by its parent: it may do what both may, and its limits are at
// most those of the parent.
func (t *thread) inherit(ctx context.Context) error {
	parent, above := t.family.parent, t.start.Above
	if parent == nil && above == nil {
		return t.start.After.Permit(ctx, t.plan)
	}
	if above != nil {
		t.family.under, t.family.part, t.family.chosen, t.family.foreign = above.Parent, above.Part, above.Chosen,
			!roster.Owned(ctx, t.engine.Roster, t.engine.Session, above.Parent)
		t.watch.chain = above.Chain
		if err := t.plan.Narrow(above.Chain.Last().Grants); err != nil {
			return err
		}
		above.Bound(&t.money.limits)
	} else {
		if err := t.plan.Narrow(parent.plan.Caps); err != nil {
			return err
		}
		t.money.limits.Cap(&parent.money.limits)
	}
	if t.money.limits.Depth < 0 {
		return fault.New(fault.Limit, "the thread has reached a limit: depth_exceeded").On("limit", "depth_exceeded")
	}
	return nil
}

// own reports whether the directives of the thread and of those above it are the user's own.
func (t *thread) own() bool {
	parent := t.family.parent
	return t.plan.Owned && !t.family.foreign && (parent == nil || parent.own())
}
