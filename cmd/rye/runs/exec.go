package runs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/cmd/rye/audits"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/cmd/rye/signs"
	"github.com/rye-build/rye/cmd/rye/spaces"
	"github.com/rye-build/rye/exec"
	"github.com/rye-build/rye/exec/audit/receipt"
	"github.com/rye-build/rye/exec/audit/record"
	"github.com/rye-build/rye/exec/session"
	"github.com/rye-build/rye/exec/sink"
	"github.com/rye-build/rye/exec/template/params"
	"github.com/rye-build/rye/manifest/policy/floor"
)

type execRun struct {
	Ref     string         `arg:"" complete:"tool|path" help:"Tool to run."`
	Param   []string       `short:"p" placeholder:"NAME=VALUE" sep:"none" complete:"tool-input" help:"Parameter, converted by the tool's schema (repeatable)."`
	Params  string         `placeholder:"JSON" help:"Parameters as a JSON object, @FILE or - (standard input)."`
	DryRun  bool           `help:"Show what would run; start nothing."`
	Timeout *time.Duration `placeholder:"TIME" help:"Shorten the tool's time limit, such as 30s."`
	Receipt string         `placeholder:"FILE" complete:"file" help:"Write the signed receipt to FILE."`
	Sink    string         `placeholder:"WHERE" help:"Stream output to raw:PATH, jsonl:PATH, null, ws://… or wss://…."`
	mode

	to     sink.Target
	nested receipt.Keeper
}

// execAnswer is the plan of a dry run, or the result of a call.
type execAnswer struct {
	*session.Report
	shown bool // the tool's output was shown while it ran
}

func (c *execRun) Run(ctx context.Context, app *cli.App) (cli.Answer, error) {
	ref, err := c.ref(ctx, app)
	if err != nil {
		return nil, err
	}
	if err := c.check(app); err != nil {
		return nil, err
	}
	var opened *Opened
	var plan *exec.Plan
	// Only what comes before the tool starts may be repeated.
	if _, err := signs.Meet(ctx, app, "", nil, func() (cli.Answer, error) {
		opened, plan, err = c.prepare(ctx, app, ref)
		return nil, err
	}); err != nil {
		return nil, err
	}
	defer opened.Close()
	defer plan.Close()
	if plan.Damage != nil {
		app.Term.Warn("a cached copy of the tool's files was damaged and made again: %s", plan.Damage)
	}
	ans := &execAnswer{Report: session.NewReport(plan)}
	if c.DryRun {
		return ans, ans.AddPlan(plan)
	}
	return c.call(ctx, app, opened, plan, ans)
}

// prepare opens a session and prepares the call. The caller closes both.
func (c *execRun) prepare(ctx context.Context, app *cli.App, ref model.Ref) (*Opened, *exec.Plan, error) {
	opened, err := c.open(ctx, app)
	if err != nil {
		return nil, nil, err
	}
	call := &exec.Call{Ref: ref, Timeout: cli.Value(c.Timeout), Params: c.readParams(app), Dry: c.DryRun,
		Door: door(app, opened)}
	if c.Receipt != "" {
		dirs, err := audits.Dirs(app)
		if err != nil {
			opened.Close()
			return nil, nil, err
		}
		c.nested.Dir, call.Keep = dirs.Receipts, c.nested.Keep
	}
	p, err := opened.Prepare(ctx, call)
	if err != nil {
		opened.Close()
		return nil, nil, Reworded(app, err)
	}
	return opened, p, nil
}

// check refuses, before the tool runs, what would fail only afterwards.
func (c *execRun) check(a *cli.App) error {
	if c.Timeout != nil && *c.Timeout <= 0 {
		return fault.New(fault.Validation, "--timeout must be greater than 0")
	}
	if err := c.target(a); err != nil || c.Receipt == "" {
		return err
	}
	at := a.Absolute(cli.Setting{Value: c.Receipt})
	if at.Err != nil {
		return at.Err
	}
	name := c.Receipt
	c.Receipt = at.Value
	if _, err := os.Lstat(c.Receipt); err == nil {
		return c.receiptThere()
	}
	if err := paths.NoPlace(name, c.Receipt); err != nil {
		return err
	}
	if info, err := os.Stat(filepath.Dir(c.Receipt)); err != nil {
		return err
	} else if !info.IsDir() {
		return &fs.PathError{Op: "open", Path: c.Receipt, Err: syscall.ENOTDIR}
	}
	return nil
}

// receiptThere returns the error for --receipt with an existing file.
func (c *execRun) receiptThere() error {
	return fault.New(fault.Conflict, "%q exists; --receipt does not overwrite files", c.Receipt).Permanent().
		Try("rye audit verify "+fault.Quote(c.Receipt)).From(fs.ErrExist).On("path", c.Receipt)
}

// target parses --sink.
func (c *execRun) target(a *cli.App) (err error) {
	if c.to, err = sink.Parse(c.Sink); err != nil {
		return err
	}
	switch {
	case c.to.Kind == sink.Server && a.IsOffline():
		return fault.New(fault.Offline, "%q is unreachable: %s", c.to.URL.Host, a.Offline().Origin).
			Try("rye help exec").On("host", c.to.URL.Host)
	case c.to.Path != "":
		at := a.Absolute(cli.Setting{Value: c.to.Path})
		if err = at.Err; err == nil {
			err = paths.NoPlace(c.to.Path, at.Value)
		}
		c.to.Path = at.Value
	}
	return err
}

// call runs a prepared plan, writes the receipt, and returns the error of a call that failed.
func (c *execRun) call(ctx context.Context, app *cli.App, opened *Opened, plan *exec.Plan,
	ans *execAnswer) (cli.Answer, error) {
	// If the reader of the output goes away, the next write fails and ends the tool. It must not end rye before the
	// end of the call is logged.
	unread := make(chan os.Signal, 1)
	signal.Notify(unread, syscall.SIGPIPE)
	defer signal.Stop(unread)
	out := openSink(app)
	ans.shown = !app.Term.Json
	stream, err := sink.Opener{}.Open(ctx, c.to)
	if err != nil {
		return nil, err
	}
	out.sink = stream
	result, err := plan.Run(ctx, out)
	out.flush()
	writeErr := out.writeErr
	if stream != nil {
		writeErr = cmp.Or(stream.Close(), writeErr)
	}
	if logged := opened.Close(); logged != nil && err == nil {
		err = logged
	}
	if result == nil {
		return nil, err
	}
	ans.AddResult(result)
	if c.Receipt != "" && result.Receipt != nil {
		if err := osfile.WriteFile(c.Receipt, 0o644, true, osfile.BytesOf(result.Receipt)); errors.Is(err,
			fs.ErrExist) {
			return ans, c.receiptThere() // created after check
		} else if err = cmp.Or(err, c.nested.Err()); err != nil {
			return ans, err
		}
	}
	if err != nil {
		return ans, err
	}
	warnWeak(app, plan, result)
	if writeErr != nil && (result.Status == record.OK || result.Ended == "cancelled" && ctx.Err() == nil) {
		return ans, writeErr
	}
	f := c.callFault(app, plan, result)
	if f == nil {
		return ans, nil
	}
	if f.Code == fault.Cancelled && out.unread {
		f.Why = nil // it would say the same
		f.Text = fmt.Sprintf("%q was stopped: its output is no longer read", ans.Ref)
	}
	return ans, f
}

// toolArg turns a bare id into the ref of a tool, unless a file has that path. Other arguments stay as they are.
func toolArg(a *cli.App, text string) string {
	ref, err := model.ParseRef("tool:" + text)
	if err != nil {
		return text
	}
	if at := a.Absolute(cli.Setting{Value: text}); at.Err == nil {
		if _, err := os.Lstat(at.Value); err == nil {
			return text
		}
	}
	return ref.String()
}

// ref resolves the argument to the ref of a tool.
func (c *execRun) ref(ctx context.Context, a *cli.App) (model.Ref, error) {
	text := toolArg(a, c.Ref)
	ref, err := model.ParseRef(text)
	if err != nil { // a path
		v, err := spaces.OpenItems(ctx, a)
		if err != nil {
			return ref, err
		}
		defer v.Close()
		it, err := v.FindNamed(ctx, text)
		if err != nil {
			return ref, err
		}
		ref = it.Ref
	}
	return ref, onlyTool(ref)
}

// onlyTool refuses items that can't be executed.
func onlyTool(ref model.Ref) error {
	switch ref.Kind {
	case "tool":
		return nil
	case "directive":
		return fault.New(fault.Validation, "%q is a directive: rye run runs it with a model", ref).
			Try("rye run "+fault.Quote(ref.String())).On("ref", ref.String())
	}
	return fault.New(fault.Validation, "%q is not a tool; only tools can be run", ref).
		Try("rye show "+fault.Quote(ref.String()), "rye ls 'tool:**'").On("ref", ref.String())
}

// readParams returns a function that reads the parameters of the command line by a schema.
func (c *execRun) readParams(a *cli.App) func(*params.Schema) (map[string]any, error) {
	return func(s *params.Schema) (map[string]any, error) {
		return s.Read(params.Caller{Pairs: c.Param, Text: c.Params, Open: func(name string) (io.ReadCloser, error) {
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

// CallFault returns the error of a call that was made without a command line, or nil if it succeeded.
func CallFault(a *cli.App, p *exec.Plan, r *exec.Result) *fault.Error {
	return new(execRun).callFault(a, p, r)
}

// callFault returns the error of a call that was made, or nil if it succeeded.
func (c *execRun) callFault(app *cli.App, plan *exec.Plan, result *exec.Result) *fault.Error {
	if result.Status == record.OK {
		return nil
	}
	ref := plan.Chain[0].Item.Ref.String()
	show := fault.Command("rye show", ref)
	failure := fault.New(fault.Code(result.Code), "%q failed", ref).On("ref", ref).On("call", result.ID)
	switch failure.Code {
	case fault.Timeout:
		failure.Text = fmt.Sprintf("%q was stopped after %s, with all that it had started", ref,
			result.Duration.Round(time.Millisecond))
		if c.Timeout == nil || result.Duration < *c.Timeout {
			failure.Because("the limit is " + plan.Action.Limit(result.Ended)).Try(show)
		} else {
			failure.Because(fmt.Sprintf("the limit is --timeout %s", *c.Timeout))
		}
	case fault.Cancelled:
		failure.Text = fmt.Sprintf("%q was interrupted", ref)
	case fault.Resource:
		failure.Text = fmt.Sprintf("%q was stopped: it exceeded a limit: %s", ref, result.Ended)
		failure.On("limit", result.Ended).Because("the limit is " + plan.Action.Limit(result.Ended)).Try(show)
	case fault.Validation:
		failure.Text, failure.Exit = fmt.Sprintf("the result of %q doesn't match its output schema", ref), fault.ExitNo
		for _, problem := range result.Problems {
			failure.Because(problem.String())
		}
		return failure
	default:
		switch {
		case result.Signal != "":
			failure.Text += " with the signal " + result.Signal
		case result.Exit != 0:
			failure.Text += fmt.Sprintf(" with the status %d", result.Exit)
		}
	}
	if result.Failure == "" {
		return failure
	}
	failure.On("reason", result.Failure)
	// Without an exit status or a signal there was no process that could have printed the reason.
	lines := strings.Split(strings.TrimRight(result.Failure, "\n"), "\n")
	if app.Term.Json || answered(result.Value) || result.Exit == 0 && result.Signal == "" {
		failure.Because(lines[max(0, len(lines)-fault.MaxLines):]...)
	} else if len(result.Denied) > 0 || len(result.Asides) > 0 || strings.HasPrefix(result.Failure, result.Closed) &&
		result.Closed != "" { // the first lines are the sandbox's
		failure.Because(lines[:min(max(1, len(result.Asides)), len(lines), fault.MaxLines)]...)
	}
	if refused := len(result.Denied) > 0 || blocked().MatchString(result.Failure); refused && plan.Shim != nil {
		explainShim(app, failure, plan)
	} else if len(result.Denied) > 0 {
		failure.Try(fault.Command("rye exec", ref) + " --dry-run")
	} else if refused {
		failure.Because("the sandbox may have refused this: --dry-run lists what the tool may read, write and reach").
			Try(fault.Command("rye exec", ref) + " --dry-run")
		if plan.Stranger {
			failure.Try("rye docs policy")
		}
	}
	return failure
}

// explainShim says why a program of a version manager can't start, and what starts one.
func explainShim(app *cli.App, failure *fault.Error, plan *exec.Plan) {
	shim := plan.Shim
	failure.Because(fmt.Sprintf("the %s in PATH is %s, a script of a version manager", shim.Name, shim.Path),
		"it starts another program, by files that the sandbox doesn't let it read")
	switch {
	case shim.Past == "":
		failure.Try("rye docs runtimes") // which has the types of env_config that ask a version manager
	case plan.Action.Programs[shim.Name].Path == "": // a script of the chain names it
		failure.Because("one that needs no manager is " + shim.Past).
			Try("PATH=" + fault.Quote(filepath.Dir(shim.Past)) + ":$PATH " + fault.Command("rye", app.Args...))
	default:
		failure.Because("one that needs no manager is "+shim.Past+"; on every machine an item finds it by",
			fmt.Sprintf(`command: "${RYE_PROGRAM}" and env_config: {interpreter: {type: system_binary, binary: %s, `+
				`var: RYE_PROGRAM}}`, shim.Name)).Try("rye docs runtimes")
	}
}

// answered reports whether a tool gives the reason in its answer; any other reason was printed to standard error
// already.
func answered(v any) bool {
	object, _ := v.(map[string]any)
	success, ok := object["success"].(bool)
	return ok && !success
}

// blocked matches what programs print when the sandbox refuses something.
var blocked = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(
		`(?i)permission denied|not permitted|read-only file system|network is unreachable|name resolution|address family not|` +
			`tunnel failed|isn't granted|\b(EACCES|EPERM|EROFS|ENETUNREACH|EAI_AGAIN|EAFNOSUPPORT)\b`)
})

// shortDigest shortens a digest for people who compare it.
func shortDigest(d cas.Digest) string { return "blake3:" + d.Short() }

func (x execAnswer) Text(term *cli.Terminal) {
	if x.Plan == nil {
		if !x.shown {
			term.Printf("%s\n", string(x.Result))
		}
		return
	}
	term.Printf("%s  %s\n", x.Ref, shortDigest(x.Digest))
	rows := [][]string{}
	for i, l := range x.Chain {
		rows = append(rows, []string{strings.Repeat("  ", i) + l.Ref, l.Space, shortDigest(l.Digest),
			strings.Join(audits.ShortAll(l.Signers), ", ")})
	}
	term.Rows(rows)
	list := func(name string, items []string) {
		term.Printf("%-12s %s\n", name, cmp.Or(strings.Join(items, ", "), "nothing"))
	}
	term.Printf("\n%-12s %s\n%-12s %s\n", "parameters", string(x.Plan.Params), "config", string(x.Plan.Config))
	list("sets", x.Plan.Set)
	need := "what this machine has"
	if x.Sandbox.Need != floor.None.String() {
		need = "at least " + x.Sandbox.Need
	}
	term.Printf("%-12s %s\n", "sandbox", need)
	list("reads", x.Plan.Read)
	list("writes", x.Plan.Write)
	if x.Plan.Undecided {
		term.Printf("%-12s Python chooses them when it starts\n", "packages")
	}
	term.Printf("%-12s %s\n", "risk", model.RiskText(x.Risk, x.Derived))
	if x.Plan.Asks != "" {
		term.Printf("%-12s needed: %s\n", "approval", x.Plan.Asks)
	}
	list("network", x.Grants.Network)
	list("may", x.Grants.Permissions)
	list("secrets", x.Grants.Secrets)
	if len(x.Grants.Withheld) > 0 {
		list("withheld", x.Grants.Withheld)
	}
	for _, q := range x.Unpinned {
		term.Printf("%-12s %s  %s\n", "unpinned", q.Path, shortDigest(q.Digest))
	}
	for _, q := range x.Packages {
		term.Printf("%-12s %s  %s\n", "package", q.Name, shortDigest(q.Digest))
	}
	for _, q := range x.Pinned {
		term.Printf("%-12s %s  %s\n", "pinned", q.Path, shortDigest(q.Digest))
	}
	term.Note("nothing was started")
}
