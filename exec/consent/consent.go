// Package consent is the decision of the policies' section ask about a call of a tool, and the approval that it may
// need.
//
// Each caller passes a Door: it describes how the call came about, and gets the approval. A call that the policies
// refuse is POLICY_DENIED. A call that they ask about is made only after Door.Approve has returned an approval,
// without which it is APPROVAL_REQUIRED. Package approval implements Approve by requests that others answer; package
// manifest/policy/ask describes the lines of a policy.
package consent

import (
	"context"
	"strings"
	"time"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/audit/redact"
	"github.com/rye-build/rye/manifest/jcs"
	"github.com/rye-build/rye/manifest/policy"
	"github.com/rye-build/rye/manifest/policy/ask"
)

// A Door is the origin of a call. The zero Door can't get approvals.
type Door struct {
	Thread  string // "" outside of threads
	Flow    Flow
	Approve func(context.Context, *Question) (*Approval, error) // nil: no one can be asked
}

// A Subject is the one call that an approval is for. Two subjects are compared with ==.
type Subject struct {
	Ref               model.Ref
	Digest            cas.Digest // of the tool's file
	Risk              string
	Params            cas.Digest // of the parameters' JCS
	Set               cas.Digest // of the lock; zero without one
	Principal, Tenant string
}

// An Approval allows one call.
type Approval struct {
	By       string // for the record of the call
	For      Subject
	Separate bool // another person gave it than who asked
	// Take is called before the call is made, and fails if the approval was used; end is called after it, with the
	// code of its error or "". Nil where a person is present, who approves this call alone.
	Take func(ctx context.Context, call string) (end func(ctx context.Context, code string) error, err error)
	// Drop ends the approval of a call that isn't made after all. Nil if Take is.
	Drop func(ctx context.Context, why error) error
}

// A Flow is the history of a thread before a call.
type Flow struct {
	Directive string   // "" outside of threads
	Tools     []string // the tools called so far
	Tags      []string // the tags of these
}

// document returns the flow for conditions.
func (f *Flow) document() map[string]any {
	list := func(texts []string) []any {
		all := make([]any, len(texts))
		for i, s := range texts {
			all[i] = s
		}
		return all
	}
	doc := map[string]any{"directive": nil, "tools": list(f.Tools), "tags": list(f.Tags)}
	if f.Directive != "" {
		doc["directive"] = f.Directive
	}
	return doc
}

// A Question asks for the approval of a call.
type Question struct {
	Ref       model.Ref
	Digest    cas.Digest // of the tool's file
	Risk      string
	Derived   string         // why it is that, if the tool declares none; "" if it does
	Declare   string         // the line by which the tool's file would declare it
	Params    map[string]any // without secrets, for display
	Given     map[string]any // the unredacted parameters
	Principal string         // the user or agent that asks
	Tenant    string
	Separate  bool     // the asking person can't approve
	Lines     []string // the lines of the policies that ask; empty: the risk requires the approval
	Expires   time.Duration
	Text      string // of a gate
}

// Why returns the reason for the question.
func (q *Question) Why() string {
	if q.Text != "" {
		return q.Text
	}
	risk := "its risk is " + q.Risk
	if q.Derived != "" {
		risk = "it declares no risk, and this call counts as " + q.Risk + ": " + q.Derived
	}
	switch {
	case len(q.Lines) == 0:
		return risk
	case q.Derived != "":
		return "asked by " + strings.Join(q.Lines, ", ") + "; " + risk
	}
	return "asked by " + strings.Join(q.Lines, ", ")
}

// Reasons returns Why and, if the tool declares no risk, how to declare it.
func (q *Question) Reasons() []string {
	if q.Derived == "" {
		return []string{q.Why()}
	}
	return []string{q.Why(), "to declare its risk, add a line such as: " + q.Declare}
}

// A Call is a call that the policies decide about.
type Call struct {
	Ref               model.Ref
	Digest            cas.Digest // of the tool's file
	Risk              string
	Derived, Declare  string         // as in a Question
	Params            map[string]any // complete
	Set               cas.Digest     // of the lock; zero without one
	Principal, Tenant string
	Approval          *Approval       // that was given before; nil: none
	Attended          bool            // its user makes it
	Chosen            bool            // rye itself has chosen the tool, and nothing asks about it
	Dry               func(*Question) // of a call that won't be made: gets what would be asked
}

// Subject returns the subject of an approval of the call.
func (c *Call) Subject() (Subject, error) {
	text, err := jcs.Append(nil, c.Params)
	if err != nil {
		return Subject{}, err
	}
	return Subject{Ref: c.Ref, Digest: c.Digest, Risk: c.Risk, Params: cas.Sum(text), Set: c.Set,
		Principal: c.Principal, Tenant: c.Tenant}, nil
}

// Covers returns CONFLICT if the approval is for another call, such as one of an earlier version of the tool.
func (a *Approval) Covers(c *Call) error {
	now, err := c.Subject()
	if err == nil && a.For != now {
		err = fault.New(fault.Conflict, "%q has changed since its call was approved", c.Ref).On("ref", c.Ref.String())
	}
	return err
}

// Check refuses a call that the policies refuse, and gets the approval for one that they ask about. It returns the
// approval, which is the call's own if it has one; nil if the call needs none. root is nil if no key is trusted, and
// project if the project has no policy.
func Check(ctx context.Context, call *Call, root, project *policy.Policy, door *Door) (*Approval, error) {
	if door == nil {
		door = &Door{}
	}
	decision := ask.Decide(&ask.Call{
		Tool: call.Ref.String(), Risk: call.Risk, Attended: call.Attended,
		Document: map[string]any{"params": call.Params, "caller": call.Principal, "tenant": call.Tenant,
			"flow": door.Flow.document()},
	}, rules(root), rules(project))
	switch {
	case decision.Answer == ask.Refuse:
		return nil, fault.New(fault.Policy, "%q is refused by %s", call.Ref, strings.Join(decision.Lines, ", ")).
			On("ref", call.Ref.String()).On("lines",
			decision.Lines).Try(fault.Command("rye trust check", call.Ref.String()))
	case call.Chosen:
		return nil, nil
	case call.Approval != nil:
		if decision.Answer == ask.Ask && decision.Separate && !call.Approval.Separate {
			return nil, separate(question(call, &decision))
		}
		return call.Approval, call.Approval.Covers(call)
	case decision.Answer == ask.Allow:
		return nil, nil
	}
	question := question(call, &decision)
	switch {
	case call.Dry != nil:
		call.Dry(question)
		return nil, nil
	case door.Approve == nil:
		return nil, Required(question)
	}
	timed, stop := context.WithTimeout(ctx, decision.Expires)
	defer stop()
	got, err := door.Approve(timed, question)
	if err != nil && timed.Err() != nil && ctx.Err() == nil {
		return nil, Required(question).Because("there was no answer within " + decision.Expires.String())
	}
	if err != nil {
		return nil, err
	}
	if decision.Separate && !got.Separate {
		return nil, separate(question)
	}
	bound := *got
	bound.For, err = call.Subject()
	return &bound, err
}

// question returns the question about a call.
func question(c *Call, d *ask.Decision) *Question {
	shown, _ := redact.New().Value(c.Params).(map[string]any)
	return &Question{Ref: c.Ref, Digest: c.Digest, Risk: c.Risk, Derived: c.Derived, Declare: c.Declare, Params: shown,
		Given: c.Params, Principal: c.Principal, Tenant: c.Tenant,
		Separate: d.Separate, Lines: d.Lines, Expires: d.Expires}
}

// separate returns the error that the caller of a call can't approve it.
func separate(q *Question) error {
	return Required(q).Because("the policy wants another person than its caller to approve it")
}

func rules(p *policy.Policy) ask.Rules {
	if p == nil {
		return nil
	}
	return p.Sections().Ask
}

// Required returns the error for a call without its approval.
func Required(q *Question) *fault.Error {
	e := fault.New(fault.Approval, "%q needs an approval", q.Ref).On("ref", q.Ref.String()).On("risk",
		q.Risk).Because(q.Reasons()...)
	if len(q.Lines) > 0 {
		e.On("lines", q.Lines)
	}
	if q.Derived != "" {
		e.On("risk_derived", q.Derived)
	}
	return e.Try(fault.Command("rye trust check", q.Ref.String()))
}
