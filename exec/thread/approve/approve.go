// Package approve gets the approvals that the calls of threads need: from what was allowed beforehand, or from a person.
//
// One Approver serves a thread and its children. It asks one question at a time.
package approve

import (
	"context"
	"slices"
	"sync"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
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

// An Approver is safe for many goroutines. A nil one approves nothing.
type Approver struct {
	allowed []glob.Glob
	ask     Ask
	sign    Sign

	mu       sync.Mutex // held while a question is asked
	approved map[key]cas.Digest
}

type key struct {
	thread string
	ref    model.Ref
}

// New returns an Approver. Calls of tools that a glob in allow covers are approved. ask is nil if there is no one to ask, and
// sign if nothing may be signed.
func New(allow []string, ask Ask, sign Sign) (*Approver, error) {
	allowed, err := Globs("--allow", allow)
	return &Approver{ask: ask, sign: sign, allowed: allowed, approved: map[key]cas.Digest{}}, err
}

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
		return nil, fault.New(fault.Approval, "%q needs an approval to be signed: this run has no --allow-sign", ref).On("ref", ref.String())
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.sign(ctx, thread, ref)
}

// approve gets the approval of a call of a thread.
func (a *Approver) approve(ctx context.Context, thread string, q *consent.Question) (*consent.Approval, error) {
	if a == nil {
		return nil, consent.Required(q)
	}
	name, err := glob.ParseName(q.Ref.String())
	if err != nil {
		return nil, err
	}
	if glob.MatchAny(a.allowed, name) {
		return &consent.Approval{By: "--allow"}, nil
	}
	if a.ask == nil || q.Separate {
		return nil, consent.Required(q)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	at := key{thread, q.Ref}
	if a.approved[at] == q.Digest {
		return &consent.Approval{By: "terminal"}, nil
	}
	reply, err := a.ask(ctx, q)
	if err != nil {
		return nil, err
	}
	if reply == ThisThread {
		a.approved[at] = q.Digest
	}
	if reply != No {
		return &consent.Approval{By: "terminal"}, nil
	}
	return nil, fault.New(fault.Approval, "the user didn't approve %q", q.Ref).On("ref", q.Ref.String())
}

// A Flow is what a thread, those above it, and their children have called. It is safe for many goroutines.
type Flow struct {
	mu    sync.Mutex
	tools []string
	tags  []string
}

// Door is how the policies see the next call of a thread, which follows a directive.
func (f *Flow) Door(a *Approver, thread, directive string) *consent.Door {
	f.mu.Lock()
	defer f.mu.Unlock()
	return &consent.Door{
		Thread: thread,
		Flow:   consent.Flow{Directive: directive, Tools: slices.Clone(f.tools), Tags: slices.Clone(f.tags)},
		Approve: func(ctx context.Context, q *consent.Question) (*consent.Approval, error) {
			return a.approve(ctx, thread, q)
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
