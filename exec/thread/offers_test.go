package thread_test

import (
	"strings"
	"testing"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/thread"
	"github.com/rye-build/rye/exec/thread/provider"
	"github.com/rye-build/rye/exec/thread/provider/modeltest"
	"github.com/rye-build/rye/exec/thread/transcript"
)

// offering is asking with tools that the model is offered under their own names.
func offering(tools ...string) map[string]string {
	all := ""
	for _, id := range tools {
		all += "<tool>" + id + "</tool>"
	}
	return plain(strings.ReplaceAll(asking, "<metadata>", "<metadata><tools>"+all+"</tools>"))
}

// TestOffered: a tool that the directive names has its own schema, and is called by its name as rye_execute calls it.
func TestOffered(t *testing.T) {
	t.Parallel()
	w := newWorld(t, offering("acme/echo"), modeltest.Turn{Calls: []provider.ToolCall{
		call("a", "acme_echo", object{"text": "hi", "times": 2}), call("b", "acme_echo", object{}),
		call("c", "acme_echo", object{"text": "fail"}),
		call("d", "acme/echo", object{"text": "hi"}), {ID: "e", Name: "acme_echo", Raw: `{"text":`},
	}}, modeltest.Turn{Text: "done"})
	r, err := w.run(t.Context(), thread.Start{})
	must(t, err)
	if !r.Success {
		t.Fatalf("%+v, %v", r, r.Error)
	}
	offered := string(w.server.Requests()[0].Raw)
	for _, part := range []string{`"name":"acme_echo"`, `"description":"Gives back what it is given"`,
		`"times":{"default":1,"type":"integer"}`} {
		if !strings.Contains(offered, part) {
			t.Errorf("the request lacks %s: %s", part, offered)
		}
	}
	results := string(w.server.Requests()[1].Raw)
	for _, part := range []string{`{\"said\":\"hihi\"}`, `VALIDATION_FAILED`, `it was told to`,
		`there is no tool \\\"acme/echo\\\"`, `are not valid JSON`} {
		if !strings.Contains(results, part) {
			t.Errorf("the results lack %s: %s", part, results)
		}
	}
	for _, e := range w.events(r) {
		if e.Type != transcript.TypeCallStarted {
			continue
		}
		var c transcript.CallStarted
		must(t, e.Decode(&c))
		if c.Call == "c1" && (c.Name != "acme_echo" || c.Ref != "tool:acme/echo" || c.Digest.IsZero() ||
			c.Risk != "read") {
			t.Errorf("recorded %+v", c)
		}
		break
	}
}

// TestNotOffered: a tool without permission isn't offered, and one that can't be used ends everything before it
// begins.
func TestNotOffered(t *testing.T) {
	t.Parallel()
	items := offering("acme/echo", "acme/other")
	items["tools/acme/other.star"] = echo
	w := newWorld(t, items, modeltest.Turn{Calls: []provider.ToolCall{call("a", "acme_other", object{"text": "hi"})}},
		modeltest.Turn{Text: "done"})
	r, err := w.run(t.Context(), thread.Start{})
	must(t, err)
	if body := string(w.server.Requests()[0].Raw); !r.Success || strings.Contains(body, "acme_other") {
		t.Errorf("%+v: %s", r, body)
	}
	if body := string(w.server.Requests()[1].Raw); !strings.Contains(body, "TOOL_NOT_FOUND") {
		t.Errorf("the model got %s", body)
	}

	items = offering("acme/none")
	items["directives/acme/asking.md"] = strings.ReplaceAll(items["directives/acme/asking.md"],
		"<tool>acme/echo</tool></execute>", "<tool>acme/*</tool></execute>")
	w = newWorld(t, items)
	if r, err := w.run(t.Context(), thread.Start{}); fault.CodeOf(err) != fault.NotFound &&
		fault.CodeOf(err) != fault.ToolNotFound {
		t.Errorf("%+v, %v", r, err)
	}
	w = newWorld(t, withTool(echo))
	w.Write(".ai/tools/acme/echo.star", echo+"\n")
	if r, err := w.run(t.Context(), thread.Start{}); err == nil {
		t.Errorf("a tool that was changed: %+v", r)
	}
}

func withTool(text string) map[string]string {
	items := offering("acme/echo")
	items["tools/acme/echo.star"] = text
	return items
}
