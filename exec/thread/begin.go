package thread

import (
	"context"
	"errors"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/thread/control"
	"github.com/rye-build/rye/exec/thread/ledger"
	"github.com/rye-build/rye/exec/thread/limits"
	"github.com/rye-build/rye/exec/thread/plan"
	"github.com/rye-build/rye/exec/thread/provider"
	"github.com/rye-build/rye/exec/thread/replay"
	"github.com/rye-build/rye/exec/thread/roster"
	"github.com/rye-build/rye/exec/thread/transcript"
	"github.com/rye-build/rye/manifest/jcs"
)

// Check refuses what Run would refuse before a thread begins, and begins none.
func (e *Engine) Check(ctx context.Context, start *Start) error {
	_, err := e.prepare(ctx, start)
	return err
}

// prepare decides everything about a thread but what it begins with.
func (e *Engine) prepare(ctx context.Context, start *Start) (*thread, error) {
	thread := e.newThread(start)
	if a := start.After; a != nil {
		thread.family.under, thread.family.foreign, thread.family.chosen, thread.family.continues = a.Under,
			a.Foreign, a.Chosen, a.Thread
	}
	if err := thread.load(ctx); err != nil {
		return nil, err
	}
	var err error
	if thread.inputs, err = thread.plan.Complete(start.Inputs); err != nil {
		return nil, err
	}
	thread.money.limits = thread.start.After.Bound(thread.plan.Limits())
	declared := thread.money.limits
	if err := thread.money.limits.Override(start.Limits); err != nil {
		return nil, err
	}
	if start.Lower {
		thread.money.limits.Lower(&declared)
	}
	if err := thread.inherit(ctx); err != nil {
		return nil, err
	}
	if err := thread.plan.Offer(ctx); err != nil {
		return nil, err
	}
	thread.plan.Signs = thread.start.Approver.CanSign() && plan.MaySign(thread.plan.Caps)
	if thread.dialogue.model, err = thread.choose(ctx); err == nil {
		err = provider.Running(ctx, e.Session, thread.dialogue.model)
	}
	return thread, err
}

// begin prepares a thread, and writes the first line of its transcript.
func (e *Engine) begin(ctx context.Context, start *Start) (*thread, error) {
	thread, err := e.prepare(ctx, start)
	if err != nil {
		return nil, err
	}
	if thread.family.handed, err = thread.start.After.First(ctx, thread.dialogue.model); err == nil {
		err = thread.open(ctx)
	}
	if err == nil && thread.start.Began != nil {
		if err = thread.start.Began(thread.money.limits); err != nil {
			err = thread.fail(ctx, errors.Join(err, thread.record.append(true,
				transcript.Failed{Error: *control.RecordedFault(fault.Of(err))}, transcript.Checkpoint{}),
				thread.record.Close()))
		}
	}
	return thread, err
}

// load reads the items of a thread.
func (t *thread) load(ctx context.Context) (err error) {
	t.began = t.engine.Now()
	t.plan, err = plan.Read(ctx, t.engine.Agents(), t.start.Directive,
		func(ctx context.Context, ref model.Ref) (*ai.Item, error) {
			it, err := t.engine.Session.Item(ctx, ref)
			// it was chosen when the thread began
			if err != nil && fault.CodeOf(err) == fault.NotLocked && (t.family.chosen || t.id != "") {
				if of, missing := t.engine.Session.Chosen(ctx, ref); missing == nil {
					return of, nil
				}
			}
			return it, err
		})
	return err
}

// choose finds the model.
func (t *thread) choose(ctx context.Context) (provider.Model, error) {
	return t.plan.Model(ctx, provider.Wanted{Name: t.start.Model, Replay: t.start.Replay,
		Priced: t.money.limits.Spend != limits.Unlimited})
}

// open registers the thread, gives it its budget, and makes its directory and its transcript.
func (t *thread) open(ctx context.Context) error {
	if t.id = t.start.ID; t.id == "" {
		t.id = roster.NewID(t.start.Directive.ID, t.began)
	}
	if err := t.register(ctx); err != nil {
		return err
	}
	err := t.fund(ctx)
	if err == nil {
		err = t.writeStart(ctx)
	}
	if err != nil {
		return t.fail(ctx, err)
	}
	return nil
}

// fail ends a thread that never ran.
func (t *thread) fail(ctx context.Context, err error) error {
	ctx = context.WithoutCancel(ctx)
	return errors.Join(err, t.money.account.End(ctx, true, t.engine.Now()),
		t.record.lease.Leave(ctx, roster.Failed, ""))
}

// register makes this process the driver of the new thread.
func (t *thread) register(ctx context.Context) (err error) {
	if t.family.row != nil {
		t.record.lease, err = roster.Reclaim(ctx, t.engine.Roster, t.family.row)
		return err
	}
	row := &roster.Thread{ID: t.id, Kind: t.plan.Kind(), Directive: t.start.Directive.String(),
		Created: t.began.UTC().Round(0), Parent: t.family.parentID(), Continues: t.family.continues,
		Most: roster.Most{Children: t.plan.Settings.Concurrent, Total: t.plan.Settings.Total}}
	spawns := int64(limits.Unlimited)
	if parent, above := t.family.parent, t.start.Above; parent != nil {
		spawns = parent.money.limits.Spawns
	} else if above != nil {
		spawns = above.Most.Spawns
	}
	t.record.lease, err = roster.BeginLease(ctx, t.engine.Roster, t.engine.Dir, row, spawns)
	return err
}

// fund opens the account of the thread. It gets what it asks for of the rest of its parent's budget, at most all of
// that; if neither the directive nor the caller asks for an amount, a share.
func (t *thread) fund(ctx context.Context) error {
	parent, under, wanted := t.family.parent, t.family.under, t.money.limits.Spend
	open := func(part int64) error {
		t.money.limits.Spend = min(wanted, part)
		if err := t.engine.Ledger.Do(ctx, ledger.Open(t.id, t.family.parentID(), t.record.lease.Epoch,
			t.money.limits.Budget(), t.engine.Now())); err != nil {
			return err
		}
		t.money.account.Attach(t.engine.Ledger, &ledger.Balance{Thread: t.id, Epoch: t.record.lease.Epoch},
			t.record.lease.Guard)
		return nil
	}
	switch {
	case parent != nil:
		return ledger.Part(ctx, parent.money.account.Left, t.family.part, open)
	case under != "":
		return ledger.Part(ctx, func(ctx context.Context) (int64, error) {
			return ledger.Left(ctx, t.engine.Ledger, under)
		}, t.family.part, open)
	}
	return open(limits.Unlimited)
}

// options say how the transcript is written.
func (t *thread) options() (transcript.Driver, transcript.Options, error) {
	k, err := t.engine.Session.Kernel()
	if err != nil {
		return transcript.Driver{}, transcript.Options{}, err
	}
	return t.record.lease.Driver(k, t.engine.Program),
		transcript.Options{Key: k.Machine, Now: replay.Steady(t.engine.Now), Guard: t.record.lease.Guard,
			Show: t.start.Live.Event, Hook: t.engine.Hook}, nil
}

// writeStart begins the transcript.
func (t *thread) writeStart(ctx context.Context) error {
	started, err := t.started(ctx)
	if err != nil {
		return err
	}
	driver, options, err := t.options()
	if err != nil {
		return err
	}
	handed, err := replay.Hand(t.family.handed)
	if err != nil {
		return err
	}
	if err := t.keepLock(ctx); err != nil {
		return err
	}
	w, err := transcript.Create(t.record.lease.Dir, t.id, *started, driver, options, handed...)
	if err == nil {
		t.record.Write(w)
	}
	return err
}

// started is the first event of the thread.
func (t *thread) started(ctx context.Context) (*transcript.Started, error) {
	event, err := t.plan.Started(ctx, t.dialogue.model)
	if err != nil {
		return nil, err
	}
	inputs, err := jcs.Append(nil, t.inputs)
	if err != nil {
		return nil, err
	}
	event.Limits, event.Principal = t.money.limits.Record(), t.start.Principal
	event.Inputs, event.Given = cas.Sum(inputs), t.inputs
	event.Parent, event.Continues = t.family.parentID(), t.family.continues
	if t.money.limits.Depth != limits.Unlimited {
		event.Depth = t.money.limits.Depth
	}
	return event, nil
}
