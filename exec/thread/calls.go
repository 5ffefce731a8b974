package thread

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/thread/loop"
	"github.com/rye-build/rye/exec/thread/plan"
	"github.com/rye-build/rye/exec/thread/provider"
	"github.com/rye-build/rye/exec/thread/replay"
	"github.com/rye-build/rye/exec/thread/toolcall"
	"github.com/rye-build/rye/exec/thread/transcript"
)

type object = map[string]any

// A toolCall is a call of the model, as the record has it.
type toolCall struct {
	*toolcall.Call
	artifact *transcript.Artifact
	text     string // that the model is given
	over     bool
}

// calls makes the calls of a thread's model, hooks and graph, and records them: a call that the record has is answered
// from there.
type calls struct {
	*toolcall.Maker
	plan     *plan.Plan
	record   *record
	money    *money
	dialogue *dialogue
	watch    *watch
	hooks    *hooks
}

// number gives a call its name in the record.
func (c *calls) number(call *toolcall.Call) *toolCall {
	call.Record = c.record.name()
	return &toolCall{Call: call}
}

// prepare prepares the calls of one turn, and numbers them in their order.
func (c *calls) prepare(ctx context.Context, wanted []provider.ToolCall) []*toolCall {
	all := make([]*toolCall, len(wanted))
	for i, call := range c.PrepareAll(ctx, wanted) {
		all[i] = c.number(call)
	}
	return all
}

// make makes the calls of one turn, and returns the messages with their results.
func (c *calls) make(ctx context.Context, asked loop.Calls) (any, error) {
	wanted, err := readCalls(asked)
	if err != nil {
		return nil, err
	}
	all := c.prepare(ctx, wanted)
	if err := c.hooks.beforeCalls(ctx, all); err != nil {
		return nil, err
	}
	atOnce := c.atOnce(all)
	size := 1
	if atOnce > 1 {
		size = len(all)
	}
	for group := range slices.Chunk(all, max(size, 1)) {
		if err := c.watch.safe(); err != nil {
			return nil, err
		}
		if err := c.batch(ctx, group, atOnce); err != nil {
			return nil, err
		}
		if err := c.hooks.afterCalls(ctx, group); err != nil {
			return nil, err
		}
		if outputs := c.Returned(); outputs != nil {
			return nil, c.hooks.afterReturn(ctx, outputs)
		}
	}
	if err := c.hooks.afterStep(ctx, len(all)); err != nil {
		return nil, err
	}
	return c.messages(all), nil
}

// readCalls reads the calls that the loop wants.
func readCalls(asked loop.Calls) ([]provider.ToolCall, error) {
	var wanted []provider.ToolCall
	if err := provider.Decode(asked.Calls, &wanted); err != nil {
		return nil, fault.New(fault.Validation, "the loop makes calls that can't be read: %v", err)
	}
	if len(wanted) > provider.MaxCalls {
		return nil, fault.New(fault.Limit, "the loop makes %d calls in one turn; at most %d are allowed", len(wanted),
			provider.MaxCalls)
	}
	return wanted, nil
}

// atOnce returns how many of the calls of one turn are made side by side: one, unless all of them only read or start
// threads.
func (c *calls) atOnce(all []*toolCall) int {
	if slices.ContainsFunc(all, func(call *toolCall) bool {
		return call.Inside || call.Risk != "read" && call.Child == ""
	}) {
		return 1
	}
	return int(c.plan.Settings.Concurrent)
}

// messages returns the results of calls as messages of the loop.
func (c *calls) messages(all []*toolCall) []any {
	messages := make([]any, len(all))
	for i, call := range all {
		message := object{"role": "tool", "call_id": call.ID, "text": call.text}
		if call.Result.Status != transcript.CallOK {
			message["failed"] = true
		}
		messages[i] = message
		c.dialogue.count.Add(int64(len(call.text)))
	}
	return messages
}

// batch makes calls side by side. Each is in the record before it begins, and its result before anything else happens.
func (c *calls) batch(ctx context.Context, all []*toolCall, atOnce int) error {
	if err := c.recordStarts(all); err != nil {
		return err
	}
	rest, err := c.replay(ctx, all)
	if err != nil {
		return err
	}
	open, err := c.open(ctx, rest)
	if err != nil {
		return err
	}
	err = c.makeOpen(ctx, open, atOnce)
	return errors.Join(err, c.appendResults(rest))
}

// recordStarts records that calls begin. Those that the record has already are Begun, with the child that they had.
func (c *calls) recordStarts(all []*toolCall) error {
	events := make([]transcript.Payload, len(all))
	for i, call := range all {
		events[i] = call.Started(c.record.turn)
	}
	recorded, err := c.record.put(true, events...)
	if err != nil {
		return err
	}
	for i, event := range recorded {
		var started transcript.CallStarted
		if err := event.Decode(&started); err != nil {
			return err
		}
		all[i].Begun, all[i].Child = true, started.Child
	}
	return nil
}

// replay takes results from the record in its order, up to the first that it lacks, and returns the other calls.
func (c *calls) replay(ctx context.Context, all []*toolCall) ([]*toolCall, error) {
	rest := slices.Clone(all)
	for len(rest) > 0 {
		next, err := c.record.NextResult()
		if err != nil {
			return nil, err
		}
		i := max(0, slices.IndexFunc(rest, func(call *toolCall) bool { return call.Record == next }))
		if !rest[i].Begun {
			return rest, nil
		}
		if done, err := c.recall(ctx, rest[i]); err != nil || !done {
			return rest, err
		}
		if err := c.appendResults(rest[i : i+1]); err != nil {
			return nil, err
		}
		rest = slices.Delete(rest, i, i+1)
	}
	return rest, nil
}

// open returns the calls that are to be made. The first of the rest is one of them: replay has stopped there. Of the
// others, those that had begun beside it may have their results in the record or be unknown.
func (c *calls) open(ctx context.Context, rest []*toolCall) ([]*toolCall, error) {
	var open []*toolCall
	for i, call := range rest {
		if i > 0 && call.Begun {
			if done, err := c.recall(ctx, call); err != nil {
				return nil, err
			} else if done {
				continue
			}
		}
		open = append(open, call)
	}
	return open, nil
}

// recall takes the result of a call from the record. A call without a result is made again if it only reads, or if it
// is a child, which goes on; any other may have had an effect, and its result tells the model that this is unknown.
func (c *calls) recall(ctx context.Context, call *toolCall) (done bool, err error) {
	result, large, err := c.record.Result(call.Record)
	switch {
	case err != nil:
		return false, err
	case result != nil && call.Inside:
		return false, nil
	case result != nil:
		call.Result = *result
		text, _ := result.Output.(string)
		if large != nil {
			text = large.Content
		}
		c.money.account.Child(result.Cost)
		return true, c.guard(ctx, call, text)
	case call.Risk == "read" || call.Child != "":
		return false, nil
	}
	if unmade, err := c.Unmade(ctx, call.Call); unmade || err != nil {
		return false, err
	}
	text, err := call.End(transcript.CallUnknown, replay.Unknown(call.Name))
	return true, cmp.Or(err, c.guard(ctx, call, text))
}

// makeOpen makes calls, so many at once. A call whose token has expired isn't made: its result says so, and the thread
// ends before the next ones.
func (c *calls) makeOpen(ctx context.Context, open []*toolCall, atOnce int) error {
	return cas.Parallel(ctx, atOnce, len(open), func(ctx context.Context, i int) error {
		call := open[i]
		var text string
		err := c.watch.valid()
		if err == nil {
			text, err = call.Make(ctx)
		} else {
			text, err = call.End(transcript.CallRefused, fault.Of(err))
		}
		if err != nil || call.Waits != nil { // the others end first
			return err
		}
		return c.guard(ctx, call, text)
	})
}

// appendResults records the results of the calls that are over, and returns what the first of the others waits for.
func (c *calls) appendResults(all []*toolCall) (waits error) {
	var results []transcript.Payload
	for _, call := range all {
		if waits = cmp.Or(waits, call.Waits); !call.over {
			continue
		}
		if call.artifact != nil {
			results = append(results, *call.artifact)
		}
		results = append(results, call.Result)
	}
	return errors.Join(c.record.append(false, results...), waits)
}

// guard sets what the model is given of a result: the result as JSON, or the guard's extract of an artifact.
func (c *calls) guard(ctx context.Context, call *toolCall, text string) (err error) {
	call.over, call.text, call.Result.Result = true, text, cas.Sum([]byte(text))
	if len(text) > plan.MaxGuarded {
		call.Result.Artifact = call.Result.Result
		call.artifact = &transcript.Artifact{Call: call.Record, Digest: call.Result.Result, Media: "application/json",
			Content: text}
		if c.plan.Graph != nil { // which takes all of it
			return nil
		}
		if call.text, err = c.plan.Agents.Guard(ctx, call.Name, c.Artifacts.Keep(text), text,
			c.dialogue.share()); err != nil {
			return err
		}
	}
	call.Result.Output = call.text
	return nil
}

// summary has a child, which rye chooses, summarise the thread's work. nil: the child has failed, or returns none.
func (c *calls) summary(ctx context.Context, params map[string]any) (any, error) {
	child, err := c.Starts(params)
	if err != nil {
		return nil, err
	}
	child.Chosen = true
	call := c.number(child)
	if err := c.batch(ctx, []*toolCall{call}, 1); err != nil || call.Result.Status != transcript.CallOK {
		return nil, err
	}
	return c.Summary(call.Call, call.text), nil
}
