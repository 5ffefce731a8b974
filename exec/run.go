package exec

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/audit/receipt"
	"github.com/rye-build/rye/exec/audit/record"
	"github.com/rye-build/rye/exec/audit/redact"
	"github.com/rye-build/rye/exec/packages"
	"github.com/rye-build/rye/exec/primitive"
	"github.com/rye-build/rye/exec/sink"
	"github.com/rye-build/rye/exec/template/params"
	"github.com/rye-build/rye/manifest/jcs"
)

// A Result is the result of a call: its action's, with its status and its receipt.
type Result struct {
	primitive.Result
	ID       string
	Status   string           // one of package record's words
	Code     string           // of the error; "" with record.OK
	Problems []params.Problem // with a value that doesn't match the tool's output schema
	Began    time.Time
	Duration time.Duration
	Receipt  []byte
	Digest   cas.Digest // of the receipt
	Data     string     // the directory of a plugin's data from which unpinned code could run; "" if none could
}

// newID returns an id for a call. Ids sort by time.
func newID(now time.Time) string {
	var b [10]byte
	rand.Read(b[:])
	return fmt.Sprintf("%012x%020x", max(now.UnixMilli(), 0), b)
}

// ID returns the id of the call in the log.
func (p *Plan) ID() string { return p.id }

// Run runs the plan, once. A tool that fails has a Result and no error. An error without a Result means that nothing
// ran. An error with a Result whose Status isn't record.Refused means that the tool ran but its log entry or receipt
// could not be written.
func (p *Plan) Run(ctx context.Context, to primitive.Sink) (*Result, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if p.ran {
		return nil, errors.New("a plan is run once")
	}
	p.ran = true
	vars, values, err := p.secrets(ctx)
	if err != nil {
		return nil, err
	}
	hide := redact.New(values...)
	action, err := p.disclosed(vars, hide)
	if err != nil {
		return nil, err
	}
	call, err := p.record(hide)
	if err != nil {
		return nil, err
	}
	action.Identity = p.identity(call, values)
	if p.policies.Floor().Audit {
		p.kernel.Log.Require()
	}
	used, err := p.use(ctx)
	if err != nil {
		return nil, err
	}
	entry, err := p.kernel.Log.Begin(ctx, call)
	if err != nil {
		err = errors.Join(err, used(ctx, refusal(err)))
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, NotLogged(p.call.Ref, false, err)
	}
	self := &Caller{ID: p.id, Grants: p.Grants, stranger: p.stranger(), secrets: values, children: &children{},
		call: p.call, above: p.caller, foreign: p.chain.Foreign || p.Dev, keep: p.call.Keep}
	if self.keep == nil && p.caller != nil {
		self.keep = p.caller.keep
	}
	result := &Result{ID: p.id, Began: p.kernel.Now()}
	began := time.Now()
	var did *primitive.Result
	unpinned := p.interprets()
	if err = p.make(); err == nil {
		did, err = p.act(context.WithValue(ctx, callerKey{}, self), action, to, values, hide)
	}
	result.Duration = time.Since(began)
	end := record.End{Duration: result.Duration, Exit: -1}
	if err != nil {
		result.Status, result.Code = record.Refused, refusal(err)
		if ctx.Err() != nil {
			result.Status, result.Code = record.Cancelled, "CANCELLED"
		}
		err = p.redacted(hide, err)
	} else {
		result.Result = *did
		p.denied(&result.Result)
		if unpinned || p.interprets() {
			result.Data = p.data
			result.Enforced = append(slices.Clone(result.Enforced), "unpinned: "+PluginDataVariable)
		}
		changed(&result.Result)
		p.judge(ctx, result)
		end.Exit, end.Signal, end.Sandbox, end.Usage = did.Exit, did.Signal, level(&result.Result), usage(did.Usage)
		if text, err := jcs.Append(nil, result.Value); err == nil {
			end.Result = cas.Sum(text)
		} else {
			result.Status, result.Code, result.Failed, result.Failure = record.Failed, "EXECUTION_FAILED", true,
				"the result is not valid JSON: "+err.Error()
			result.Value, result.Problems = nil, nil
		}
	}
	end.Status, end.Code = result.Status, result.Code
	// The outcome is logged even if the caller is gone.
	ctx = context.WithoutCancel(ctx)
	return result, errors.Join(err, p.prove(ctx, result, end, call, entry, self), used(ctx, result.Code))
}

// use takes the approval of the call, which is for one call alone. used ends it.
func (p *Plan) use(ctx context.Context) (used func(ctx context.Context, code string) error, err error) {
	if a := p.call.Approval; a != nil && a.Take != nil {
		return a.Take(ctx, p.id)
	}
	return func(context.Context, string) error { return nil }, nil
}

// refusal returns the code of an error that kept the action from running.
func refusal(err error) string {
	if code := fault.CodeOf(err); code != fault.Unknown {
		return string(code)
	}
	return string(fault.Failed)
}

// act runs the action, and removes secrets from its output and its result.
func (p *Plan) act(ctx context.Context, a *primitive.Action, to primitive.Sink, values []string,
	hide *redact.Redactor) (*primitive.Result, error) {
	if len(values) == 0 {
		return p.do(ctx, a, to, hide)
	}
	var over *sink.Redacted
	if to != nil {
		over = sink.NewRedacted(hide, to)
		to = over
	}
	did, err := p.do(ctx, a, to, hide)
	if did == nil {
		return nil, err
	}
	r := *did
	r.Value, r.Failure = hide.Result(r.Value), hide.Text(r.Failure)
	if over != nil {
		if lost := over.Flush(); lost != nil && r.Ended == "" {
			r.Failed, r.Ended, r.Failure = true, "cancelled", "what it writes can't be passed on: "+lost.Error()
		}
	}
	return &r, err
}

// do runs the action, and then the tool's answer function if it has one.
func (p *Plan) do(ctx context.Context, action *primitive.Action, to primitive.Sink,
	hide *redact.Redactor) (*primitive.Result, error) {
	if p.tool.Answer == "" {
		return p.primitive.Run(ctx, action, to)
	}
	did, err := p.primitive.Run(ctx, action, aside{to})
	if did == nil || err != nil {
		return did, err
	}
	clean := *did
	clean.Value, clean.Failure = hide.Result(did.Value), hide.Text(did.Failure)
	return p.answer(ctx, action, &clean, to, hide), nil
}

// judge sets the status and the code of a call that ran.
func (p *Plan) judge(ctx context.Context, result *Result) {
	switch {
	case ctx.Err() != nil && result.Ended != "":
		result.Status, result.Code = record.Cancelled, "CANCELLED"
	case result.Ended == "timeout":
		result.Status, result.Code = record.Timeout, "TIMEOUT"
	case result.Ended == "cancelled":
		result.Status, result.Code = record.Cancelled, "CANCELLED"
	case result.Ended != "":
		result.Status, result.Code = record.Failed, "RESOURCE_EXCEEDED"
	case result.Failed:
		result.Status, result.Code = record.Failed, "EXECUTION_FAILED"
	default:
		result.Status = record.OK
		schema, err := p.chain.Output()
		if err == nil {
			err = schema.Check(result.Value)
		}
		if invalid, ok := errors.AsType[*params.InvalidError](err); ok {
			result.Problems = invalid.Problems
		}
		if err != nil {
			result.Status, result.Code, result.Failed, result.Failure = record.Failed, "VALIDATION_FAILED", true,
				err.Error()
		}
	}
}

// prove makes the receipt, and ends the entry of the log.
func (p *Plan) prove(ctx context.Context, result *Result, end record.End, c record.Call, entry interface {
	End(context.Context, record.End) error
	Position() record.Position
}, self *Caller) error {
	var err error
	result.Receipt, err = receipt.New(receipt.Receipt{
		Call: c, Outcome: end, Begin: result.Began, End: result.Began.Add(result.Duration), Children: self.did(),
		Log: entry.Position(),
	}, p.kernel.Machine, p.kernel.Voucher)
	if err == nil {
		result.Digest = cas.Sum(result.Receipt)
		end.Receipt = result.Digest
		if p.caller != nil {
			p.caller.did(receipt.Child{Call: p.id, Receipt: result.Digest})
			if p.caller.keep != nil {
				p.caller.keep(result.Receipt)
			}
		}
	}
	if logged := entry.End(ctx, end); logged != nil {
		err = errors.Join(err, NotLogged(p.call.Ref, true, logged))
	}
	return err
}

// record returns the log's record of the call before it runs.
func (p *Plan) record(hide *redact.Redactor) (record.Call, error) {
	tool := p.Chain[0]
	call := record.Call{
		ID: p.id, Digest: tool.Item.Raw, Tree: tool.Tree, Ref: p.call.Ref.String(), Signers: tool.Signers,
		Risk: p.Risk.String(), Derived: p.Derived,
		Set: p.Set, Lock: p.Set, Principal: p.call.Principal, Tenant: p.call.Tenant,
		Sandbox:   p.Action.Sandbox.Level.String(),
		Toolchain: p.Programs, Limits: map[string]int64{}, Packages: packages.Digest(p.Artifacts),
	}
	if p.call.Approval != nil {
		call.Approval = p.call.Approval.By
	}
	for _, l := range p.Chain[1:] {
		call.Chain = append(call.Chain, record.Link{Digest: l.Item.Raw, Ref: l.Item.Ref.String(), Signers: l.Signers,
			Tree: l.Tree})
	}
	if p.published != nil {
		call.Bundle, call.Registry = p.published(tool.Item.Space.Label, call.Ref)
		for i := range call.Chain {
			link := &call.Chain[i]
			link.Bundle, link.Registry = p.published(p.Chain[i+1].Item.Space.Label, link.Ref)
		}
	}
	for _, q := range p.policies.Each() {
		call.Policy = append(call.Policy, q.ID())
	}
	if p.caller != nil {
		call.Parent = p.caller.ID
	}
	limits := p.Action.Sandbox.Limits
	for name, n := range map[string]int64{
		"wall_ms": limits.Wall.Milliseconds(), "cpu_ms": limits.CPU.Milliseconds(), "memory": limits.Memory,
		"written":   limits.Written,
		"output":    limits.Output,
		"processes": int64(limits.Processes), "open_files": int64(limits.Files),
	} {
		if n > 0 {
			call.Limits[name] = n
		}
	}
	if limits.Wall > 0 {
		call.Deadline = p.kernel.Now().Add(limits.Wall)
	}
	var err error
	if call.Grants, err = p.chain.Hash(p.Grants); err != nil {
		return call, err
	}
	if call.Params, err = hide.Digest(p.Params); err != nil {
		return call, inputError(p.call.Ref, err)
	}
	return call, nil
}

// identity returns the digest of everything that decides a pure tool's result, including signers, policies and caller:
// the log's record of the call, without paths, and all of its parameters. It is zero for what has a secret in it or
// reads what the project has, and for a step of a build, which has a cache of its own.
func (p *Plan) identity(call record.Call, values []string) cas.Digest {
	if !p.tool.Pure || p.call.Build || len(values)+len(p.Grants.Read)+len(p.Grants.Write) > 0 {
		return cas.Digest{}
	}
	// The log's digest is without parameters that have the name of a secret.
	text, err := jcs.Append(nil, p.Params)
	if err != nil {
		return cas.Digest{}
	}
	call.Params = cas.Sum(text)
	call.ID, call.Parent, call.Approval, call.Deadline, call.Toolchain = "", "", "", time.Time{},
		slices.Clone(call.Toolchain)
	for i := range call.Toolchain {
		call.Toolchain[i].Path = ""
	}
	b := call.Append(nil)
	for _, v := range p.Env {
		if name, _, _ := strings.Cut(v, "="); slices.Contains(p.Keys, name) {
			b = append(append(b, 0), v...)
		}
	}
	return cas.Sum(b)
}

// maxDenied is how many hosts a result names.
const maxDenied = 4

// denied says in the result, the receipt and the log which hosts the sandbox refused the program, and which it has. A
// program seldom names the host itself when its proxy answers 403.
func (p *Plan) denied(result *primitive.Result) {
	if len(result.Denied) == 0 {
		return
	}
	some := func(hosts []string) string {
		text := fault.Clip(strings.Join(hosts[:min(len(hosts), maxDenied)], ", "), 300)
		if more := len(hosts) - maxDenied; more > 0 {
			text += fmt.Sprintf(" and %d more", more)
		}
		return text
	}
	text := fmt.Sprintf("refused %s (declared: %s)", some(result.Denied), some(p.Action.Sandbox.Network.Hosts))
	result.Enforced = append(slices.Clone(result.Enforced), text)
	if result.Failed {
		result.Failure = strings.TrimSpace(text + "\n" + result.Failure)
	}
}

// changed says in the result, the receipt and the log which files aren't where the program put them, and, if it
// failed, where it could create none.
func changed(result *primitive.Result) {
	if len(result.Asides) > 0 {
		result.Enforced = append(slices.Clone(result.Enforced), fault.Clip(strings.Join(result.Asides, "; "), 300))
		result.Failed, result.Failure = true,
			strings.TrimSpace(fault.Clip(strings.Join(result.Asides, "\n"), 2000)+"\n"+result.Failure)
	}
	if result.Closed == "" {
		return
	}
	result.Enforced = append(slices.Clone(result.Enforced), fault.Clip(result.Closed, 300))
	if result.Failed && refused().MatchString(result.Failure) {
		result.Failure = strings.TrimSpace(result.Closed + "\n" + result.Failure)
	}
}

// refused matches what programs print when they can't create a file.
var refused = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)permission denied|read-only file system|not permitted|\b(EACCES|EPERM|EROFS)\b`)
})

// level is what was enforced, as the log has it.
func level(r *primitive.Result) string {
	return cmp.Or(strings.Join(r.Enforced, " "), r.Level.String())
}

// usage returns the usage for the log, which limits each number to 2^53-1.
func usage(u map[string]int64) map[string]int64 {
	out := map[string]int64{}
	for name, n := range u {
		if n > 0 {
			out[name] = min(n, 1<<53-1)
		}
	}
	return out
}
