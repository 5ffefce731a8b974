// Package toolcall decides what the calls of a thread's model do, and does it.
//
//	c := maker.Prepare(ctx, call)   finds the item, and whether the thread may use it
//	text, err := c.Make(ctx)        what the model is given, and c.Result what the record has
//
// A call that fails has the error as its result, as JSON's {"error": {"code": …, "message": …}}: the model goes on
// with it. An error of Make ends the thread. A call that waits for its approval has Call.Waits instead of a result.
//
// # How a call goes through here
//
// Maker.PrepareAll prepares the calls of a turn. Prepare reads the arguments by the tool's schema; prepare and tool
// find the item (permitted checks the directive's permissions) and choose what the call does: execute runs a tool in
// the session, starts and walks begin a thread by Options.Child or detach, search, give and sign do what their names
// say. The thread records Call.Started, then Call.Make does it and puts its end into Call.Result: an error becomes a
// result with a code, an approval that waits Call.Waits.
//
// # Children
//
// A model starts a thread by a call of tool:rye/agent/threads/thread_directive, with these parameters:
//
//	directive_name    the directive's id
//	inputs            its inputs
//	model             a tier or a model, instead of the directive's
//	limit_overrides   turns, tokens, spend (dollars), spawns, duration_seconds, depth
//	async_exec        the thread runs in a process of its own, and the caller doesn't wait
//
// # Approvals
//
// An Approver gets the approvals that calls need: from what was allowed beforehand, from a person at the terminal, or
// by a request that is answered through any door. One Approver serves a thread and its children, and asks one question
// at a time.
//
// # Detached threads
//
// A thread may run in a process of its own that goes on when its starter has ended: rye run --async, and children that
// a model starts with async_exec.
//
//	started, err := toolcall.StartDetached(ctx, command, dir, job)   in the process that starts it
//	job, err := toolcall.ReceiveJob(stdin)                           in the one that runs the thread
//	toolcall.Tell(stdout, &toolcall.Word{Thread: id})                once the thread is registered
//
// The process reads its job from standard input, answers with one word on standard output, and writes what people
// would have seen to the file "log" of the thread's directory. It is the same program on all systems, started with its
// own file and arguments.
package toolcall

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/capability"
	"github.com/rye-build/rye/ai/graph"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/ai/permission"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec"
	"github.com/rye-build/rye/exec/agenttools"
	"github.com/rye-build/rye/exec/approval"
	"github.com/rye-build/rye/exec/audit/record"
	"github.com/rye-build/rye/exec/session"
	"github.com/rye-build/rye/exec/template/params"
	"github.com/rye-build/rye/exec/thread/control"
	"github.com/rye-build/rye/exec/thread/plan"
	"github.com/rye-build/rye/exec/thread/provider"
	"github.com/rye-build/rye/exec/thread/transcript"
	"github.com/rye-build/rye/manifest/jcs"
)

type object = map[string]any

// A Call is a call of the model on its way.
type Call struct {
	provider.ToolCall
	Record string // its name in the record: c1, c2, …
	Ref    model.Ref
	Digest cas.Digest // of the item
	Risk   string     // as declared; destructive if the tool declares none: nothing repeats such a call by itself
	Inside bool       // nothing but this thread is changed by it
	Spawn  *ChildArgs // that it starts; nil for none
	Child  string     // the id of that thread
	Begun  bool       // the record has its start
	Chosen bool       // rye itself chooses its directive
	Group  *Group     // that it belongs to; nil for none
	Part   int64      // of what is left of the budget that thread may have one such part, unless it names an amount

	Result transcript.CallResult
	Waits  error // that it waits for its approval, and was not made
	do     func(context.Context) (*Answer, error)
}

// An Answer is what a call gives the model, and what the record has of it.
type Answer struct {
	Value  any
	Failed bool
	Cost   int64 // nano-dollars, of a child
	exec   *exec.Result
}

// Options name the thread whose calls are made, and what it may do.
type Options struct {
	Plan       *plan.Plan
	Thread     string // its id
	Own        bool   // the directives that lead to its calls are the user's own
	Principal  string
	Approver   *Approver
	Child      func(context.Context, *Call) (*Answer, error) // runs the thread that a call starts
	Background Background                                    // starts it in a process of its own
	NewID      func(directive string) string                 // of a thread
	Parent     *Maker                                        // of the thread above, if this process drives it
}

// A Maker makes the calls of one thread. It is safe for concurrent use.
type Maker struct {
	o         Options
	plan      *plan.Plan
	session   *session.Session // of the plan
	Artifacts plan.Artifacts
	flow      *Flow // what was called by the thread, and by the threads around it

	mu       sync.Mutex
	returned map[string]any
}

// New returns the Maker of a thread.
func New(o Options) *Maker {
	m := &Maker{o: o, plan: o.Plan, session: o.Plan.Session(), flow: new(Flow)}
	if o.Parent != nil {
		m.flow = o.Parent.flow
	}
	return m
}

// Returned are the outputs that the model has returned, nil before.
func (m *Maker) Returned() map[string]any {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.returned
}

// Return makes values the outputs.
func (m *Maker) Return(values map[string]any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.returned = values
}

// Make makes a call, and returns its result as JSON.
func (c *Call) Make(ctx context.Context) (text string, err error) {
	if c.Group != nil {
		return c.Group.make(ctx, c)
	}
	return c.begin(ctx)
}

func (c *Call) begin(ctx context.Context) (text string, err error) {
	began := time.Now()
	out, err := c.do(ctx)
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	if errors.Is(err, approval.ErrWaits) {
		c.Waits = err
		return "", nil
	}
	c.Result.Call, c.Result.Status, c.Result.Duration = c.Record, transcript.CallOK, time.Since(began)
	if err != nil {
		e := fault.Of(err)
		out = &Answer{Failed: true, Value: control.FaultOf(e)}
		c.Result.Error, c.Result.Status = control.RecordedFault(e), transcript.CallFailed
		if e.Line().Exit == fault.ExitRefused {
			c.Result.Status = transcript.CallRefused
		}
	} else if out.Failed {
		c.Result.Status = transcript.CallFailed
	}
	c.Result.Cost = out.Cost
	if r := out.exec; r != nil {
		c.Result.Exec, c.Result.Receipt = r.ID, r.Digest
		if r.Status == record.Timeout {
			c.Result.Status = transcript.CallTimeout
		}
	}
	b, err := jcs.Append(nil, out.Value)
	return string(b), err
}

// Doc is what hooks know of a call.
func (c *Call) Doc() map[string]any {
	item := ""
	if c.Ref.ID != "" {
		item = c.Ref.String()
	}
	return object{"tool": c.Name, "item": item, "risk": c.Risk}
}

// Refuse makes an error the result of the call.
func (c *Call) Refuse(err error) *Call {
	c.do = func(context.Context) (*Answer, error) { return nil, err }
	return c
}

// Most is how many calls of one turn are made.
const Most = 256

// PrepareAll prepares the calls of one turn. Those that are too many are refused, each with that as its result.
func (m *Maker) PrepareAll(ctx context.Context, wanted []provider.ToolCall) []*Call {
	all := make([]*Call, len(wanted))
	for i, w := range wanted {
		if i < Most {
			all[i] = m.Prepare(ctx, w)
			continue
		}
		c := &Call{ToolCall: w, Risk: "read"}
		all[i] = c.Refuse(fault.New(fault.Limit, "only %d calls of a turn are made", Most))
	}
	share(all)
	return all
}

// share divides the rest of the budget: each child that a call starts may have one part, and one part stays.
func share(calls []*Call) {
	n := int64(1)
	for _, c := range calls {
		if c.Spawn != nil {
			n++
		}
	}
	for _, c := range calls {
		if c.Spawn != nil {
			c.Part = n
		}
	}
}

// Started is what the record has of a call before it is made.
func (c *Call) Started(turn int64) transcript.CallStarted {
	e := transcript.CallStarted{Call: c.Record, ID: c.ID, Turn: turn, Name: c.Name, Digest: c.Digest, Risk: c.Risk,
		Input: c.Input, Child: c.Child}
	if c.Ref != (model.Ref{}) {
		e.Ref = c.Ref.String()
	}
	if c.Input == nil {
		e.Input = c.Raw
	}
	return e
}

// Prepare finds out what a call would do.
func (m *Maker) Prepare(ctx context.Context, wanted provider.ToolCall) *Call {
	call := &Call{ToolCall: wanted, Risk: "read"}
	if wanted.Raw != "" {
		return call.Refuse(fault.New(fault.Parsing, "the arguments of %s %s", wanted.Name, wanted.Wrong()))
	}
	if wanted.Input == nil {
		wanted.Input = object{}
	}
	if it := m.plan.Named.Items[wanted.Name]; it != nil {
		return m.tool(ctx, call, it.Ref, wanted.Input, false)
	}
	for _, tool := range m.plan.Tools() {
		if tool.Name != wanted.Name {
			continue
		}
		schema, err := params.Compile(tool.Schema)
		if err == nil {
			call.Input, err = schema.Complete(wanted.Input)
		}
		if err != nil {
			call.Input = wanted.Input
			return call.Refuse(err)
		}
		return m.prepare(ctx, call)
	}
	if wanted.Name == plan.NameSign && m.plan.Graph != nil { // a model isn't offered it
		return call.Refuse(fault.New(fault.Denied, "nothing is signed without --allow-sign"))
	}
	return call.Refuse(fault.New(fault.ToolNotFound, "there is no tool %q", wanted.Name).Near(wanted.Name,
		plan.OfferedNames(m.plan.Tools())))
}

// prepare decides about a call of one of rye's own tools whose arguments are sound.
func (m *Maker) prepare(ctx context.Context, call *Call) *Call {
	if call.Name == plan.NameReturn {
		return m.give(call, call.Input)
	}
	arguments := agenttools.ReadArguments(call.Input)
	if call.Name == plan.NameSearch {
		call.do = func(ctx context.Context) (*Answer, error) {
			return m.search(ctx, arguments.Query, arguments.Scope, arguments.Limit)
		}
		return call
	}
	ref, err := arguments.Ref()
	if err != nil {
		return call.Refuse(err)
	}
	if tools := m.plan.Meaning.Tools(ref.ID); ref.Kind == "tool" && len(tools) == 1 {
		ref.ID = tools[0]
	}
	if call.Name == plan.NameSign {
		return m.sign(call, ref)
	}
	if call.Name == plan.NameExecute && ref.Kind == "tool" {
		return m.tool(ctx, call, ref, arguments.Parameters, arguments.Dry)
	}
	if call.Name == plan.NameLoad {
		return m.load(ctx, call, ref)
	}
	it, err := m.permitted(ctx, call, capability.Execute, ref)
	if err != nil {
		return call.Refuse(err)
	}
	call.do = func(context.Context) (*Answer, error) {
		text, err := agenttools.Text(it, arguments.Parameters)
		return &Answer{Value: text}, err
	}
	return call
}

// tool decides about a call of a tool, whatever name the model calls it by.
func (m *Maker) tool(ctx context.Context, call *Call, ref model.Ref, values object, dry bool) *Call {
	switch ref.ID {
	case permission.Starts:
		if err := m.plan.Allows(capability.Execute, "tool", permission.Starts); err != nil {
			return call.Refuse(err)
		}
		if err := m.starts(call, values); err != nil {
			return call.Refuse(err)
		}
		return call
	case permission.Return:
		return m.give(call, values)
	case permission.Reads:
		call.do = func(context.Context) (*Answer, error) {
			page, err := m.Artifacts.Read(values)
			return &Answer{Value: page}, err
		}
		return call
	}
	it, err := m.permitted(ctx, call, capability.Execute, ref)
	if err != nil {
		return call.Refuse(err)
	}
	call.Risk = it.Model.Tool.Risk.String()
	if graph.Is(it.Model.Tool) && !dry {
		m.walks(call, it, values)
		return call
	}
	call.do = func(ctx context.Context) (*Answer, error) { return m.execute(ctx, call.Record, it, values, dry) }
	return call
}

// sign prepares a signature. The item needn't be pinned, and the user is asked about each signature.
func (m *Maker) sign(c *Call, ref model.Ref) *Call {
	c.Ref, c.Risk = ref, "write"
	if err := m.plan.Allows(capability.Sign, ref.Kind, ref.ID); err != nil {
		return c.Refuse(err)
	}
	c.do = func(ctx context.Context) (*Answer, error) {
		signed, err := m.o.Approver.Sign(ctx, m.o.Thread, ref)
		return &Answer{Value: signed}, err
	}
	return c
}

// Starts makes a call of rye itself that starts a thread and waits for it.
func (m *Maker) Starts(given map[string]any) (*Call, error) {
	c := &Call{ToolCall: provider.ToolCall{Name: plan.NameExecute,
		Input: object{"item_type": "tool", "item_id": permission.Starts}}, Risk: "read"}
	return c, m.starts(c, given)
}

// starts makes a call one that starts a thread and waits for it.
func (m *Maker) starts(c *Call, given object) (err error) {
	if c.Spawn, err = ParseChild(given); err != nil {
		return err
	}
	c.Child = m.o.NewID(c.Spawn.Directive.ID)
	if c.do = func(ctx context.Context) (*Answer, error) { return m.o.Child(ctx, c) }; c.Spawn.Async {
		c.do = func(ctx context.Context) (*Answer, error) { return m.detach(ctx, c) }
	}
	return nil
}

// permitted returns an item that the directive's permissions and the policies let a call use.
func (m *Maker) permitted(ctx context.Context, c *Call, verb string, ref model.Ref) (*ai.Item, error) {
	c.Ref = ref
	if err := m.plan.Allows(verb, ref.Kind, ref.ID); err != nil {
		return nil, err
	}
	it, err := m.session.Item(ctx, ref)
	if err == nil {
		c.Digest = it.Raw
	}
	return it, err
}
