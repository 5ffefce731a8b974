// Package plan is what a thread follows: its directive, its loop or its graph, and the configuration of both.
//
// A plan decides what the thread may do, and doesn't change while the thread runs.
//
//	p, err := plan.Read(ctx, agents, ref, session.Item)
//	inputs, err := p.Complete(given)
//	err = p.Permit(ctx)         // of a thread without a parent
//	err = p.Narrow(parent.Caps) // of a child
//	err = p.Offer(ctx)
//
// # How a plan is made
//
// Read finds the directive or the graph (follow), its loop (Agents.Program) and its configuration (readConfig,
// readHooks). Complete checks the inputs, Permit and Narrow take permissions away, Offer finds the tools that the
// directive names, Model the model, and Started writes all of it into the first event. Same refuses to go on with
// another plan.
//
// A permission counts if the directive declares it, every directive above it declares it too, the policies grant it to
// the highest one, and config doesn't narrow it away.
//
// Artifacts are the large results of a thread: a model gets the beginning and reads the rest page by page.
//
// # Names of tools
//
// A model's tool has a name of letters, digits, "_" and "-", at most 64. The name of a tool of rye is its id with
// every other character turned into "_", and "_" before a leading digit:
//
//	acme/deploy     acme_deploy
//	acme/web.fetch  acme_web_fetch
//	3d/render       _3d_render
//
// If that is longer than 64, or two tools that are offered together share it, or the door has a tool of its own with
// that name, the name is the first 51 characters, "_" and the first 12 digits of the id's digest: each of the tools
// that share a name gets one. So the name of a tool depends on the tools beside it, and no code reads an id from a
// name: the code that offers tools keeps the table.
//
// # Handing over
//
// A Handoff decides when and how a thread is handed over to a new one: config:coordination, coordination.continuation.
//
//	trigger_threshold         the share of the context window from which a thread hands over; 0.9
//	pressure_threshold        package hook reads it
//	summary_directive         summarises what was done; none if missing
//	summary_model             its model
//	summary_limit_overrides   its limits
//	summary_max_tokens        how long the summary may be; 4000
//	resume_ceiling_tokens     how much of the old messages the new thread begins with; 16000
//
// # The tools of the model
//
//	rye_execute       runs a tool, gives the text of a directive with its inputs filled in, or that of knowledge
//	rye_load          gives the file of an item
//	rye_search        finds items
//	directive_return  ends the thread with the directive's outputs, if it declares any
//
// A result is JSON. An error is {"error": {"code": …, "message": …}}, as at every door of rye; the model goes on with
// it. A result of more than 16 KiB is an artifact: the model is given its beginning and reads the rest by rye_execute
// of rye/agent/threads/artifact_read {ref, offset, limit}.
//
// Calls of one turn run side by side if each is of a tool of risk read, at most five at once; all others in order.
// Results keep the model's order.
//
// # Agents
//
// Agents run the items that decide how a thread talks with its model. Each is a Starlark item below rye/agent, which a
// project may replace alone:
//
//	loop           what the thread does next (package loop)
//	context        the messages that begin a thread
//	guard          what the model is given of a large result
//	continuation   the messages that begin a thread that goes on with the work of another, or with its own
//
// They are data: this package checks what they return, and nothing that they return has an effect but on what the
// model reads. Each is a function main(ctx); ctx.config is what it is asked about, and ctx can nothing else.
//
// # context
//
//	ctx.config   {"directive": {"name", "description", "text"}, "outputs": [{"name", "description"}], "texts": […]}
//	returns      a list of messages: {"role": "user" or "assistant", "text"}
//
// text has the inputs filled in; texts are what hooks of thread_started gave.
//
// # guard
//
//	ctx.config   {"tool", "artifact", "size", "beginning", "short", "end", "share"}
//	returns      what the model is given, as JSON's value, of at most 16 KiB
//
// The result is an artifact by then. beginning has 8 KiB of its text, short and end have 1 KiB; share is how much of
// the context window is used.
//
// # continuation
//
//	ctx.config   {"reason": "handoff" or "resume", "summary", "messages": […], "message", "ceiling"}
//	returns      a list of messages
//
// summary is that of the old thread, or None; messages are its messages; message is what the user adds, or None;
// ceiling is how many bytes of messages there should be.
//
// # The first message
//
// The directive's text with its inputs filled in: {input:NAME} is the input, {input:NAME?} is nothing if the input is
// missing, and {input:NAME:TEXT} is TEXT. A directive whose steps stand in its XML is sent with them. Inputs are
// checked and completed by the directive's declarations, as a tool's parameters are.
package plan

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/capability"
	"github.com/rye-build/rye/ai/graph"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/ai/permission"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/agenttools"
	"github.com/rye-build/rye/exec/classification"
	"github.com/rye-build/rye/exec/session"
	"github.com/rye-build/rye/exec/template/params"
	"github.com/rye-build/rye/exec/thread/hook"
	"github.com/rye-build/rye/exec/thread/limits"
	"github.com/rye-build/rye/exec/thread/loop"
	"github.com/rye-build/rye/exec/thread/provider"
	"github.com/rye-build/rye/exec/thread/transcript"
)

// A Plan is what one thread follows.
type Plan struct {
	Agents    *Agents
	Directive *ai.Item         // or the graph
	Says      *model.Directive // its declarations
	Graph     *graph.Graph     // nil: a loop decides
	Owned     bool             // the directive is the user's own
	Loop      *session.Program
	Program   *loop.Loop
	Settings  limits.Settings
	Rules     *classification.Rules
	Hooks     *hook.Set
	Window    *hook.Window
	Handoff   *Handoff
	Meaning   *permission.Definitions // of permissions
	Caps      capability.Set
	declared  capability.Set
	Named     Named // after Offer
	Signs     bool  // the model is offered the tool that signs
}

// Session returns the session in which the thread's items are found and run.
func (p *Plan) Session() *session.Session { return p.Agents.Session }

// Find finds an item.
type Find func(context.Context, model.Ref) (*ai.Item, error)

// Read reads the items of a thread. find finds the directive.
func Read(ctx context.Context, agents *Agents, ref model.Ref, find Find) (plan *Plan, err error) {
	plan = &Plan{Agents: agents}
	if plan.Directive, err = find(ctx, ref); err != nil {
		return nil, err
	}
	if err := plan.follow(ctx); err != nil {
		return nil, err
	}
	if plan.Owned, err = agents.Session.Owns(ctx, plan.Directive); err != nil {
		return nil, err
	}
	if err := plan.readConfig(ctx); err != nil {
		return nil, err
	}
	plan.declared, err = capability.NewSet(plan.Meaning.Expand(plan.Says.Permissions))
	plan.Caps = plan.declared
	return plan, err
}

// follow finds out what decides the steps: the loop of a directive, or a graph.
func (p *Plan) follow(ctx context.Context) (err error) {
	ref, m := p.Directive.Ref, p.Directive.Model
	if graph.Is(m.Tool) {
		return p.readGraph()
	}
	if p.Says = m.Directive; p.Says == nil {
		return fault.New(fault.Validation, "%q is not a directive", ref).Try(fault.Command("rye exec", ref.String()))
	}
	if agenttools.Prompt(m) == "" {
		return fault.New(fault.Validation, "%q has no steps: its text is empty", ref).On("ref",
			ref.String()).Try("rye docs directive-format")
	}
	p.Loop, p.Program, err = p.Agents.Program(ctx, LoopID)
	return err
}

// readConfig reads the configuration of limits and failures, hooks, the context window and the meaning of permissions.
func (p *Plan) readConfig(ctx context.Context) error {
	opened := p.Session()
	resilience, err := opened.Config(ctx, "resilience")
	if err != nil {
		return err
	}
	if p.Settings, err = limits.ReadSettings(resilience.Value); err != nil {
		return err
	}
	if p.Rules, err = opened.Rules(ctx); err != nil {
		return err
	}
	permissions, err := opened.Config(ctx, permission.Config)
	if err != nil {
		return err
	}
	if p.Meaning, err = permission.Read(permissions.Value); err != nil {
		return err
	}
	coordination, err := opened.Config(ctx, hook.Coordination)
	if err != nil {
		return err
	}
	if p.Handoff, err = ReadHandoff(coordination.Value); err != nil {
		return err
	}
	if p.Window, err = hook.ReadWindow(coordination.Value); err != nil {
		return err
	}
	return p.readHooks(ctx)
}

// readHooks reads the hooks of the directive and of config.
func (p *Plan) readHooks(ctx context.Context) error {
	config, err := p.Session().Config(ctx, hook.Config)
	if err != nil {
		return err
	}
	events, err := p.Session().Config(ctx, hook.Events)
	if err != nil {
		return err
	}
	p.Hooks, err = hook.Read(hook.Sources{Config: config.Value, Events: events.Value, Own: p.Says.Hooks,
		Ref: p.Directive.Ref})
	return err
}

// Complete checks inputs and adds the defaults of missing ones. given is nil for none.
func (p *Plan) Complete(given func(*params.Schema) (map[string]any, error)) (map[string]any, error) {
	ref := p.Directive.Ref.String()
	schema, err := agenttools.Inputs(p.Directive)
	if err != nil {
		return nil, err
	}
	inputs := map[string]any{}
	if given != nil {
		if inputs, err = given(schema); err != nil {
			return nil, fault.Wrap(err, "%v", err).Try(fault.Command("rye run", ref) + " --help")
		}
	}
	if inputs, err = schema.Complete(inputs); err != nil {
		e := fault.Of(err)
		if len(e.Why) == 0 {
			e.Because(e.Text)
		}
		e.Text = fmt.Sprintf("invalid inputs for %q", ref)
		return nil, e.Try(fault.Command("rye run", ref) + " --help")
	}
	return inputs, nil
}

// Limits are those of config, and of the directive where it has others.
func (p *Plan) Limits() limits.Set {
	l := limits.None()
	l.Declare(p.Settings.Limits)
	if p.Graph != nil {
		l.Turns = p.Graph.Steps
	}
	l.Declare(p.Says.Limits)
	return l
}

// Model finds the model.
func (p *Plan) Model(ctx context.Context, w provider.Wanted) (provider.Model, error) {
	if w.Directive = p.Says.Model; p.Graph != nil {
		return provider.NoModel(&w)
	}
	return provider.ChooseModel(ctx, p.Session(), &w)
}

// Permit takes away what the policies don't grant to the directive. One of another signer that is left with nothing is
// refused.
func (p *Plan) Permit(ctx context.Context) (err error) {
	p.Caps, err = p.Session().Permitted(ctx, p.Directive.Ref, p.Owned, p.Caps)
	wants := p.declared.Strings()
	if err != nil || p.Owned || len(wants) == 0 || len(p.Caps.List()) > 0 {
		return err
	}
	ref := p.Directive.Ref.String()
	return fault.New(fault.Denied, "%q is signed by another key, and your policy grants it nothing", ref).On("ref",
		ref).On("permissions", wants).
		Because("it declares "+strings.Join(wants, ", "),
			fmt.Sprintf(`your policy can grant it that: grants: {"%s": ["%s"]}`, ref, strings.Join(wants, `", "`))).
		Try("rye docs threads")
}

// Narrow takes away what others don't allow as well.
func (p *Plan) Narrow(others capability.Set) (err error) {
	p.Caps, err = p.Caps.Intersect(others)
	return err
}

// Offer finds the tools that the directive names.
func (p *Plan) Offer(ctx context.Context) (err error) {
	p.Named, err = FindNamed(ctx, p.Session().Item, p.Says.Tools, p.covers)
	return err
}

// Offered are the tools that the model sees. Without a permission, those for items could do nothing.
func (p *Plan) Offered() []provider.Tool {
	return slices.DeleteFunc(p.Tools(), func(tool provider.Tool) bool {
		return len(p.Caps.List()) == 0 && slices.Contains([]string{NameExecute, NameLoad, NameSearch}, tool.Name)
	})
}

// Tools are those that the model may call.
func (p *Plan) Tools() []provider.Tool {
	return OwnTools(p.Says.Outputs, p.Named.Tools, p.Signs, p.Session().Browses())
}

// covers reports whether a permission covers a call, and config doesn't narrow it away.
func (p *Plan) covers(need capability.Capability) bool {
	return p.Caps.Covers(need) && p.Meaning.Refuses(need) == ""
}

// Allows refuses what the thread has no permission for.
func (p *Plan) Allows(verb, kind, id string) error {
	need, err := capability.For(verb, kind, id)
	if err != nil {
		return err
	}
	if p.covers(need) {
		return nil
	}
	e := fault.New(fault.Denied, "the %s has no permission for %s", p.Kind(), need).On("permission",
		need.String()).Try("rye docs directive-format")
	if p.declared.Covers(need) && p.Meaning.Refuses(need) == "" {
		e.Text = fmt.Sprintf("the %s declares %s, which no policy or directive above it grants", p.Kind(), need)
		e.Try("rye docs threads")
	}
	return e
}

// Started is the plan in the first event of a thread.
func (p *Plan) Started(ctx context.Context, answering provider.Model) (*transcript.Started, error) {
	policies, err := p.Session().Policies(ctx)
	if err != nil {
		return nil, err
	}
	set := p.Session().Set()
	started := &transcript.Started{Format: transcript.Format, Kind: p.Kind(), Directive: itemOf(p.Directive),
		Model: answering.String(), Set: set, Lock: set, Policy: policies,
		Grants: p.Caps.Strings(), Signs: p.Signs}
	if p.Graph != nil {
		return started, nil
	}
	started.Loop = itemOf(p.Loop.Item)
	if from := answering.Provider(); from != nil {
		started.Provider = transcript.Item{Ref: from.Ref.String(), Digest: answering.Digest()}
	}
	for _, id := range []string{ContextID, GuardID, ContinuationID} {
		it, err := p.Session().Chosen(ctx, model.Ref{Kind: "tool", ID: id})
		if err != nil {
			return nil, err
		}
		started.Agents = append(started.Agents, itemOf(it))
	}
	return started, nil
}

func itemOf(it *ai.Item) transcript.Item {
	return transcript.Item{Ref: it.Ref.String(), Digest: it.Raw}
}
