package thread_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rye-build/rye/exec/thread"
	"github.com/rye-build/rye/exec/thread/provider"
	"github.com/rye-build/rye/exec/thread/provider/modeltest"
	"github.com/rye-build/rye/manifest/key/keytest"
)

// TestOwnTools: the library's tools get the files that they declare in a thread of the user's own directive, and none in that of
// another signer's.
func TestOwnTools(t *testing.T) {
	const reading = "acme/asking"
	items := map[string]string{"directives/" + reading + ".md": strings.Replace(asking, "<tool>acme/echo</tool>", "<tool>rye/file-system/read</tool>", 1)}
	for signer, by := range map[string]struct {
		want string
		mine bool
	}{"Alice": {"[LID:", true}, "Bob": {"no file of the project was granted", false}} {
		w := newWorld(t, items,
			modeltest.Turn{Calls: []provider.ToolCall{executes("a", "rye/file-system/read", object{"file_path": "a.txt"})}}, modeltest.Turn{Text: "done"})
		w.write("a.txt", "hello\n")
		if !by.mine {
			policy := filepath.Join(w.paths.User.Path, ".ai", "policy.yaml")
			b, err := os.ReadFile(policy)
			must(t, err)
			text := strings.Replace(string(b), "\noverride", "  bob: {key: \""+keytest.Bob.Public().String()+"\"}\n\noverride", 1)
			w.write("../home/.ai/policy.yaml", text+"  \"directive:acme/**\": {keys: [bob]}\n")
			w.write(".ai/directives/"+reading+".md", items["directives/"+reading+".md"])
			w.signAs(keytest.Bob, "directives/"+reading+".md")
		}
		r, err := w.run(t.Context(), thread.Start{})
		must(t, err)
		if got := string(w.server.Requests()[1].Raw); !r.Success || !strings.Contains(got, by.want) || strings.Contains(got, "hello") != by.mine {
			t.Errorf("%s: %+v, the model got %s", signer, r, got)
		}
	}
}
