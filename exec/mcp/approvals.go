package mcp

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/approval"
	"github.com/rye-build/rye/exec/consent"
	"github.com/rye-build/rye/exec/serve"
	"github.com/rye-build/rye/exec/thread/toolcall"
	"github.com/rye-build/rye/manifest/jcs"
)

// elicit asks the user of the client, who answers with the next round of the call.
func (r *request) elicit(_ context.Context, request *approval.Request, about *consent.Question) (approval.Answer,
	error) {
	id := "approval-" + request.ID // an answer to no question counts for nothing
	answer, ok := r.responses[id].(*mcp.ElicitResult)
	if !ok {
		r.ask = mcp.InputRequestMap{id: &mcp.ElicitParams{Mode: "form", Message: question(about),
			RequestedSchema: object{"type": "object",
				"properties": object{"approve": object{"type": "boolean", "title": "Run it", "default": false}},
				"required":   []any{"approve"}}}}
		return approval.Answer{None: true}, nil
	}
	yes, _ := answer.Content["approve"].(bool)
	return approval.Answer{Yes: answer.Action == "accept" && yes, By: request.Asker(), Through: "mcp",
		None: answer.Action == "cancel"}, nil
}

// maxQuestion is how many bytes of a parameter a question shows.
const maxQuestion = 1 << 10

// question returns the text that asks a person about a call.
func question(q *consent.Question) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s needs an approval: %s", q.Ref, q.Why())
	for _, name := range slices.Sorted(maps.Keys(q.Params)) {
		text, err := jcs.Append(nil, q.Params[name])
		if err != nil {
			text = []byte(err.Error())
		}
		fmt.Fprintf(&b, "\n  %s: %s", name, fault.Clip(string(text), maxQuestion))
	}
	return b.String()
}

// elicits reports whether a client can ask its user. Over HTTP its token must have the scope for answers: a program
// that has the token could make up what its user says.
func elicits(q *mcp.CallToolRequest) bool {
	if t, _ := tokenOf(q.Extra); t != nil && !t.Has(serve.Approve) {
		return false
	}
	p := q.Session.InitializeParams()
	return p != nil && p.Capabilities != nil && p.Capabilities.Elicitation != nil
}

// approver is for the calls of a thread: it stops at one that waits for an approval.
func (r *request) approver() (*toolcall.Approver, error) {
	d, err := r.asking.Controller()
	if err != nil {
		return nil, err
	}
	a, err := toolcall.NewApprover(nil, nil, nil)
	if err == nil {
		a.Use(d)
	}
	return a, err
}
