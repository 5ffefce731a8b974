package threads

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/threads/graphview"
	"github.com/rye-build/rye/exec/thread"
	"github.com/rye-build/rye/exec/thread/control"
	"github.com/rye-build/rye/exec/thread/roster"
	"github.com/rye-build/rye/exec/thread/transcript"
)

type logsRun struct {
	Thread string `arg:"" complete:"thread|path" help:"Thread id, directory, export or transcript.jsonl."`
	Follow bool   `short:"f" help:"Wait for further events until the thread ends."`
	Events bool   `help:"Write each event as a line of JSON."`
}

// logged is the answer of rye thread logs with --json.
type logged struct {
	Thread string `json:"thread"`
	Status string `json:"status"`
	Events []step `json:"events"`
}

// Text prints nothing: the lines are written while they are read.
func (logged) Text(*cli.Terminal) {}

// A follower waits between these times before it reads again, longer each time that nothing has happened.
const (
	shortestLook = 20 * time.Millisecond
	longestLook  = time.Second
)

func (c *logsRun) Run(ctx context.Context, app *cli.App) (cli.Answer, error) {
	source, done, err := find(app, c.Thread)
	if err != nil {
		return nil, err
	}
	defer done()
	if err := source.unpack(ctx); err != nil {
		return nil, err
	}
	ans := logged{Events: []step{}}
	overview := overview{Status: "running"}
	var wait func(time.Duration) error
	if c.Follow {
		wait = func(pause time.Duration) error {
			if err := errors.Join(app.Term.Data.Flush(), cas.Sleep(ctx, pause)); err != nil || pause < longestLook {
				return err
			}
			if dead, err := abandoned(ctx, app, overview.Thread); err != nil || !dead {
				return err
			}
			app.Term.Note("the process that ran the thread has died; %s",
				fault.Command("rye thread resume", overview.Thread))
			return io.EOF
		}
	}
	err = source.follow(ctx, wait, func(step step) error {
		overview.Thread = step.thread
		overview.take(step.Payload)
		switch {
		case app.Term.Json:
			ans.Events = append(ans.Events, step)
		case c.Events:
			b, err := json.Marshal(step)
			fmt.Fprintf(app.Term.Data, "%s\n", b)
			return err
		default:
			app.Term.Printf("%s  %s  %s\n", step.Time, step.Type,
				strings.Join(strings.Fields(line(step.Payload)), " "))
		}
		return nil
	})
	if err == nil && c.Follow {
		if err = app.Term.Data.Flush(); err == nil {
			err = settled(ctx, app, overview.Thread)
		}
	}
	if ans.Thread, ans.Status = overview.Thread, overview.Status; !app.Term.Json {
		return nil, err
	}
	return ans, err
}

// abandoned reports whether the process that ran a thread died before it recorded an end.
func abandoned(ctx context.Context, a *cli.App, id string) (bool, error) {
	state := a.Dir(cli.StatePlace)
	if state.Err != nil {
		return false, nil
	}
	rows, money := thread.Local(state.Value, a.Now)
	defer money.Shut()
	defer rows.Close()
	all, err := rows.Threads(ctx, roster.Filter{ID: id})
	return len(all) > 0 && all[0].Dead, err
}

// settled waits until the list of threads says too that the thread has ended: its process records that after the
// transcript's last line.
func settled(ctx context.Context, a *cli.App, id string) error {
	state := a.Dir(cli.StatePlace)
	if state.Err != nil {
		return nil
	}
	rows, money := thread.Local(state.Value, a.Now)
	defer money.Shut()
	defer rows.Close()
	for mark := ""; ; {
		var err error
		if mark, err = rows.Changed(ctx, mark); err != nil {
			return err
		}
		all, err := rows.Threads(ctx, roster.Filter{ID: id})
		if err != nil || len(all) == 0 || all[0].Dead || control.Stands(all[0]) {
			return err
		}
	}
}

// follow calls visit with every event. When all events are read it calls wait, which returns io.EOF to end; with a
// nil wait it ends there. A damaged line is an error.
func (s *source) follow(ctx context.Context, wait func(time.Duration) error, visit func(step) error) error {
	next, done, err := s.events()
	if err != nil {
		return err
	}
	defer done()
	stopped, pause := s.v1 || s.export != "", shortestLook
	for {
		step, err := next()
		switch p, bad := errors.AsType[*transcript.Problem](err); {
		case bad:
			return p.Fault().Asked().Try("rye thread verify " + fault.Quote(s.name))
		case err == io.EOF && (stopped || wait == nil):
			return nil
		case err == io.EOF:
			if err := wait(pause); err == io.EOF {
				return nil
			} else if err != nil {
				return err
			}
			pause = min(2*pause, longestLook)
			continue
		case err != nil:
			return err
		}
		if pause = shortestLook; step.Payload == nil {
			continue
		}
		stopped = stops(step.Payload, stopped)
		if err := errors.Join(visit(step), context.Cause(ctx)); err != nil {
			return err
		}
	}
}

// stops reports whether no process runs the thread after an event. before is the result for the event before.
func stops(p transcript.Payload, before bool) bool {
	switch p := p.(type) {
	case transcript.Waiting:
		return p.State == "interrupted"
	case transcript.Driver, transcript.Continued:
		return false
	}
	return before || p.Type().IsEnd()
}

// line summarizes an event in one line.
func line(payload transcript.Payload) string {
	switch started := payload.(type) {
	case transcript.Started:
		return fmt.Sprintf("%s, model %s", started.Directive.Ref, started.Model)
	case transcript.Driver:
		return strings.TrimSuffix(fmt.Sprintf("process %d of %s on %s", started.Process, started.Program,
			started.Host), " on ")
	case transcript.Request:
		return strings.TrimSuffix(fmt.Sprintf("turn %d, attempt %d: %s to %s", started.Turn, started.Attempt,
			fault.Count(int64(len(started.Messages)), "new message"), started.Model), " to ")
	case transcript.Answer:
		return answerLine(started)
	case transcript.Classified:
		return fmt.Sprintf("turn %d: %s (%s, %s)", started.Turn, coded(started.Error), started.Category,
			started.Action)
	case transcript.CallStarted:
		return fmt.Sprintf("%s: %s", started.Call, named(started))
	case transcript.CallResult:
		if started.Error != nil {
			return fmt.Sprintf("%s: %s: %s", started.Call, started.Status, coded(*started.Error))
		}
		return fmt.Sprintf("%s: %s, %s", started.Call, started.Status, started.Duration.Round(time.Millisecond))
	case transcript.Artifact:
		return fmt.Sprintf("%s: %d bytes of %s, %s", started.Call, len(started.Content), started.Media,
			started.Digest.Short())
	case transcript.Hook:
		return strings.TrimSpace(fmt.Sprintf("%s at %s %s", started.ID, started.Event, started.Action))
	case transcript.Limit:
		return fmt.Sprintf("%s: %v of %v", started.Code, started.Current, started.Max)
	case transcript.Waiting:
		if started.Error != nil {
			return fmt.Sprintf("%s: %s: %s", started.State, started.Reason, started.Error.Message)
		}
		return fmt.Sprintf("%s: %s", started.State, started.Reason)
	case transcript.Continued:
		return started.Message
	case transcript.Checkpoint:
		return fmt.Sprintf("turn %d", started.Turn)
	}
	return cmp.Or(graphview.Line(payload), endLine(payload))
}

// coded returns an error with its code; in transcripts of rye 1 it has none.
func coded(f transcript.Fault) string { return strings.TrimPrefix(f.Code+": "+f.Message, ": ") }

func answerLine(p transcript.Answer) string {
	text := fmt.Sprintf("turn %d", p.Turn)
	for i, c := range p.Calls {
		text += []string{": calls ", ", "}[min(i, 1)] + c.Name
	}
	if u := p.Usage; u != nil {
		text += fmt.Sprintf("; %d tokens in, %d out", u.Input+u.CacheRead+u.CacheWrite, u.Output+u.Reasoning)
	}
	return text + ", " + dollars(p.Cost)
}

// endLine summarizes in one line how a thread ended.
func endLine(p transcript.Payload) string {
	used := func(c transcript.Cost) string {
		return fmt.Sprintf("%s, %d tokens in, %d out, %s", fault.Count(c.Turns, "turn"), c.InputTokens, c.OutputTokens,
			dollars(c.Spend))
	}
	switch p := p.(type) {
	case transcript.Completed:
		return used(p.Cost)
	case transcript.Failed:
		return coded(p.Error) + "; " + used(p.Cost)
	case transcript.Cancelled:
		return strings.TrimPrefix(p.Reason+"; ", "; ") + used(p.Cost)
	case transcript.HandedOff:
		return fmt.Sprintf("in %s; %s", p.Next, used(p.Cost))
	}
	return ""
}
