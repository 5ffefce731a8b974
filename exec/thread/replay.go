package thread

import (
	"context"
	"errors"

	"github.com/rye-build/rye/ai/capability"
	"github.com/rye-build/rye/exec/template/params"
	"github.com/rye-build/rye/exec/thread/replay"
	"github.com/rye-build/rye/exec/thread/transcript"
)

// PlayBack runs the loop of the thread whose transcript is in a directory again, with the directive, the loop and the
// configuration as they are now, or by an engine of Under as they were locked when it began. The model's answers and
// the results of calls come from the record, nothing is executed and nothing is written. Every event is compared, but
// for times, ids and signatures; the first that differs ends the replay. The transcript is read as it is:
// transcript.Verify decides whether it can be believed.
func (e *Engine) PlayBack(ctx context.Context, dir string) (*replay.Played, error) {
	thread, err := e.remember(ctx, dir)
	if err != nil {
		return nil, err
	}
	played := &replay.Played{Thread: thread.id, Directive: thread.start.Directive.ID}
	thread.record.Play(dir, 0)
	defer thread.record.Close()
	if err := thread.compareStart(ctx); err != nil {
		return played, played.Take(err)
	}
	result, err := thread.run(ctx)
	played.Turns, played.Status = thread.record.turn, result.Status
	switch {
	case errors.Is(err, replay.ErrEnds): // unless an answer or a result is missing in the middle
		played.Status = transcript.StatusUnfinished
		return played, played.Take(thread.record.Cut(thread.record.turn))
	case errors.Is(err, replay.ErrTime): // and the thread has ended now
		return played, played.Take(thread.record.Rest(thread.record.turn))
	case err != nil:
		return played, played.Take(err)
	}
	return played, played.Take(thread.record.Rest(thread.record.turn))
}

// compareStart compares what the thread would begin with now.
func (t *thread) compareStart(ctx context.Context) (err error) {
	if t.inputs, err = t.plan.Complete(params.Values(t.inputs)); err != nil {
		return err
	}
	if t.origin.Parent == "" && t.origin.Continues == "" && t.plan.Owned {
		err = t.plan.Permit(ctx)
		// its parent's permissions aren't known here, or who granted them
	} else if had, bad := capability.ParseSet(t.origin.Grants); bad == nil {
		err = t.plan.Narrow(had)
	} else {
		err = bad
	}
	if err != nil {
		return err
	}
	if err := t.plan.Offer(ctx); err != nil {
		return err
	}
	if t.dialogue.model, err = t.choose(ctx); err != nil {
		return err
	}
	started, err := t.started(ctx)
	if err != nil {
		return err
	}
	if err := t.record.append(false, *started); err != nil {
		return err
	}
	return t.takeHanded()
}
