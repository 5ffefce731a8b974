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
	if len(q.Lines) == 0 {
		return "its risk is " + q.Risk
	}
	return "asked by " + strings.Join(q.Lines, ", ")
}

// A Call is a call that the policies decide about.
type Call struct {
	Ref               model.Ref
	Digest            cas.Digest // of the tool's file
	Risk              string
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
func Check(ctx context.Context, c *Call, root, project *policy.Policy, door *Door) (*Approval, error) {
	if door == nil {
		door = &Door{}
	}
	d := ask.Decide(&ask.Call{
		Tool: c.Ref.String(), Risk: c.Risk, Attended: c.Attended,
		Document: map[string]any{"params": c.Params, "caller": c.Principal, "tenant": c.Tenant,
			"flow": door.Flow.document()},
	}, rules(root), rules(project))
	switch {
	case d.Answer == ask.Refuse:
		return nil, fault.New(fault.Policy, "%q is refused by %s", c.Ref, strings.Join(d.Lines, ", ")).
			On("ref", c.Ref.String()).On("lines", d.Lines).Try(fault.Command("rye trust check", c.Ref.String()))
	case c.Chosen:
		return nil, nil
	case c.Approval != nil:
		if d.Answer == ask.Ask && d.Separate && !c.Approval.Separate {
			return nil, separate(question(c, &d))
		}
		return c.Approval, c.Approval.Covers(c)
	case d.Answer == ask.Allow:
		return nil, nil
	}
	q := question(c, &d)
	switch {
	case c.Dry != nil:
		c.Dry(q)
		return nil, nil
	case door.Approve == nil:
		return nil, Required(q)
	}
	timed, stop := context.WithTimeout(ctx, d.Expires)
	defer stop()
	got, err := door.Approve(timed, q)
	if err != nil && timed.Err() != nil && ctx.Err() == nil {
		return nil, Required(q).Because("there was no answer within " + d.Expires.String())
	}
	if err != nil {
		return nil, err
	}
	if d.Separate && !got.Separate {
		return nil, separate(q)
	}
	bound := *got
	bound.For, err = c.Subject()
	return &bound, err
}

// question returns the question about a call.
func question(c *Call, d *ask.Decision) *Question {
	shown, _ := redact.New().Value(c.Params).(map[string]any)
	return &Question{Ref: c.Ref, Digest: c.Digest, Risk: c.Risk, Params: shown, Given: c.Params,
		Principal: c.Principal, Tenant: c.Tenant,
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
		q.Risk).Because(q.Why())
	if len(q.Lines) > 0 {
		e.On("lines", q.Lines)
	}
	return e.Try(fault.Command("rye trust check", q.Ref.String()))
}
