package thread

import (
	"cmp"
	"context"
	"errors"
	"io/fs"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/thread/control"
	"github.com/rye-build/rye/exec/thread/ledger"
	"github.com/rye-build/rye/exec/thread/limits"
	"github.com/rye-build/rye/exec/thread/provider"
	"github.com/rye-build/rye/exec/thread/replay"
	"github.com/rye-build/rye/exec/thread/roster"
	"github.com/rye-build/rye/exec/thread/toolcall"
	"github.com/rye-build/rye/exec/thread/transcript"
)

// A Resume says how a thread that was interrupted goes on.
type Resume struct {
	Thread    string
	Limits    []string // NAME=VALUE, instead of those that it has
	Principal string
	Approver  *toolcall.Approver // as of a Start
	Live      Live

	parent  *thread  // that waits for it
	spawned []string // the limits that it was started with
}

// Resume lets a thread go on where it stopped: its loop runs again from the start, and is answered from the transcript
// until that ends. An error says that it doesn't go on; what became of it is in the result.
func (e *Engine) Resume(ctx context.Context, r *Resume) (*Result, error) {
	row, err := (&control.Writer{Kernel: e.Session.Kernel, Program: e.Program, Now: e.Now, Hook: e.Hook}).Last(ctx,
		e.Roster, r.Thread)
	if err != nil {
		return nil, err
	}
	if e, err = e.Under(ctx, row.Dir()); err != nil {
		return nil, err
	}
	defer e.Close()
	t, err := e.remember(ctx, row.Dir())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fault.New(fault.NotFound, "the thread %s has no transcript: it had not begun",
			row.ID).From(err).On("thread", row.ID).
			Try(fault.Command("rye run", row.Directive))
	}
	if err != nil {
		return nil, err
	}
	if t.origin.Model == provider.Replayed {
		return nil, fault.New(fault.Validation, "the thread %s can't go on: a record answered it, not a model",
			row.ID).On("thread", row.ID).
			Try("rye run " + row.Directive)
	}
	if err := t.plan.Same(t.id, &t.origin); err != nil {
		return nil, err
	}
	if row.Parent == "" {
		if err := t.plan.Permit(ctx); err != nil {
			return nil, err
		}
	}
	if err := t.plan.Offer(ctx); err != nil {
		return nil, err
	}
	if t.model, err = t.choose(ctx); err != nil {
		return nil, err
	}
	t.Start.Principal, t.Start.Approver, t.Start.Live, t.Start.parent = r.Principal, r.Approver, r.Live, r.parent
	if r.parent == nil {
		t.under, t.foreign = row.Parent, !roster.Owned(ctx, t.Roster, t.Session, row.Parent)
	}
	next := t.last
	if err := next.Override(r.Limits); err != nil {
		return nil, err
	}
	if r.parent != nil && t.origin.Continues == "" { // its parent may have got more time
		now := t.plan.Limits()
		if err := now.Override(r.spawned); err != nil {
			return nil, err
		}
		now.Cap(&r.parent.last)
		next.Duration = max(next.Duration, now.Duration)
	}
	t.last = next
	if t.lease, err = roster.ClaimLease(ctx, t.Roster, row); err != nil {
		return nil, err
	}
	above, err := t.reopen(ctx, row, &next)
	if err != nil {
		ctx := context.WithoutCancel(ctx)
		return nil, errors.Join(err, above.Close(ctx, t.Ledger, t.Now()), t.lease.Leave(ctx, roster.Interrupted, ""))
	}
	done, err := t.follow(ctx)
	return done, errors.Join(err, above.Close(context.WithoutCancel(ctx), t.Ledger, t.Now()))
}

// reopen makes the thread ready for its next part, in which it has these limits, and returns the accounts above that
// it opened.
func (t *thread) reopen(ctx context.Context, row *roster.Thread, next *limits.Set) (above ledger.Above, err error) {
	follower, err := control.Follower(ctx, t.Roster, t.id)
	if err != nil {
		return nil, err
	}
	budget, rest, err := ledger.Rest(ctx, t.Ledger, t.id, next.Budget(), follower != nil)
	if err != nil {
		return nil, err
	}
	if above, err = ledger.OpenAbove(ctx, t.Ledger, row.Parent, rest, t.Now()); err != nil {
		return above, err
	}
	if err := t.Ledger.Do(ctx, ledger.Open(t.id, row.Parent, t.lease.Epoch, budget, t.Now())); err != nil {
		return above, err
	}
	return above, t.rewind(ctx, next)
}

// rewind has the record answer from its start.
func (t *thread) rewind(ctx context.Context, next *limits.Set) error {
	account, err := ledger.Get(ctx, t.Ledger, t.id)
	if err != nil {
		return err
	}
	t.money.Attach(t.Ledger, account, t.lease.Guard)
	driver, options, err := t.options()
	if err != nil {
		return err
	}
	w, err := transcript.Open(t.lease.Dir, driver, options)
	if err != nil {
		return err
	}
	record := next.Record()
	if _, err := w.Append(transcript.Continued{Principal: t.Principal, Limits: &record}); err != nil {
		return errors.Join(err, w.Close())
	}
	t.recorder.Write(w)
	t.recorder.Play(t.lease.Dir, w.Last().Seq)
	if _, err = t.recorder.Take(); err != nil { // the first event; drivers are passed over
		return err
	}
	return t.takeHanded()
}

// remember makes a thread of its record, as it was begun.
func (e *Engine) remember(ctx context.Context, dir string) (*thread, error) {
	o, err := control.OriginOf(dir)
	if err != nil {
		return nil, err
	}
	t := e.newThread(&Start{})
	t.id, t.origin, t.limits, t.last, t.inputs = o.Thread, o.Started, o.Limits, o.Last, o.Started.Given
	s := &t.origin
	ref, err := model.ParseRef(s.Directive.Ref)
	if err != nil {
		return nil, err
	}
	t.Start.Directive = ref
	if s.Model != provider.Replayed { // which counts as the directive's
		t.Start.Model = s.Model
	}
	if err := t.load(ctx); err != nil {
		return nil, err
	}
	if t.plan.Signs = s.Signs; t.plan.Kind() != s.Kind {
		return nil, fault.New(fault.Validation, "the transcript of %s is that of a %s, which %q isn't", t.id, s.Kind,
			ref)
	}
	return t, nil
}

// recall takes what came of a call from the record. A call without a result is made again if it only reads, or if it
// is a child, which goes on; of any other it isn't known whether it has had an effect, and its result says so to the
// model.
func (t *thread) recall(ctx context.Context, c *toolCall) (done bool, err error) {
	r, large, err := t.recorder.Result(c.Record)
	switch {
	case err != nil:
		return false, err
	case r != nil && c.Inside:
		return false, nil
	case r != nil:
		c.Result = *r
		text, _ := r.Output.(string)
		if large != nil {
			text = large.Content
		}
		t.money.Child(r.Cost)
		return true, t.guard(ctx, c, text)
	case c.Risk == "read" || c.Child != "":
		return false, nil
	}
	if unmade, err := t.Approver.Unmade(ctx, t.id, c.Record, c.Ref); unmade || err != nil {
		return false, err
	}
	text, err := c.End(transcript.CallUnknown, replay.Unknown(c.Name))
	return true, cmp.Or(err, t.guard(ctx, c, text))
}
