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
	"github.com/rye-build/rye/cmd/rye/signs"
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
	Ref       string   `arg:"" complete:"run" help:"Directive or graph (tool:ID) to run."`
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

// run runs the directive or graph. job is set in a process that another one started with detach.
func (c *runRun) run(ctx context.Context, app *cli.App, job *detachedRun) (cli.Answer, error) {
	ref, err := c.ref(app)
	if err != nil {
		return nil, err
	}
	if c.Frozen {
		app.Globals.Offline = true
	}
	var opened *Opened
	if _, err := signs.Meet(ctx, app, "", nil, func() (cli.Answer, error) {
		opened, err = c.openTrusted(ctx, app, ref)
		return nil, err
	}); err != nil {
		return nil, err
	}
	defer opened.Close()
	if err := job.inherit(ctx, opened); err != nil {
		return nil, err
	}
	graph, err := graphOf(ctx, app, opened, ref)
	if err != nil {
		return nil, err
	}
	by := &thread.Attendance{Graph: graph, Door: door(app, opened), NoWait: c.NoWait, Waits: waits(app)}
	ans, err := c.start(ctx, app, opened, &thread.Start{Directive: ref}, by, job)
	if err != nil && ref.String() != c.Ref {
		if tool, bad := opened.Item(ctx, model.Ref{Kind: "tool", ID: ref.ID}); bad == nil {
			err = graphview.Meant(app, err, tool)
		}
	}
	return ans, err
}

// openTrusted opens a session, and refuses an item whose signer the policy doesn't know before a thread begins.
func (c *runRun) openTrusted(ctx context.Context, a *cli.App, ref model.Ref) (*Opened, error) {
	s, err := Open(ctx, a, c.mode())
	if err != nil {
		return nil, err
	}
	if _, err := s.Item(ctx, ref); err != nil && fault.CodeOf(err) == fault.UntrustedKey {
		s.Close()
		return nil, err
	}
	return s, nil
}

func (c *runRun) mode() session.Mode {
	return session.Mode{Pinned: c.Pinned, Unlocked: c.Unlocked, Locked: c.Locked || c.Frozen}
}

// start runs a thread in this process, or with --async in another one.
func (c *runRun) start(
	ctx context.Context, app *cli.App, s *Opened, start *thread.Start, by *thread.Attendance, job *detachedRun,
) (cli.Answer, error) {
	if c.Async {
		return c.detach(ctx, app, s, start.Directive)
	}
	if c.Write {
		if err := c.writable(ctx, app, s, start.Directive); err != nil {
			return nil, err
		}
	}
	r, err := c.attend(ctx, app, s, start, by, job)
	if r == nil {
		return nil, err
	}
	ans := runAnswer{Result: *r, shown: start.Live.Text != nil}
	if c.Write && r.Error == nil {
		ans.Written, err = c.write(ctx, app, r)
		return ans, err
	}
	return ans, errors.Join(r.Failure(), err)
}

// attend runs a thread and shows its progress.
func (c *runRun) attend(
	ctx context.Context, app *cli.App, opened *Opened, start *thread.Start, by *thread.Attendance, job *detachedRun,
) (*thread.Result, error) {
	engine, err := openEngine(app, opened.Session, c.mode())
	if err != nil {
		return nil, err
	}
	defer engine.Close()
	v := live.Watch(app, c.Events)
	defer v.End()
	if start.Approver, err = opened.approver(app, v, c.Allow, signer(app, v, c.KeyFlag, c.AllowSign)); err != nil {
		return nil, err
	}
	start.Inputs, start.Model, start.Limits, start.Live = c.readInputs(app), c.Model, c.Limit, v.Live()
	if record, replay := strings.CutPrefix(c.Model, "replay:"); replay {
		dir, done, err := threads.OpenRecord(ctx, app, record)
		if err != nil {
			return nil, err
		}
		defer done()
		start.Model, start.Replay = "", dir
	}
	if job != nil {
		if ctx, err = job.start(ctx, opened.Session, start, app.Now()); err != nil {
			return nil, err
		}
	}
	r, err := engine.RunAttended(ctx, start, by)
	if err != nil {
		err = Reworded(app, err)
	}
	return r, err
}

// waits returns a function that tells the user that a thread waits for an approval.
func waits(a *cli.App) func(*thread.Result) {
	return func(r *thread.Result) {
		id, _ := r.Error.Details["request"].(string)
		a.Term.Note("%s (waits until %v): %s", r.Error.Text, r.Error.Details["expires"],
			fault.Command("rye approve", id))
	}
}

// openEngine opens the engine of a session. Threads that it detaches run in the same mode.
func openEngine(a *cli.App, s *session.Session, m session.Mode) (*thread.Engine, error) {
	return thread.Open(s, thread.Options{Program: "rye " + cli.ThisVersion().Version, Now: a.Now,
		Detach: func(ref model.Ref) (proc.Command, error) { return detachedCommand(a, ref, modeFlags(m)) }})
}

// ref parses the argument. Without a kind it is a directive.
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

// graphOf returns the graph, or nil for a directive. It refuses other tools, which rye exec runs.
func graphOf(ctx context.Context, app *cli.App, s *Opened, ref model.Ref) (*ai.Item, error) {
	if ref.Kind != "tool" {
		return nil, nil
	}
	it, err := s.Item(ctx, ref)
	switch {
	case err != nil && fault.CodeOf(err) != fault.NotFound && fault.CodeOf(err) != fault.ToolNotFound:
		return nil, Reworded(app, err)
	case err == nil && graph.Is(it.Model.Tool):
		return it, nil
	}
	return nil, graphview.NoGraph(app, ref)
}

// readInputs returns a function that reads the inputs of the command line by a schema.
func (c *runRun) readInputs(a *cli.App) func(*params.Schema) (map[string]any, error) {
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

// A runAnswer is the result of a thread.
type runAnswer struct {
	thread.Result
	Written *items.Written `json:"written,omitempty"` // with --write
	Process int            `json:"pid,omitempty"`     // with --async: the process that runs the thread
	Log     string         `json:"log,omitempty"`     // with --async: the log of that process
	shown   bool           // the model's text was shown while it arrived
	Carried *resume.From   `json:"continues,omitempty"` // the thread that this one continues
}

// Text prints the outputs. Without outputs it prints the result, unless the user has seen it already.
func (r runAnswer) Text(term *cli.Terminal) {
	if r.Process != 0 {
		term.Printf("%s\n", r.Thread)
		return
	}
	if !r.shown && len(r.Outputs) == 0 && r.Result.Result != "" {
		term.Printf("%s\n", r.Result.Result)
	}
	if r.Written != nil {
		r.Written.Text(term)
		return
	}
	for _, name := range slices.Sorted(maps.Keys(r.Outputs)) {
		text, ok := r.Outputs[name].(string)
		if !ok {
			b, _ := json.Marshal(r.Outputs[name])
			text = string(b)
		}
		term.Printf("%s: %s\n", name, text)
	}
}
