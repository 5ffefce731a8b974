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
	if err := t.append(true, transcript.Limit{Code: "context", Current: t.share(), Max: t.plan.Handoff.Threshold,
		Action: "handoff"}); err != nil {
		return err
	}
	if err := t.fills(ctx, hook.Full, t.filled()); err != nil {
		return err
	}
	kept, read := t.plan.Handoff.Room(t.model.Provider().Window(t.model.Name()))
	var summary any
	if t.plan.Handoff.Directive != "" {
		if summary, err = t.summary(ctx, messages, read*provider.PerToken); err != nil {
			return err
		}
	}
	t.handed, err = t.Agents().Continue(ctx, object{"reason": "handoff", "summary": summary,
		"messages": control.Values(messages), "message": nil,
		"ceiling": kept * provider.PerToken})
	if err != nil {
		return err
	}
	return control.ErrHandedOff
}

// summary has a child summarise messages, in so many bytes. Without a summary the last messages have to do.
func (t *thread) summary(ctx context.Context, messages []provider.Message, room int64) (any, error) {
	given := t.plan.Handoff.Child(t.Directive.ID, messages, room)
	child, err := t.calls.Starts(given)
	if err != nil {
		return nil, err
	}
	child.Chosen = true
	c := t.number(child)
	if err := t.batch(ctx, []*toolCall{c}, 1); err != nil || c.Result.Status != transcript.CallOK {
		return nil, err
	}
	return t.calls.Summary(c.Call, c.text), nil
}

// follow runs a thread, and those that it is handed over to, to the end of the last.
func (t *thread) follow(ctx context.Context) (*Result, error) {
	r, err := t.run(ctx)
	for err == nil && r.Status == Continued {
		before := r.Cost
		if t.next != nil {
			t = t.next
			r, err = t.run(ctx)
		} else {
			r, err = t.GoOn(ctx, r.Next, &Resume{Principal: t.Principal, Approver: t.Approver, Live: t.Live,
				parent: t.parent})
		}
		if r != nil {
			r.Cost.Add(before)
		}
	}
	return r, err
}

// handTo begins the thread that goes on, or finds the one that was begun, and returns its id.
func (t *thread) handTo(ctx context.Context) (id string, err error) {
	var row *roster.Thread
	if t.origin.Format != "" { // only a process has left one that died before it recorded that
		row, err = control.Follower(ctx, t.Roster, t.id)
	}
	switch {
	case err != nil:
		return "", err
	case row == nil:
		id = roster.NewID(t.Directive.ID, t.Now())
	case transcript.Exists(row.Dir()):
		return row.ID, nil
	default:
		id = row.ID
	}
	n, err := t.successor(ctx, id, row)
	if err == nil {
		t.next = n
	}
	return id, err
}

// successor begins the thread that goes on. It may use what this one has left.
func (t *thread) successor(ctx context.Context, id string, row *roster.Thread) (*thread, error) {
	start := *t.Start
	start.ID, start.row = id, row
	n := t.newThread(&start)
	n.inputs, n.model, n.handed, n.continues, n.chain = t.inputs, t.model, t.handed, t.id, t.chain
	if err := n.load(ctx); err != nil {
		return nil, err
	}
	n.plan.Caps = t.plan.Caps
	own, err := roster.Get(ctx, t.Roster, t.id)
	if err != nil {
		return nil, err
	}
	// What is left of the budget must be free before the new account has it.
	if err := t.money.End(ctx, true, t.Now()); err != nil {
		return nil, err
	}
	account, err := ledger.Get(ctx, t.Ledger, t.id)
	if err != nil {
		return nil, err
	}
	spent, below := t.money.Spent()
	n.limits = t.limits.Rest(t.used(), max(spent+below, account.Spent())+account.Aside, own.Spawned)
	if err := n.plan.Offer(ctx); err != nil {
		return nil, err
	}
	return n, n.open(ctx)
}

// takeHanded takes what the thread was handed from its record.
func (t *thread) takeHanded() (err error) {
	if t.continues = t.origin.Continues; t.continues != "" {
		t.handed, err = t.recorder.Handed(t.id, t.continues)
	}
	return err
}
