package runs

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/graph"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/items"
	"github.com/rye-build/rye/cmd/rye/threads"
	"github.com/rye-build/rye/cmd/rye/threads/graphview"
	"github.com/rye-build/rye/cmd/rye/threads/live"
	"github.com/rye-build/rye/cmd/rye/trusts"
	"github.com/rye-build/rye/exec/proc"
	"github.com/rye-build/rye/exec/session"
	"github.com/rye-build/rye/exec/template/params"
	"github.com/rye-build/rye/exec/thread"
	"github.com/rye-build/rye/exec/thread/resume"
)

type runRun struct {
	Ref       string   `arg:"" complete:"directive" help:"Directive or graph (tool:ID) to run."`
	Input     []string `short:"i" placeholder:"NAME=VALUE" sep:"none" complete:"directive-input" help:"Input, converted by the directive's declaration (repeatable)."`
	Param     []string `short:"p" sep:"none" hidden:"" help:"Same as -i."`
	Inputs    string   `placeholder:"JSON" help:"Inputs as a JSON object, @FILE or - (standard input)."`
	Model     string   `placeholder:"MODEL" help:"Tier or model to use instead of the directive's."`
	Limit     []string `placeholder:"NAME=N" sep:"none" help:"Limit to use instead of the directive's (repeatable)."`
	Allow     []string `placeholder:"REF" sep:"none" help:"Approve calls of this tool beforehand (glob, repeatable)."`
	AllowSign bool     `help:"Let the model ask to sign items with your key."`
	NoWait    bool     `help:"Stop the thread at a call that waits for an approval."`
	Write     bool     `help:"Write the item that the directive returns, and sign it."`
	Events    bool     `help:"Write each recorded event to standard error as a line of JSON."`
	Pinned    bool     `help:"Run the locked version despite changes in the working tree."`
	Unlocked  bool     `help:"Run without a lock (refused in CI)."`
	Locked    bool     `help:"Require an up-to-date lock."`
	Frozen    bool     `help:"Same as --locked --offline."`
	Async     bool     `help:"Run in the background and print the thread id."`
	Detached  bool     `hidden:"" help:"Run the thread that standard input describes (internal)."`
	trusts.KeyFlag
	lock func(context.Context, *cli.App) (bool, error)
}

func (c *runRun) Run(ctx context.Context, a *cli.App) (cli.Answer, error) {
	if c.Detached {
		return c.detached(ctx, a)
	}
	return c.run(ctx, a, nil)
}

// run runs the directive; as what a process was started for, if it was.
func (c *runRun) run(ctx context.Context, a *cli.App, of *detachedRun) (_ cli.Answer, err error) {
	ref, err := c.ref(a)
	if err != nil {
		return nil, err
	}
	if c.Frozen {
		a.Globals.Offline = true
	}
	mode := session.Mode{Pinned: c.Pinned, Unlocked: c.Unlocked, Locked: c.Locked || c.Frozen}
	s, err := Open(ctx, a, mode)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	it, err := runs(ctx, a, s, ref)
	if err != nil {
		return nil, err
	}
	if ref.String() != c.Ref {
		defer func() {
			if err == nil {
				return
			}
			if tool, bad := s.Item(ctx, model.Ref{Kind: "tool", ID: ref.ID}); bad == nil {
				err = graphview.Meant(a, err, tool)
			}
		}()
	}
	if c.Async {
		return c.detach(ctx, a, s, ref)
	}
	if c.Write {
		if err := c.writable(ctx, a, s, ref); err != nil {
			return nil, err
		}
	}
	engine, done, err := s.engine(a, mode)
	if err != nil {
		return nil, err
	}
	defer done()
	v := live.Watch(a, c.Events)
	defer v.End()
	approver, err := s.approver(a, v, c.Allow, signer(a, v, c.KeyFlag, c.AllowSign))
	if err != nil {
		return nil, err
	}
	start := &thread.Start{Directive: ref, Inputs: c.given(a), Model: c.Model, Limits: c.Limit, Approver: approver,
		Live: v.Live()}
	if record, replay := strings.CutPrefix(c.Model, "replay:"); replay {
		dir, done, err := threads.OpenRecord(ctx, a, record)
		if err != nil {
			return nil, err
		}
		defer done()
		start.Model, start.Replay = "", dir
	}
	if of != nil {
		if ctx, err = of.start(ctx, s.Session, start, a.Now()); err != nil {
			return nil, err
		}
	}
	if it != nil && start.Replay == "" && (of == nil || of.job.Child == nil) {
		end, err := permit(ctx, a, s, it, start)
		if err != nil {
			return nil, Reworded(a, err)
		}
		defer func() {
			code := fault.Code("")
			if err != nil {
				code = fault.CodeOf(err)
			}
			err = errors.Join(err, end(context.WithoutCancel(ctx), string(code)))
		}()
	}
	r, err := engine.Run(ctx, start)
	if err == nil && !c.NoWait && start.Replay == "" {
		r, err = follow(ctx, a, engine, r, &thread.Resume{Approver: approver, Live: start.Live})
	}
	if err != nil {
		return nil, broken(a, r, err)
	}
	ans := runAnswer{Result: *r, shown: start.Live.Text != nil}
	if c.Write && r.Error == nil {
		ans.Written, err = c.write(ctx, a, r)
		return ans, err
	}
	return ans, r.Failure()
}

// engine returns what runs threads, and what ends it.
func (o *Opened) engine(a *cli.App, m session.Mode) (*thread.Engine, func(), error) {
	state := a.Dir(cli.StatePlace)
	if state.Err != nil {
		return nil, nil, state.Err
	}
	loops := o.Loops()
	rows, money := thread.Local(state.Value, a.Now)
	e := &thread.Engine{Session: o.Session, Loops: loops, Dir: o.Threads(),
		Program: "rye " + cli.ThisVersion().Version, Now: a.Now, Roster: rows, Ledger: money}
	e.Detach = func(ref model.Ref) (proc.Command, error) { return detachedCommand(a, ref, modeFlags(m)) }
	return e, func() {
		loops.Close()
		rows.Close()
		money.Shut()
	}, nil
}

// ref reads the argument.
func (c *runRun) ref(a *cli.App) (model.Ref, error) {
	text := c.Ref
	if !strings.Contains(text, ":") {
		text = "directive:" + text
	}
	ref, err := model.ParseRef(text)
	if err == nil && ref.Kind != "directive" && ref.Kind != "tool" {
		err = fault.New(fault.Validation, "%q is not a directive", ref).On("ref",
			ref.String()).Try(fault.Command("rye show", ref.String()))
	}
	return ref, err
}

// runs returns a graph, nil for a directive, and refuses a tool that is none: exec runs those.
func runs(ctx context.Context, a *cli.App, s *Opened, ref model.Ref) (*ai.Item, error) {
	if ref.Kind != "tool" {
		return nil, nil
	}
	it, err := s.Item(ctx, ref)
	switch {
	case err != nil && fault.CodeOf(err) != fault.NotFound && fault.CodeOf(err) != fault.ToolNotFound:
		return nil, Reworded(a, err)
	case err == nil && graph.Is(it.Model.Tool):
		return it, nil
	}
	return nil, graphview.NoGraph(a, ref)
}

func (c *runRun) given(a *cli.App) func(*params.Schema) (map[string]any, error) {
	return func(s *params.Schema) (map[string]any, error) {
		return s.Read(params.Caller{Pairs: slices.Concat(c.Input, c.Param), Text: c.Inputs,
			Flags: [2]string{"-i", "--inputs"}, Open: func(name string) (io.ReadCloser, error) {
				if name == "-" {
					return io.NopCloser(a.Stdin), nil
				}
				at := a.Absolute(cli.Setting{Value: name})
				if at.Err != nil {
					return nil, at.Err
				}
				return os.Open(at.Value)
			}})
	}
}

// broken returns the error of a thread that could not be recorded any further, with what goes on with it. Without a
// result none began.
func broken(a *cli.App, r *thread.Result, err error) error {
	err = Reworded(a, err)
	if r == nil || r.Thread == "" || fault.CodeOf(err) == fault.Conflict { // or another process has it
		return err
	}
	e := fault.Of(err).On("thread", r.Thread).Because("the thread " + r.Thread + " has no end: it can go on")
	return e.Try("rye thread resume " + fault.Quote(r.Thread))
}

// A runAnswer is what became of a thread.
type runAnswer struct {
	thread.Result
	Written *items.Written `json:"written,omitempty"` // with --write
	Process int            `json:"pid,omitempty"`     // with --async: that runs the thread
	Log     string         `json:"log,omitempty"`     // the file that it writes to
	shown   bool           // the model's text was shown as it came
	Carried *resume.From   `json:"continues,omitempty"` // the thread whose work this one goes on with
}

// Text prints the outputs, or the result where there are none.
func (r runAnswer) Text(t *cli.Terminal) {
	if r.Process != 0 {
		t.Printf("%s\n", r.Thread)
		return
	}
	if !r.shown && len(r.Outputs) == 0 && r.Result.Result != "" {
		t.Printf("%s\n", r.Result.Result)
	}
	if r.Written != nil {
		r.Written.Text(t)
		return
	}
	for _, name := range slices.Sorted(maps.Keys(r.Outputs)) {
		text, ok := r.Outputs[name].(string)
		if !ok {
			b, _ := json.Marshal(r.Outputs[name])
			text = string(b)
		}
		t.Printf("%s: %s\n", name, text)
	}
}
