package thread

import (
	"context"
	"errors"
	"io/fs"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/thread/control"
	"github.com/rye-build/rye/exec/thread/ledger"
	"github.com/rye-build/rye/exec/thread/limits"
	"github.com/rye-build/rye/exec/thread/provider"
	"github.com/rye-build/rye/exec/thread/roster"
	"github.com/rye-build/rye/exec/thread/toolcall"
	"github.com/rye-build/rye/exec/thread/transcript"
)

// A Resume is the way in which an interrupted thread goes on.
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
// until that ends. With an error it doesn't go on; otherwise the result is how it ended.
func (e *Engine) Resume(ctx context.Context, how *Resume) (*Result, error) {
	row, err := (&control.Writer{Kernel: e.Session.Kernel, Program: e.Program, Now: e.Now, Hook: e.Hook}).Last(ctx,
		e.Roster, how.Thread)
	if err != nil {
		return nil, err
	}
	if e, err = e.Under(ctx, row.Dir()); err != nil {
		return nil, err
	}
	defer e.Close()
	thread, err := e.remember(ctx, row.Dir())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fault.New(fault.NotFound, "the thread %s has no transcript: it had not begun",
			row.ID).From(err).On("thread", row.ID).
			Try(fault.Command("rye run", row.Directive))
	}
	if err != nil {
		return nil, err
	}
	if thread.origin.Model == provider.Replayed {
		return nil, fault.New(fault.Validation, "the thread %s can't go on: a record answered it, not a model",
			row.ID).On("thread", row.ID).
			Try("rye run " + row.Directive)
	}
	if err := thread.plan.Same(thread.id, &thread.origin); err != nil {
		return nil, err
	}
	if row.Parent == "" {
		if err := thread.plan.Permit(ctx); err != nil {
			return nil, err
		}
	}
	if err := thread.plan.Offer(ctx); err != nil {
		return nil, err
	}
	if thread.dialogue.model, err = thread.choose(ctx); err != nil {
		return nil, err
	}
	thread.start.Principal, thread.start.Approver, thread.start.Live = how.Principal, how.Approver, how.Live
	thread.family.parent = how.parent
	if how.parent == nil {
		thread.family.under, thread.family.foreign = row.Parent,
			!roster.Owned(ctx, thread.engine.Roster, thread.engine.Session, row.Parent)
	}
	next := thread.money.last
	if err := next.Override(how.Limits); err != nil {
		return nil, err
	}
	if how.parent != nil && thread.origin.Continues == "" { // its parent may have got more time
		now := thread.plan.Limits()
		if err := now.Override(how.spawned); err != nil {
			return nil, err
		}
		now.Cap(&how.parent.money.last)
		next.Duration = max(next.Duration, now.Duration)
	}
	thread.money.last = next
	if thread.record.lease, err = roster.ClaimLease(ctx, thread.engine.Roster, row); err != nil {
		return nil, err
	}
	above, err := thread.reopen(ctx, row, &next)
	if err != nil {
		ctx := context.WithoutCancel(ctx)
		return nil, errors.Join(err, above.Close(ctx, thread.engine.Ledger, thread.engine.Now()),
			thread.record.lease.Leave(ctx, roster.Interrupted, ""))
	}
	done, err := thread.follow(ctx)
	return done, errors.Join(err, above.Close(context.WithoutCancel(ctx), thread.engine.Ledger, thread.engine.Now()))
}

// GoOn returns what becomes of a thread that another process has begun, to the end of the last that it is handed over
// to.
func (e *Engine) GoOn(ctx context.Context, id string, how *Resume) (*Result, error) {
	row, err := control.FindRow(ctx, e.Roster, id)
	if err != nil {
		return nil, err
	}
	if !row.State.Ended() {
		how.Thread = id
		return e.Resume(ctx, how)
	}
	result, err := control.ResultOf(row.Dir())
	if err != nil || result.Status != Continued {
		return result, err
	}
	before := result.Cost
	if result, err = e.GoOn(ctx, result.Next, how); result != nil {
		result.Cost.Add(before)
	}
	return result, err
}

// reopen makes the thread ready for its next part, in which it has these limits, and returns the accounts above that
// it opened.
func (t *thread) reopen(ctx context.Context, row *roster.Thread, next *limits.Set) (above ledger.Above, err error) {
	follower, err := control.Follower(ctx, t.engine.Roster, t.id)
	if err != nil {
		return nil, err
	}
	budget, rest, err := ledger.Rest(ctx, t.engine.Ledger, t.id, next.Budget(), follower != nil)
	if err != nil {
		return nil, err
	}
	if above, err = ledger.OpenAbove(ctx, t.engine.Ledger, row.Parent, rest, t.engine.Now()); err != nil {
		return above, err
	}
	if err := t.engine.Ledger.Do(ctx, ledger.Open(t.id, row.Parent, t.record.lease.Epoch, budget,
		t.engine.Now())); err != nil {
		return above, err
	}
	return above, t.rewind(ctx, next)
}

// rewind has the record answer from its start.
func (t *thread) rewind(ctx context.Context, next *limits.Set) error {
	account, err := ledger.Get(ctx, t.engine.Ledger, t.id)
	if err != nil {
		return err
	}
	t.money.account.Attach(t.engine.Ledger, account, t.record.lease.Guard)
	driver, options, err := t.options()
	if err != nil {
		return err
	}
	w, err := transcript.Open(t.record.lease.Dir, driver, options)
	if err != nil {
		return err
	}
	record := next.Record()
	if _, err := w.Append(transcript.Continued{Principal: t.start.Principal, Limits: &record}); err != nil {
		return errors.Join(err, w.Close())
	}
	t.record.Write(w)
	t.record.Play(t.record.lease.Dir, w.Last().Seq)
	if _, err = t.record.Take(); err != nil { // the first event; drivers are passed over
		return err
	}
	return t.takeHanded()
}

// remember makes a thread of its record, as it was begun.
func (e *Engine) remember(ctx context.Context, dir string) (*thread, error) {
	origin, err := control.OriginOf(dir)
	if err != nil {
		return nil, err
	}
	thread := e.newThread(&Start{})
	thread.id, thread.origin, thread.inputs = origin.Thread, origin.Started, origin.Started.Given
	thread.money.limits, thread.money.last = origin.Limits, origin.Last
	started := &thread.origin
	ref, err := model.ParseRef(started.Directive.Ref)
	if err != nil {
		return nil, err
	}
	thread.start.Directive = ref
	if started.Model != provider.Replayed { // which counts as the directive's
		thread.start.Model = started.Model
	}
	if err := thread.load(ctx); err != nil {
		return nil, err
	}
	if thread.plan.Signs = started.Signs; thread.plan.Kind() != started.Kind {
		return nil, fault.New(fault.Validation, "the transcript of %s is that of a %s, which %q isn't", thread.id,
			started.Kind, ref)
	}
	return thread, nil
}
