package toolcall

import (
	"context"
	"slices"
	"sync"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/approval"
	"github.com/rye-build/rye/exec/consent"
	"github.com/rye-build/rye/manifest/policy/glob"
)

// A Reply answers a question about a call.
type Reply int

// The replies.
const (
	No         Reply = iota
	Once             // this call
	ThisThread       // this call, and further ones of the same thread and tool
)

// Ask asks a person.
type Ask func(context.Context, *consent.Question) (Reply, error)

// Sign asks a person whether an item may be signed for a thread, signs it, and returns what the model gets.
type Sign func(ctx context.Context, thread string, ref model.Ref) (map[string]any, error)

// An Approver is safe for concurrent use. A nil one approves nothing.
type Approver struct {
	allowed    []glob.Glob
	ask        Ask
	sign       Sign
	controller *approval.Controller // nil: no requests are made

	mu       sync.Mutex // held while a question is asked
	approved map[answerKey]cas.Digest
}

type answerKey struct {
	thread string
	ref    model.Ref
}

// NewApprover returns an Approver. Calls of tools that a glob in allow covers are approved. ask is nil if there is no
// one to ask, and sign if nothing may be signed.
func NewApprover(allow []string, ask Ask, sign Sign) (*Approver, error) {
	allowed, err := Globs("--allow", allow)
	return &Approver{ask: ask, sign: sign, allowed: allowed, approved: map[answerKey]cas.Digest{}}, err
}

// Use has calls that were not allowed beforehand make requests at a controller.
func (a *Approver) Use(d *approval.Controller) { a.controller = d }

// Globs reads globs over the names of tools, which a flag has.
func Globs(flag string, texts []string) (all []glob.Glob, err error) {
	for _, text := range texts {
		g, err := glob.Parse(text)
		if err != nil {
			return nil, fault.New(fault.Validation, "%s: %v", flag, err).On("ref", text)
		}
		all = append(all, g)
	}
	return all, nil
}

// CanSign reports whether items may be signed, once the user was asked.
func (a *Approver) CanSign() bool { return a != nil && a.sign != nil }

// Sign has an item signed.
func (a *Approver) Sign(ctx context.Context, thread string, ref model.Ref) (map[string]any, error) {
	if !a.CanSign() {
		return nil, fault.New(fault.Approval, "%q needs an approval to be signed: this run has no --allow-sign",
			ref).On("ref", ref.String())
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.sign(ctx, thread, ref)
}

// approve gets the approval of a call of a thread.
func (a *Approver) approve(ctx context.Context, thread, call string, question *consent.Question) (*consent.Approval,
	error) {
	if a == nil {
		return nil, consent.Required(question)
	}
	name, err := glob.ParseName(question.Ref.String())
	if err != nil {
		return nil, err
	}
	switch {
	case !question.Separate && glob.MatchAny(a.allowed, name):
		return &consent.Approval{By: "--allow"}, nil
	case !question.Separate && a.remembers(thread, question):
		return &consent.Approval{By: "terminal"}, nil
	case a.controller != nil:
		return a.at(thread).Approve(ctx, question, call)
	case a.ask == nil || question.Separate:
		return nil, consent.Required(question)
	}
	yes, err := a.asks(ctx, thread, question)
	if err != nil {
		return nil, err
	}
	if yes {
		return &consent.Approval{By: "terminal"}, nil
	}
	return nil, fault.New(fault.Approval, "the user didn't approve %q", question.Ref).On("ref", question.Ref.String())
}

// at is the controller for the calls of a thread. The thread doesn't wait there: it stops, and goes on with the
// answer.
func (a *Approver) at(thread string) *approval.Controller {
	controller := *a.controller
	controller.Door, controller.Thread, controller.NoWait = approval.Thread, thread, true
	controller.Command = fault.Command("rye thread resume", thread)
	if a.ask != nil {
		controller.Ask = func(ctx context.Context, _ *approval.Request, q *consent.Question) (approval.Answer, error) {
			yes, err := a.asks(ctx, thread, q)
			return approval.Answer{Yes: yes, By: q.Principal, Through: "terminal"}, err
		}
	}
	return &controller
}

// remembers reports whether a person has approved the further calls of a tool.
func (a *Approver) remembers(thread string, q *consent.Question) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.approved[answerKey{thread, q.Ref}] == q.Digest
}

// asks asks a person at the terminal, one question at a time.
func (a *Approver) asks(ctx context.Context, thread string, question *consent.Question) (yes bool, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	at := answerKey{thread, question.Ref}
	if a.approved[at] == question.Digest {
		return true, nil
	}
	if ctx.Err() != nil { // it was answered while another question was asked
		return false, context.Cause(ctx)
	}
	reply, err := a.ask(ctx, question)
	if err == nil && reply == ThisThread {
		a.approved[at] = question.Digest
	}
	return reply != No, err
}

// Unmade reports whether a call of a thread that has begun was not made: it waits for its approval, or has got none.
func (a *Approver) Unmade(ctx context.Context, thread, call string, ref model.Ref) (bool, error) {
	if a == nil || a.controller == nil {
		return false, nil
	}
	all, err := approval.List(ctx, a.controller.Approvals, approval.Filter{Thread: thread})
	return slices.ContainsFunc(all, func(r *approval.Request) bool {
		return r.Call == call && r.Ref == ref.String() &&
			!slices.Contains([]approval.State{approval.Executing, approval.Done, approval.Unknown}, r.State)
	}), err
}

// Await waits until the request is answered for which a thread has stopped, by the error of its result.
func (a *Approver) Await(ctx context.Context, e *fault.Error) error {
	id, _ := e.Details["request"].(string)
	if a == nil || a.controller == nil || id == "" {
		return e
	}
	_, err := approval.Await(ctx, a.controller.Approvals, id)
	return err
}

// A Flow is what a thread, those above it, and their children have called. It is safe for concurrent use.
type Flow struct {
	mu    sync.Mutex
	tools []string
	tags  []string
}

// Door is how the policies see the next call of a thread, which follows a directive. The thread's record calls it
// call.
func (f *Flow) Door(a *Approver, thread, call, directive string) *consent.Door {
	f.mu.Lock()
	defer f.mu.Unlock()
	return &consent.Door{
		Thread: thread,
		Flow:   consent.Flow{Directive: directive, Tools: slices.Clone(f.tools), Tags: slices.Clone(f.tags)},
		Approve: func(ctx context.Context, q *consent.Question) (*consent.Approval, error) {
			return a.approve(ctx, thread, call, q)
		},
	}
}

// Has reports whether a tool is noted.
func (f *Flow) Has(tool model.Ref) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Contains(f.tools, tool.String())
}

// Add notes that the thread calls a tool.
func (f *Flow) Add(tool model.Ref, tags []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tools = add(f.tools, tool.String())
	for _, tag := range tags {
		f.tags = add(f.tags, tag)
	}
}

func add(list []string, s string) []string {
	if slices.Contains(list, s) {
		return list
	}
	return append(list, s)
}
