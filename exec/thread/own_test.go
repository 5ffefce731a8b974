package thread_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/thread"
	"github.com/rye-build/rye/exec/thread/provider"
	"github.com/rye-build/rye/exec/thread/provider/modeltest"
	"github.com/rye-build/rye/manifest/key/keytest"
)

// TestOwnTools: the library's tools get the files that they declare in a thread of the user's own directive, and none
// in that of another signer's, which has only the permissions that the policy grants it.
func TestOwnTools(t *testing.T) {
	t.Parallel()
	const reading = "acme/asking"
	items := map[string]string{"directives/" + reading + ".md": strings.Replace(asking, "<tool>acme/echo</tool>",
		"<tool>rye/file-system/read</tool>", 1)}
	const grants = "\ngrants:\n  \"directive:acme/**\": [%q]\n"
	for name, by := range map[string]struct {
		grants string
		want   string
		mine   bool
	}{
		"Alice": {"", "[LID:", true}, "Alice, narrowed": {"execute:tool:acme/echo",
			"which no policy or directive above it grants", true},
		"Alice, granted": {"execute:tool:rye/*", "[LID:", true},
		"Bob":            {"", "", false}, "Bob, granted": {"execute:tool:rye/*", "no file of the project was granted",
			false},
	} {
		w := newWorld(t, items,
			modeltest.Turn{Calls: []provider.ToolCall{executes("a", "rye/file-system/read",
				object{"file_path": "a.txt"})}}, modeltest.Turn{Text: "done"})
		w.Write("a.txt", "hello\n")
		policy := filepath.Join(w.Home, ".ai", "policy.yaml")
		b, err := os.ReadFile(policy)
		must(t, err)
		granted := ""
		if by.grants != "" {
			granted = fmt.Sprintf(grants, by.grants)
		}
		w.Write("../home/.ai/policy.yaml", strings.Replace(string(b), "\nnames:", granted+"\nnames:", 1))
		if !by.mine {
			b, err := os.ReadFile(policy)
			must(t, err)
			text := strings.Replace(string(b), "\noverride",
				"  bob: {key: \""+keytest.Bob().Public().String()+"\"}\n\noverride", 1)
			w.Write("../home/.ai/policy.yaml", text+"  \"directive:acme/**\": {keys: [bob]}\n")
			w.Write(".ai/directives/"+reading+".md", items["directives/"+reading+".md"])
			w.SignFiles(keytest.Bob(), "directives/"+reading+".md")
		}
		r, err := w.run(t.Context(), thread.Start{})
		if by.want == "" {
			why := strings.Join(fault.Of(err).Why, "\n")
			if fault.CodeOf(err) != fault.Denied || !strings.Contains(why,
				`grants: {"directive:acme/asking": ["execute:tool:rye/file-system/read", "`) {
				t.Errorf("%s: %v, %s", name, err, why)
			}
			continue
		}
		must(t, err)
		if got := string(w.server.Requests()[1].Raw); !r.Success || !strings.Contains(got, by.want) ||
			strings.Contains(got, "hello") != (by.want == "[LID:") {
			t.Errorf("%s: %+v, the model got %s", name, r, got)
		}
		if !by.mine { // what was granted is in the record, and no matter of the policy of now
			b, err := os.ReadFile(policy)
			must(t, err)
			w.Write("../home/.ai/policy.yaml", strings.Replace(string(b), granted, "", 1))
		}
		w.same(r.Thread)
	}
}
