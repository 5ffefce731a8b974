package exec_test

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/rye-build/rye/exec/audit/record"
	"github.com/rye-build/rye/exec/sandbox"
	"github.com/rye-build/rye/exec/sandbox/sandboxtest"
	"github.com/rye-build/rye/manifest/policy/floor"
)

// TestPluginSandbox: a stranger's plugin runs its own program, which writes its data and executes nothing there.
func TestPluginSandbox(t *testing.T) {
	w := newPluginWorld(t)
	w.put(map[string]string{"private": "not granted"})
	program, err := os.ReadFile(sandboxtest.Self(t))
	if err != nil {
		t.Fatal(err)
	}
	w.file("bin/x", string(program), true)
	w.item(process, `config: {command: "{plugin_root}/bin/x", args: [`+childWord+
		`, plugin, "{plugin_root}", "{plugin_data}", `+filepath.Join(w.project, "private")+`]}`)
	for i := range 2 {
		r, err := w.run(call(plugged, nil))
		if sandboxtest.Machine(t).Offers().Best < floor.Landlock {
			if _, ok := errors.AsType[*sandbox.UnavailableError](err); !ok || r.Status != record.Refused {
				t.Errorf("without a sandbox: %+v, %v", r, err)
			}
			return
		}
		if err != nil || r.Status != record.OK || r.Level < floor.Landlock {
			t.Fatalf("%+v, %v", r, err)
		}
		want := []string{"read its files", "start its files", "write a program into its data", "write data"}
		if i > 0 {
			want = append(want, "find data of the last call")
		}
		slices.Sort(want)
		said := r.Value.(map[string]any)
		maps.DeleteFunc(said, func(_ string, did any) bool { return did == false })
		if got := slices.Sorted(maps.Keys(said)); !slices.Equal(got, want) {
			t.Errorf("call %d: it can %q; want %q", i, got, want)
		}
		if slices.Contains(r.Enforced, unpinnedData) {
			t.Errorf("call %d: no interpreter takes part: %q", i, r.Enforced)
		}
	}
	checkLog(w.world)
}
