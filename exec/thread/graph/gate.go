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
func (w *walk) gate(ctx context.Context, node *graph.Node) (*outcome, error) {
	ending := &outcome{cause: "condition"}
	if node.When != nil && !node.When.Holds(w.doc()) {
		ending.next = &node.Otherwise
		return ending, nil
	}
	if node.Ask == nil {
		return ending, nil
	}
	text, err := node.Ask.Text(w.doc())
	if err != nil {
		// what isn't asked isn't answered with yes
		ending.cause, ending.failed, ending.next = "", fault.Of(tooMuch(err)), &node.Otherwise
		return ending, nil
	}
	answer, err := w.Ask(ctx, Question{Step: w.step, Node: node.Name, Text: cmp.Or(text, node.Ask.String()),
		Timeout: node.Timeout})
	if err != nil {
		return nil, err
	}
	if ending.cause = "answer"; answer.Expired {
		ending.cause = "expired"
	}
	if !answer.Yes {
		ending.next = &node.Otherwise
	}
	return ending, nil
}
