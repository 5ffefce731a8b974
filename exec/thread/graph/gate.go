package graph

import (
	"cmp"
	"context"
	"time"

	"github.com/rye-build/rye/ai/graph"
	"github.com/rye-build/rye/cas/fault"
)

// A Question is what a gate asks a person.
type Question struct {
	Step    int64
	Node    string
	Text    string
	Timeout time.Duration // 0 for that of the policy
}

// An Answer is how it was answered.
type Answer struct {
	Yes     bool
	Expired bool
}

// Answered reads the answer from the call that asked.
func Answered(m *Made) (Answer, error) {
	value, failed := unwrap(m)
	if failed != nil {
		return Answer{}, failed
	}
	v, _ := value.(object)
	return Answer{Yes: v["answer"] == "yes", Expired: v["answer"] == "expired"}, nil
}

// gate decides which way to go. A condition and a question must both be answered with yes.
func (w *walk) gate(ctx context.Context, n *graph.Node) (*outcome, error) {
	o := &outcome{cause: "condition"}
	if n.When != nil && !n.When.Holds(w.doc()) {
		o.next = &n.Otherwise
		return o, nil
	}
	if n.Ask == nil {
		return o, nil
	}
	text, err := n.Ask.Text(w.doc())
	if err != nil {
		// what isn't asked isn't answered with yes
		o.cause, o.failed, o.next = "", fault.Of(tooMuch(err)), &n.Otherwise
		return o, nil
	}
	a, err := w.Ask(ctx, Question{Step: w.step, Node: n.Name, Text: cmp.Or(text, n.Ask.String()), Timeout: n.Timeout})
	if err != nil {
		return nil, err
	}
	if o.cause = "answer"; a.Expired {
		o.cause = "expired"
	}
	if !a.Yes {
		o.next = &n.Otherwise
	}
	return o, nil
}
