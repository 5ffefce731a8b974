package mcp_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestNoRisk: of a tool that declares no risk a client learns no hint; whether a call is asked about follows from its
// grants, and the question and the refusal say so.
func TestNoRisk(t *testing.T) {
	t.Parallel()
	message := ""
	s := serveAsked(t, func(_ context.Context, q *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
		message = q.Params.Message
		return &sdk.ElicitResult{Action: "decline"}, nil
	}, "tool:acme/*")
	for name, line := range map[string]string{"reads": "tags: [x]", "sends": "network: [api.acme.example]",
		"writes": "risk: write"} {
		s.p.Put("tools/acme/"+name+".yaml", strings.Replace(echo, "risk: read", line, 1))
	}
	s.lock()
	s.call("search", object{"query": "x"}) // the next call finds the new lock
	<-s.changed
	all, err := s.client.ListTools(t.Context(), nil)
	s.must(err)
	if len(all.Tools) < 8 {
		t.Errorf("%d tools are listed", len(all.Tools))
	}
	for _, tool := range all.Tools {
		reads, destroys := tool.Annotations.ReadOnlyHint, "unset"
		if d := tool.Annotations.DestructiveHint; d != nil {
			destroys = fmt.Sprint(*d)
		}
		want := map[string]string{"acme_echo": "true, false", "acme_writes": "false, true",
			"acme_reads": "false, unset", "acme_sends": "false, unset"}[tool.Name]
		if got := fmt.Sprintf("%v, %s", reads, destroys); want != "" && got != want {
			t.Errorf("%s reads only, destroys: %s; want %s", tool.Name, got, want)
		}
	}
	if answer, failed := s.call("acme_reads", object{"n": 3}); failed || message != "" {
		t.Errorf("%v, asked %q", answer, message)
	}
	answer, failed := s.call("acme_sends", object{"n": 3})
	const why = "it declares no risk, and this call counts as destructive: it may use the network"
	if !failed || message != "tool:acme/sends needs an approval: "+why+"\n  n: 3" {
		t.Errorf("%v, asked %q", answer, message)
	}
	if text := fmt.Sprint(answer["error"]); !strings.Contains(text, why) ||
		!strings.Contains(text, "to declare its risk, add a line such as: risk: destructive") {
		t.Errorf("the refusal is %s", text)
	}
}
