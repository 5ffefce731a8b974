package thread

import (
	"context"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/thread/control"
	"github.com/rye-build/rye/exec/thread/hook"
	"github.com/rye-build/rye/exec/thread/ledger"
	"github.com/rye-build/rye/exec/thread/loop"
	"github.com/rye-build/rye/exec/thread/provider"
	"github.com/rye-build/rye/exec/thread/roster"
	"github.com/rye-build/rye/exec/thread/transcript"
)

// handOver decides what a new thread begins with that goes on with this one's work, and ends the loop.
func (t *thread) handOver(ctx context.Context, asked loop.Handoff) error {
	messages, err := provider.ReadMessages(asked.Messages, nil, 0)
	if err != nil {
		return err
	}
	if len(messages) == 0 {
		return fault.New(fault.Validation, "the loop calls handoff without messages")
	}
	if err := t.record.append(true, transcript.Limit{Code: "context", Current: t.dialogue.share(),
		Max: t.plan.Handoff.Threshold, Action: "handoff"}); err != nil {
		return err
	}
	if err := t.hooks.fills(ctx, hook.Full, t.dialogue.count.Filled()); err != nil {
		return err
	}
	room, read := t.plan.Handoff.Room(t.dialogue.window())
	var summary any
	if t.plan.Handoff.Directive != "" {
		if summary, err = t.calls.summary(ctx, t.plan.Handoff.Child(t.start.Directive.ID, messages,
			read*provider.PerToken)); err != nil {
			return err
		}
	}
	t.family.handed, err = t.plan.Agents.Continue(ctx,
		object{"reason": "handoff", "summary": summary, "messages": control.Values(messages), "message": nil,
			"ceiling": room * provider.PerToken})
	if err != nil {
		return err
	}
	return control.ErrHandedOff
}

// follow runs a thread, and those that it is handed over to, to the end of the last.
func (t *thread) follow(ctx context.Context) (*Result, error) {
	result, err := t.run(ctx)
	for err == nil && result.Status == Continued {
		before := result.Cost
		if t.family.next != nil {
			t = t.family.next
			result, err = t.run(ctx)
		} else {
			result, err = t.engine.GoOn(ctx, result.Next, &Resume{Principal: t.start.Principal,
				Approver: t.start.Approver, Live: t.start.Live, parent: t.family.parent})
		}
		if result != nil {
			result.Cost.Add(before)
		}
	}
	return result, err
}

// handTo begins the thread that goes on, or finds the one that was begun, and returns its id.
func (t *thread) handTo(ctx context.Context) (id string, err error) {
	var row *roster.Thread
	if t.origin.Format != "" { // only a process has left one that died before it recorded that
		row, err = control.Follower(ctx, t.engine.Roster, t.id)
	}
	switch {
	case err != nil:
		return "", err
	case row == nil:
		id = roster.NewID(t.start.Directive.ID, t.engine.Now())
	case transcript.Exists(row.Dir()):
		return row.ID, nil
	default:
		id = row.ID
	}
	n, err := t.successor(ctx, id, row)
	if err == nil {
		t.family.next = n
	}
	return id, err
}

// successor begins the thread that goes on. It may use what this one has left.
func (t *thread) successor(ctx context.Context, id string, row *roster.Thread) (*thread, error) {
	start := *t.start
	start.ID, start.family = id, t.family
	start.family.row, start.family.continues = row, t.id
	next := t.engine.newThread(&start)
	next.inputs, next.dialogue.model, next.watch.chain = t.inputs, t.dialogue.model, t.watch.chain
	if err := next.load(ctx); err != nil {
		return nil, err
	}
	next.plan.Caps = t.plan.Caps
	own, err := roster.Get(ctx, t.engine.Roster, t.id)
	if err != nil {
		return nil, err
	}
	// What is left of the budget must be free before the new account has it.
	if err := t.money.account.End(ctx, true, t.engine.Now()); err != nil {
		return nil, err
	}
	account, err := ledger.Get(ctx, t.engine.Ledger, t.id)
	if err != nil {
		return nil, err
	}
	next.money.limits = t.money.limits.Rest(t.money.used(), max(t.money.spent(), account.Spent())+account.Aside,
		own.Spawned)
	if err := next.plan.Offer(ctx); err != nil {
		return nil, err
	}
	return next, next.open(ctx)
}

// takeHanded takes what the thread was handed from its record.
func (t *thread) takeHanded() (err error) {
	if t.family.continues = t.origin.Continues; t.family.continues != "" {
		t.family.handed, err = t.record.Handed(t.id, t.family.continues)
	}
	return err
}
