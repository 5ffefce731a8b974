package thread_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rye-build/rye/exec/thread"
	"github.com/rye-build/rye/exec/thread/provider/modeltest"
)

// TestKeyStaysHere: while a model is asked, no process has its key among its arguments or in its environment, and
// afterwards no file has it, although the service has repeated it.
func TestKeyStaysHere(t *testing.T) {
	t.Parallel()
	items := plain(strings.Replace(asking, `provider="local" id="test-model"`,
		`provider="acme/providers/keyed" tier="fast"`, 1))
	server := modeltest.New(t)
	server.Require(acmeKey)
	item := strings.NewReplacer("OPENAI_API_KEY", "ACME_KEY", "rye/agent/providers",
		"acme/providers").Replace(server.Item("openai"))
	items["tools/acme/providers/keyed.yaml"] = item
	asked := 0
	server.Handle(func(q *modeltest.Request) modeltest.Turn {
		processes, err := filepath.Glob("/proc/[0-9]*")
		if err != nil || len(processes) == 0 {
			t.Errorf("no processes: %v", err)
		}
		for _, p := range processes {
			for _, name := range []string{"cmdline", "environ"} {
				// Processes end meanwhile, and those of other users can't be read.
				if b, _ := os.ReadFile(filepath.Join(p, name)); strings.Contains(string(b), acmeKey) {
					t.Errorf("%s/%s has the key", p, name)
				}
			}
		}
		if asked++; asked == 1 {
			turn := echoes("your key is " + acmeKey)
			turn.Text = "I got " + acmeKey
			return turn
		}
		return modeltest.Turn{Status: 403, Message: "no access with " + acmeKey}
	})
	w := newWorld(t, items)
	r, err := w.run(t.Context(), thread.Start{})
	must(t, err)
	if asked != 2 || r.Status != thread.Failed ||
		strings.Contains(r.Error.Error()+strings.Join(r.Error.Why, ""), acmeKey) {
		t.Errorf("asked %d times: %+v, %v", asked, r, r.Error)
	}
	files := 0
	must(t, filepath.WalkDir(filepath.Dir(w.Dir), func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		files++
		b, err := os.ReadFile(path)
		if strings.Contains(string(b), acmeKey) {
			t.Errorf("%s has the key", path)
		}
		return err
	}))
	w.same(r.Thread)
	if files < 10 {
		t.Errorf("only %d files", files)
	}
}
