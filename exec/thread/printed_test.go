package thread_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/exec/template/params"
	"github.com/rye-build/rye/exec/thread"
	"github.com/rye-build/rye/exec/thread/provider"
	"github.com/rye-build/rye/exec/thread/provider/modeltest"
)

// printed returns a directive, permissions or hooks as the documents of rye 1 print them.
func printed(t testing.TB, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	must(t, err)
	return string(b)
}

// grant adds a line to the grants of the user's policy: tools of a thread write files of the project only by it.
func (w *world) grant(line string) {
	w.t.Helper()
	name := "../home/.ai/policy.yaml"
	b, err := os.ReadFile(filepath.Join(w.Dir, name))
	must(w.t, err)
	w.Write(name, string(b)+"\ngrants:\n  "+line+"\n")
}

// TestPrinted: what the documents of rye 1 print works as printed: permissions with dots and with other names of
// tools, steps in the XML, hooks.
func TestPrinted(t *testing.T) {
	t.Parallel()
	whole := printed(t, "scrape_website.md")
	hooked := strings.Replace(whole, "</directive>", printed(t, "hooks.xml")+"</directive>", 1)
	from, to := strings.Index(whole, "<permissions>"), strings.Index(whole, "</permissions>")+len("</permissions>")
	permitted := whole[:from] + printed(t, "permissions.xml") + whole[to:]
	write := func(id string) provider.ToolCall {
		return executes("a", id, object{"file_path": "data/out.json", "content": "{}"})
	}
	search := func(scope string) provider.ToolCall {
		return call("a", "rye_search", object{"query": "echo", "scope": scope})
	}
	const denied = "PERMISSION_DENIED"
	for _, c := range []struct {
		name, directive string
		call            provider.ToolCall
		got, not        string // what the model got
		hooks           string
	}{
		{"by its name", whole, write("rye/file-system/write"), `\"success\":true`, denied, ""},
		{"by the name in the document", whole, write("rye/file-system/fs_write"), `\"success\":true`, denied, ""},
		{"another", whole, write("rye/file-system/read"), denied, "", ""},
		{"steps", whole, write("rye/bash/bash"), `Fetch the page HTML`, "", ""},
		{"hooks", hooked, write("rye/bash/bash"), `I am a careful agent.`, "", "load_identity"},
		{"all of a directory", permitted, write("rye/file-system/fs_write"), `\"success\":true`, denied, ""},
		{"types", permitted, search("tool.acme.*"), `tool:acme/echo`, denied, ""},
		{"a type", permitted, search("tool"), `tool:acme/echo`, denied, ""},
		{"another type", permitted, search("knowledge"), denied, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, map[string]string{
				"directives/scrape_website.md": c.directive,
				"knowledge/agent_identity.md":  "---\nid: agent_identity\ntitle: Identity\nentry_type: reference\nversion: 1.0.0\n---\nI am a careful agent.\n",
			}, modeltest.Turn{Calls: []provider.ToolCall{c.call}}, done)
			w.Write("data/old.json", "")
			w.grant(`"tool:rye/file-system/*": ["files:write:data"]`)
			r, err := w.run(t.Context(), thread.Start{Directive: model.Ref{Kind: "directive", ID: "scrape_website"},
				Model: "local/x", Inputs: params.Values(object{"url": "https://example.org"})})
			must(t, err)
			if !r.Success {
				t.Fatalf("%+v: %v", r, r.Error)
			}
			got := string(w.server.Requests()[1].Raw)
			if !strings.Contains(got, c.got) || c.not != "" && strings.Contains(got, c.not) {
				t.Errorf("the model got %s", got)
			}
			if hooks := strings.Join(w.hooksOf(r), ", "); hooks != c.hooks {
				t.Errorf("ran %s", hooks)
			}
		})
	}
}

// TestNarrow: config:capabilities takes from what a directive may do, and gives nothing.
func TestNarrow(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"{}\n": `\"said\":\"x\"`,
		"narrow: [{id: none, capability: 'execute:tool:acme/*', to: []}]\n":                    "PERMISSION_DENIED",
		"narrow: [{id: echo, capability: 'execute:tool:*', to: ['execute:tool:acme/echo']}]\n": `\"said\":\"x\"`,
	} {
		items := plain(asking)
		items["config/capabilities.yaml"] = text
		w := newWorld(t, items, echoes("x"), done)
		_, err := w.run(t.Context(), thread.Start{})
		must(t, err)
		if got := string(w.server.Requests()[1].Raw); !strings.Contains(got, want) {
			t.Errorf("%s: the model got %s", text, got)
		}
	}
	items := plain(asking)
	items["config/capabilities.yaml"] = "aliases: [{id: acme/none, tools: [acme/echo]}]\n"
	if _, err := newWorld(t, items).run(t.Context(), thread.Start{}); err == nil ||
		!strings.Contains(err.Error(), "only the library has aliases") {
		t.Errorf("%v", err)
	}
}
