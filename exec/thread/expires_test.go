package thread_test

import (
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rye-build/rye/ai/capability"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/captoken"
	"github.com/rye-build/rye/exec/thread"
	"github.com/rye-build/rye/exec/thread/ledger"
	"github.com/rye-build/rye/exec/thread/limits"
	"github.com/rye-build/rye/exec/thread/provider"
	"github.com/rye-build/rye/exec/thread/provider/modeltest"
	"github.com/rye-build/rye/exec/thread/roster"
	"github.com/rye-build/rye/exec/thread/toolcall"
	"github.com/rye-build/rye/exec/thread/transcript"
)

// TestHandoffExpires: the tokens of a thread bound the one that goes on with its work, too.
func TestHandoffExpires(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withOutputs(asking))
	w.window(4000)
	var late atomic.Int64
	w.engine.Now = func() time.Time { return time.Now().Add(time.Duration(late.Load())) }
	echo := func(tokens int64) modeltest.Turn {
		return modeltest.Turn{Calls: []provider.ToolCall{executes("e", "acme/echo", object{"text": "x"})},
			Usage: provider.Usage{Input: tokens, Output: 5}}
	}
	w.server.Handle(func(q *modeltest.Request) modeltest.Turn {
		all := q.Body["messages"].([]any)
		switch {
		case strings.Contains(fmt.Sprint(all), "Write that summary"):
			return modeltest.Turn{Text: "We were at one.", Usage: provider.Usage{Input: 7, Output: 3}}
		case !strings.Contains(fmt.Sprint(all), "We were at one."):
			return echo(3800)
		case all[len(all)-1].(object)["role"] != "tool":
			late.Store(int64(15 * time.Minute))
			return echo(50)
		}
		return modeltest.Turn{Calls: []provider.ToolCall{call("z", "directive_return", object{"answer": "late"})},
			Usage: provider.Usage{Input: 50, Output: 5}}
	})

	start := w.below(10 * time.Minute)
	r, err := w.run(t.Context(), start)
	must(t, err)
	if r.Thread == start.ID || r.Success || fault.CodeOf(r.Error) != fault.Expired {
		t.Errorf("%+v, %v", r, r.Error)
	}
}

// TestCallExpires: the tokens of a thread are looked at before each of the calls that are made side by side.
func TestCallExpires(t *testing.T) {
	t.Parallel()
	w := newWorld(t, plain(asking), modeltest.Turn{Calls: []provider.ToolCall{executes("a", "acme/echo",
		object{"text": "x"}), executes("b", "acme/echo", object{"text": "y"})}})
	var late atomic.Int64
	w.engine.Now = func() time.Time { return time.Now().Add(time.Duration(late.Load())) }
	start := w.below(10 * time.Minute)
	start.Live.Event = func(e *transcript.Event) {
		if e.Type == transcript.TypeCallStarted {
			late.Store(int64(15 * time.Minute))
		}
	}
	r, err := w.run(t.Context(), start)
	must(t, err)
	refused := 0
	for _, e := range w.events(r) {
		var c transcript.CallResult
		if e.Type == transcript.TypeCallResult {
			if must(t, e.Decode(&c)); c.Status == transcript.CallRefused && c.Error.Code == string(fault.Expired) {
				refused++
			}
		}
	}
	if r.Success || fault.CodeOf(r.Error) != fault.Expired || refused != 2 {
		t.Errorf("%+v, %v: %d calls were refused", r, r.Error, refused)
	}
}

// below starts a thread with tokens that last so long, below one in another process.
func (w *world) below(lasts time.Duration) thread.Start {
	w.t.Helper()
	ctx, now := w.t.Context(), w.engine.Now()
	at, err := roster.ProjectAt(w.Dir)
	must(w.t, err)
	ref := model.Ref{Kind: "directive", ID: "acme/plan"}
	top, id := roster.NewID("acme/plan", now), roster.NewID("acme/plan", now)
	caps, err := capability.ParseSet([]string{"rye.execute.tool.acme.*"})
	must(w.t, err)
	row := &roster.Thread{ID: top, Kind: "directive", Directive: ref.String(), Project: at, Created: now}
	must(w.t, os.MkdirAll(row.Dir(), 0o700), w.engine.Roster.Create(ctx, row, 1),
		w.engine.Ledger.Do(ctx, ledger.Open(top, "", 0, nil, now)))
	k, err := w.engine.Session.Kernel()
	must(w.t, err)
	var none *captoken.Chain
	texts, err := none.Give(k.Machine, captoken.New(top, ref.String(), w.engine.Session.Set(), caps, 5, now, lasts),
		captoken.New(id, ref.String(), w.engine.Session.Set(), caps, 4, now, lasts), now)
	must(w.t, err)
	chain, err := captoken.Take(texts, captoken.Use{Machine: k.Machine.Public(), Thread: id, Parent: top,
		Directive: ref.String(), Set: w.engine.Session.Set(), Now: now})
	must(w.t, err)
	return thread.Start{ID: id, Above: &toolcall.Above{Parent: top, Most: limits.None(), Chain: chain}}
}
