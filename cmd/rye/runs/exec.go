package runs

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/cmd/rye/audits"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/places"
	"github.com/rye-build/rye/cmd/rye/spaces"
	"github.com/rye-build/rye/exec"
	"github.com/rye-build/rye/exec/audit/record"
	"github.com/rye-build/rye/exec/sink"
	"github.com/rye-build/rye/exec/template/params"
	"github.com/rye-build/rye/manifest/jcs"
	"github.com/rye-build/rye/manifest/policy/floor"
)

func ExecCommand() cli.Command {
	return cli.Command{
		Path: "exec", Group: "run", Help: "Run a pinned tool in a sandbox.",
		More: "With a lock, rye runs the locked files and refuses a working tree that differs. rye diff shows the difference, " +
			"--pinned ignores the working tree, and --dev runs this one tool from the working tree with the rights of an unsigned tool. " +
			"Without a rye.yaml, the tool runs from .ai.\n\n" +
			"Give each parameter as -p NAME=VALUE, before or after the tool, or all of them as JSON with --params. " +
			"Words without -p are refused, also after --. rye exec REF --help lists the parameters of a tool.\n\n" +
			"Every call is logged: rye audit list.\n\n" +
			"Examples:\n\n    rye exec acme/fetch -p url=https://example.com -p retries=3\n" +
			"    rye exec acme/fetch --params @call.json --timeout 30s\n    rye exec acme/fetch --help\n" +
			"    rye exec acme/fetch --dry-run\n    rye exec acme/fetch --receipt call.receipt.json\n" +
			"    rye exec acme/watch --sink jsonl:events.jsonl",
		Aka: []string{"execute", "run", "x", "call", "start"},
		New: func() cli.Runner { return new(execRun) }, Schema: "exec/1", Output: execAnswer{},
	}
}

type execRun struct {
	Ref     string        `arg:"" complete:"ref" help:"Tool to run."`
	Param   []string      `short:"p" placeholder:"NAME=VALUE" sep:"none" help:"Parameter, converted by the tool's schema (repeatable)."`
	Params  string        `placeholder:"JSON" help:"Parameters as a JSON object, @FILE or - (standard input)."`
	DryRun  bool          `help:"Show what would run; start nothing."`
	Timeout time.Duration `placeholder:"TIME" help:"Shorten the tool's time limit, such as 30s."`
	Receipt string        `placeholder:"FILE" complete:"file" help:"Write the signed receipt to FILE."`
	Sink    string        `placeholder:"WHERE" help:"Stream output to raw:PATH, jsonl:PATH, null, ws://… or wss://…."`
	mode

	to sink.Target
}

type execAnswer struct {
	Call       string           `json:"call"`
	Ref        string           `json:"ref"`
	Digest     string           `json:"digest"`
	Status     string           `json:"status"` // "ok", "failed", "timeout", "cancelled", "refused"; "planned" with --dry-run
	Result     json.RawMessage  `json:"result"`
	Exit       int              `json:"exit"`
	Chain      []execLink       `json:"chain"`
	Lock       string           `json:"lock,omitempty"`
	Dev        bool             `json:"dev,omitempty"`
	Stranger   bool             `json:"stranger"`
	Grants     execGrants       `json:"grants"`
	Sandbox    execSandbox      `json:"sandbox"`
	Unpinned   []execProgram    `json:"unpinned"`
	Pinned     []execProgram    `json:"pinned"`
	Packages   []execPackage    `json:"packages,omitempty"` // of the tool, as the lock calls them
	DurationMS int64            `json:"duration_ms"`
	Usage      map[string]int64 `json:"usage,omitempty"`
	Applied    []string         `json:"applied,omitempty"` // by the wrapper, such as another try
	Receipt    string           `json:"receipt,omitempty"` // its digest
	Problems   []params.Problem `json:"problems,omitempty"`
	Plan       *execPlan        `json:"plan,omitempty"`
	shown      bool             // what the tool wrote was passed on while it ran
}

type execLink struct {
	Ref     string   `json:"ref"`
	Space   string   `json:"space"`
	Digest  string   `json:"digest"`
	Tree    string   `json:"tree,omitempty"`
	Signers []string `json:"signers"`
}

type execGrants struct {
	Permissions []string `json:"permissions"`
	Read        []string `json:"read"`
	Write       []string `json:"write"`
	Network     []string `json:"network"`            // hosts, "*" for all
	Secrets     []string `json:"secrets"`            // by name
	Withheld    []string `json:"withheld,omitempty"` // secrets that it declares and may not have
}

type execSandbox struct {
	Need     string   `json:"need"`
	Level    string   `json:"level,omitempty"`
	Enforced []string `json:"enforced"`
}

type execProgram struct {
	Name    string `json:"name"`
	Path    string `json:"path"`
	Version string `json:"version,omitempty"`
	Digest  string `json:"digest"`
}

type execPackage struct {
	Name   string `json:"name"`
	Digest string `json:"digest"`
}

// execPlan is what only --dry-run shows.
type execPlan struct {
	Params json.RawMessage `json:"params"`
	Config json.RawMessage `json:"config"`
	Set    []string        `json:"set"` // variables that .env and the chain set
	Read   []string        `json:"read"`
	Write  []string        `json:"write"`
	// Undecided says that Python has to be asked which packages are for it, and nothing was started.
	Undecided bool `json:"undecided,omitempty"`
}

func (c *execRun) Run(ctx context.Context, a *cli.App) (cli.Answer, error) {
	ref, err := c.ref(ctx, a)
	if err != nil {
		return nil, err
	}
	if err := c.check(a); err != nil {
		return nil, err
	}
	s, err := c.open(ctx, a)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	p, err := s.Prepare(ctx, &exec.Call{Ref: ref, Timeout: c.Timeout, Params: c.given(a), Dry: c.DryRun})
	if err != nil {
		return nil, reworded(a, err)
	}
	defer p.Close()
	if p.Damage != nil {
		a.Term.Warn("a cached copy of the tool's files was damaged and made again: %s", p.Damage)
	}
	ans := c.answer(p)
	if c.DryRun {
		ans.Status = "planned"
		return ans, ans.plan(p)
	}
	return c.call(ctx, a, s, p, ans)
}

// check refuses what would fail when the tool has run already.
func (c *execRun) check(a *cli.App) error {
	if c.Timeout < 0 {
		return &fault.Error{Code: fault.Validation, Text: fmt.Sprintf("--timeout is %s, and has to be more than nothing", c.Timeout)}
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
	if err := places.NoPlace(name, c.Receipt); err != nil {
		return err
	}
	if info, err := os.Stat(filepath.Dir(c.Receipt)); err != nil {
		return err
	} else if !info.IsDir() {
		return &fs.PathError{Op: "open", Path: c.Receipt, Err: syscall.ENOTDIR}
	}
	return nil
}

func (c *execRun) receiptThere() error {
	return &fault.Error{Code: fault.Conflict, Final: true, Text: fmt.Sprintf("%q is there already, and a receipt replaces nothing", c.Receipt),
		Hint: []string{"rye audit verify " + fault.Quote(c.Receipt)}, Err: fs.ErrExist, Details: map[string]any{"path": c.Receipt}}
}

// target reads where the output goes.
func (c *execRun) target(a *cli.App) (err error) {
	if c.to, err = sink.Parse(c.Sink); err != nil {
		return err
	}
	switch {
	case c.to.Kind == sink.Server && a.IsOffline():
		return &fault.Error{Code: fault.Offline, Text: fmt.Sprintf("%q can't be asked: %s", c.to.URL.Host, a.Offline().Origin),
			Hint: []string{"rye help exec"}, Details: map[string]any{"host": c.to.URL.Host}}
	case c.to.Path != "":
		at := a.Absolute(cli.Setting{Value: c.to.Path})
		if err = at.Err; err == nil {
			err = places.NoPlace(c.to.Path, at.Value)
		}
		c.to.Path = at.Value
	}
	return err
}

// call runs what was prepared.
func (c *execRun) call(ctx context.Context, a *cli.App, s *opened, p *exec.Plan, ans *execAnswer) (cli.Answer, error) {
	// If the reader of the output goes away, the next write fails and ends the tool. It must not end rye before the end of
	// the call is logged.
	unread := make(chan os.Signal, 1)
	signal.Notify(unread, syscall.SIGPIPE)
	defer signal.Stop(unread)
	out := openSink(a)
	ans.shown = !a.Term.Json
	other, err := sink.Opener{}.Open(ctx, c.to)
	if err != nil {
		return nil, err
	}
	out.other = other
	r, err := p.Run(ctx, out)
	out.flush()
	lost := out.lost
	if other != nil {
		lost = cmp.Or(other.Close(), lost)
	}
	if logged := s.Close(); logged != nil && err == nil {
		err = logged
	}
	if r == nil {
		return nil, err
	}
	ans.result(r)
	if c.Receipt != "" && r.Receipt != nil {
		if err := osfile.WriteFile(c.Receipt, 0o644, true, osfile.BytesOf(r.Receipt)); errors.Is(err, fs.ErrExist) {
			return ans, c.receiptThere() // since check has looked
		} else if err != nil {
			return ans, err
		}
	}
	if err != nil {
		return ans, err
	}
	weaker(a, p, r)
	if lost != nil && (r.Status == record.OK || r.Ended == "cancelled" && ctx.Err() == nil) {
		return ans, lost
	}
	f := c.refused(a, p, r)
	if f == nil {
		return ans, nil
	}
	if f.Code == fault.Cancelled && out.gone {
		f.Why = nil // which says the same where the tool had no time to find out itself
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

// onlyTool refuses what can't be executed.
func onlyTool(ref model.Ref) error {
	switch ref.Kind {
	case "tool":
		return nil
	case "directive":
		return &fault.Error{Code: fault.Validation, Text: fmt.Sprintf("%q is a directive, which a model runs and exec doesn't", ref),
			Hint: []string{"rye show " + fault.Quote(ref.String())}, Details: map[string]any{"ref": ref.String()}}
	}
	return &fault.Error{Code: fault.Validation, Text: fmt.Sprintf("%q is no tool, and only tools are executed", ref),
		Hint: []string{"rye show " + fault.Quote(ref.String()), "rye ls 'tool:**'"}, Details: map[string]any{"ref": ref.String()}}
}

// given reads the parameters of the command line.
func (c *execRun) given(a *cli.App) func(*params.Schema) (map[string]any, error) {
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

// answer tells what was decided.
func (c *execRun) answer(p *exec.Plan) *execAnswer {
	tool := p.Chain[0]
	ans := &execAnswer{
		Call: p.ID(), Ref: tool.Item.Ref.String(), Digest: tool.Item.Raw.String(), Dev: p.Dev, Stranger: p.Stranger, Result: json.RawMessage("null"),
		Chain: []execLink{}, Unpinned: []execProgram{}, Pinned: []execProgram{},
		Grants: execGrants{
			Permissions: OrNone(p.Grants.Permissions.Strings()), Read: OrNone(p.Grants.Read), Write: OrNone(p.Grants.Write),
			Network: OrNone(p.Grants.Network.Hosts), Secrets: OrNone(p.Grants.Secrets), Withheld: p.Withheld(),
		},
		Sandbox: execSandbox{Need: max(p.Action.Sandbox.Level, floor.None).String(), Enforced: []string{}},
		Lock:    places.DigestText(p.Set),
	}
	if !p.Grants.Network.Bound {
		ans.Grants.Network = []string{"*"}
	}
	for _, l := range p.Chain {
		ans.Chain = append(ans.Chain, execLink{l.Item.Ref.String(), l.Item.Space.Label, l.Item.Raw.String(), places.DigestText(l.Tree), OrNone(l.Signers)})
	}
	for _, q := range p.Programs {
		line := execProgram{q.Name, q.Path, q.Version, q.Digest.String()}
		if q.Pinned {
			ans.Pinned = append(ans.Pinned, line)
		} else {
			ans.Unpinned = append(ans.Unpinned, line)
		}
	}
	for _, q := range p.Artifacts {
		ans.Packages = append(ans.Packages, execPackage{q.Name, q.Digest.String()})
	}
	return ans
}

func OrNone(list []string) []string { return append([]string{}, list...) }

// plan adds what --dry-run shows.
func (x *execAnswer) plan(p *exec.Plan) error {
	given, err := jcs.Append(nil, p.Params)
	if err != nil {
		return err
	}
	config, err := jcs.Append(nil, p.Config)
	if err != nil {
		return err
	}
	x.Plan = &execPlan{Params: given, Config: config, Set: OrNone(p.Keys), Read: OrNone(p.Action.Sandbox.Read), Write: OrNone(p.Action.Sandbox.Write),
		Undecided: p.Undecided}
	return nil
}

// result adds what became of it.
func (x *execAnswer) result(r *exec.Result) {
	x.Status, x.Exit, x.DurationMS, x.Usage, x.Problems, x.Applied = r.Status, r.Exit, r.Duration.Milliseconds(), r.Usage, r.Problems, r.Applied
	x.Sandbox.Level, x.Sandbox.Enforced = r.Level.String(), OrNone(r.Enforced)
	if r.Digest.IsZero() {
		x.Receipt = ""
	} else {
		x.Receipt = r.Digest.String()
	}
	if text, err := jcs.Append(nil, r.Value); err == nil {
		x.Result = text
	}
}

// refused returns the error of a call that was made and didn't succeed; nil if it did.
func (c *execRun) refused(a *cli.App, p *exec.Plan, r *exec.Result) *fault.Error {
	if r.Status == record.OK {
		return nil
	}
	ref := p.Chain[0].Item.Ref.String()
	show := fault.Command("rye show", ref)
	f := fault.New(fault.Code(r.Code), "%q failed", ref).On("ref", ref).On("call", r.ID)
	switch f.Code {
	case fault.Timeout:
		f.Text = fmt.Sprintf("%q was stopped after %s, with all that it had started", ref, r.Duration.Round(time.Millisecond))
		if c.Timeout == 0 || r.Duration < c.Timeout {
			f.Because("the limit is " + p.Action.Limit(r.Ended)).Try(show)
		} else {
			f.Because(fmt.Sprintf("the limit is --timeout %s", c.Timeout))
		}
	case fault.Cancelled:
		f.Text = fmt.Sprintf("%q was interrupted", ref)
	case fault.Resource:
		f.Text = fmt.Sprintf("%q was stopped: it exceeded a limit: %s", ref, r.Ended)
		f.On("limit", r.Ended).Because("the limit is " + p.Action.Limit(r.Ended)).Try(show)
	case fault.Validation:
		f.Text, f.Exit = fmt.Sprintf("the result of %q doesn't match its output schema", ref), fault.ExitNo
		for _, problem := range r.Problems {
			f.Because(problem.String())
		}
		return f
	default:
		switch {
		case r.Signal != "":
			f.Text += " with the signal " + r.Signal
		case r.Exit != 0:
			f.Text += fmt.Sprintf(" with the status %d", r.Exit)
		}
	}
	if r.Failure == "" {
		return f
	}
	f.On("reason", r.Failure)
	// Without the status of a process there was none, so nothing was printed.
	if a.Term.Json || answered(r.Value) || r.Exit == 0 && r.Signal == "" {
		lines := strings.Split(strings.TrimRight(r.Failure, "\n"), "\n")
		f.Because(lines[max(0, len(lines)-fault.MaxLines):]...)
	}
	if blocked.MatchString(r.Failure) {
		f.Because("the sandbox may have refused this: --dry-run lists what the tool may read, write and reach").Try(fault.Command("rye exec", ref) + " --dry-run")
		if p.Stranger {
			f.Try("rye docs policy")
		}
	}
	return f
}

// answered reports whether a tool gives the reason in its answer; any other reason was printed to standard error already.
func answered(v any) bool {
	object, _ := v.(map[string]any)
	success, ok := object["success"].(bool)
	return ok && !success
}

// blocked matches what programs print when the sandbox refuses something.
var blocked = regexp.MustCompile(`(?i)permission denied|not permitted|read-only file system|network is unreachable|name resolution|address family not|` +
	`tunnel failed|isn't granted|\b(EACCES|EPERM|EROFS|ENETUNREACH|EAI_AGAIN|EAFNOSUPPORT)\b`)

// shortDigest is a digest as people compare it.
func shortDigest(digest string) string {
	scheme, hex, _ := strings.Cut(digest, ":")
	return scheme + ":" + places.Short(hex)
}

func (x execAnswer) Text(t *cli.Terminal) {
	if x.Plan == nil {
		if !x.shown {
			t.Printf("%s\n", string(x.Result))
		}
		return
	}
	t.Printf("%s  %s\n", x.Ref, shortDigest(x.Digest))
	rows := [][]string{}
	for i, l := range x.Chain {
		rows = append(rows, []string{strings.Repeat("  ", i) + l.Ref, l.Space, shortDigest(l.Digest), strings.Join(audits.ShortAll(l.Signers), ", ")})
	}
	t.Rows(rows)
	list := func(name string, items []string) {
		t.Printf("%-12s %s\n", name, cmp.Or(strings.Join(items, ", "), "nothing"))
	}
	t.Printf("\n%-12s %s\n%-12s %s\n", "parameters", string(x.Plan.Params), "config", string(x.Plan.Config))
	list("sets", x.Plan.Set)
	need := "what this machine has"
	if x.Sandbox.Need != floor.None.String() {
		need = "at least " + x.Sandbox.Need
	}
	t.Printf("%-12s %s\n", "sandbox", need)
	list("reads", x.Plan.Read)
	list("writes", x.Plan.Write)
	if x.Plan.Undecided {
		t.Printf("%-12s Python says which are for it when it is started\n", "packages")
	}
	list("network", x.Grants.Network)
	list("may", x.Grants.Permissions)
	list("secrets", x.Grants.Secrets)
	if len(x.Grants.Withheld) > 0 {
		list("withheld", x.Grants.Withheld)
	}
	for _, q := range x.Unpinned {
		t.Printf("%-12s %s  %s\n", "unpinned", q.Path, shortDigest(q.Digest))
	}
	for _, q := range x.Packages {
		t.Printf("%-12s %s  %s\n", "package", q.Name, shortDigest(q.Digest))
	}
	for _, q := range x.Pinned {
		t.Printf("%-12s %s  %s\n", "pinned", q.Path, shortDigest(q.Digest))
	}
	t.Note("nothing was started")
}
