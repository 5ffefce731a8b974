package sandbox_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/rye-build/rye/exec/proc"
	"github.com/rye-build/rye/exec/sandbox"
	"github.com/rye-build/rye/manifest/policy/floor"
)

const countWord = "__count"

// countStage is a second stage that is counted.
func countStage(count string) int {
	if counted(count) != nil {
		return 9
	}
	return sandbox.Stage(nil)
}

// awaitStages waits until as many stages were counted as are wanted, and fails if others are.
func awaitStages(t *testing.T, count string, want int) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); bytesIn(t, count) < want && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	if n := bytesIn(t, count); n != want {
		t.Fatalf("%d stages were started, not %d", n, want)
	}
}

// TestReady: a stage that was started before its run is used by the next one that fits, and by no other; a process
// that goes on making runs keeps one ready.
func TestReady(t *testing.T) {
	count := filepath.Join(realDir(t), "count")
	m := sandbox.New(sandbox.Options{Self: []string{self(t), countWord, coverDir(), count}})
	stages := func(want int) { t.Helper(); awaitStages(t, count, want) }
	run := func(network bool) {
		t.Helper()
		o, err := m.Run(t.Context(), sandbox.Spec{Level: floor.Limits, Most: true,
			Network: sandbox.Network{All: network}},
			proc.Command{Path: self(t), Args: []string{tryWord, "nothing"}})
		if err != nil || o.Level != floor.Namespace {
			t.Fatalf("%+v, %v", o, err)
		}
	}
	m.Ready(false)
	stages(1)
	m.Ready(false)
	run(false)
	stages(1)
	m.Ready(true)
	stages(2)
	run(false) // in a network of its own
	stages(3)
	run(false)
	stages(5) // one is ready now
	run(false)
	stages(6)
}

// TestMounted: a stage that was started before something was mounted isn't used: its run would see other files than
// the user has.
func TestMounted(t *testing.T) {
	count := filepath.Join(realDir(t), "count")
	m := sandbox.New(sandbox.Options{Self: []string{self(t), countWord, coverDir(), count}})
	m.Ready(false)
	if !m.Mounted() {
		t.Fatal("no stage is ready")
	}
	if o, err := m.Run(t.Context(), sandbox.Spec{Level: floor.Limits, Most: true},
		proc.Command{Path: self(t), Args: []string{tryWord, "nothing"}}); err != nil || o.Level != floor.Namespace {
		t.Fatalf("%+v, %v", o, err)
	}
	if m.Mounted() {
		t.Error("the stage is ready still")
	}
	awaitStages(t, count, 2)
}
