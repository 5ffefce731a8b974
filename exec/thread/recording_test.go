package thread_test

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/rye-build/rye/exec/thread"
	"github.com/rye-build/rye/exec/thread/provider"
	"github.com/rye-build/rye/exec/thread/provider/modeltest"
	"github.com/rye-build/rye/exec/thread/replay"
	"github.com/rye-build/rye/exec/thread/transcript"
)

// TestDamagedRecording: a recording is whole and compared to its last line: without any one of its lines, with any
// one twice, or cut off anywhere it fails.
func TestDamagedRecording(t *testing.T) {
	t.Parallel()
	echo := func(id string) modeltest.Turn {
		return modeltest.Turn{Calls: []provider.ToolCall{executes(id, "acme/echo", object{"text": id})},
			Usage: provider.Usage{Input: 10, Output: 5}}
	}
	w := newWorld(t, withOutputs(asking), echo("a"), modeltest.Turn{Status: 429, RetryAfter: "0"}, echo("b"),
		modeltest.Turn{Calls: []provider.ToolCall{call("d", "directive_return", object{"answer": "x"})}})
	r, err := w.run(t.Context(), thread.Start{})
	must(t, err)
	events, err := replay.RecordingOf(w.dir(r.Thread))
	must(t, err)
	play := func(events []*replay.RecordedEvent) error {
		dir := filepath.Join(t.TempDir(), "x")
		if err := replay.RestoreRecording(dir, events); err != nil {
			return err
		}
		played, err := w.engine.PlayBack(t.Context(), dir)
		if err != nil {
			return err
		}
		return played.Whole()
	}
	must(t, play(events))
	// A missing checkpoint at the end is added.
	last := len(events) - 1
	if events[last].Type != transcript.TypeCheckpoint || len(events) < 15 {
		t.Fatalf("%d events, the last is %s", len(events), events[last].Type)
	}
	for i := 1; i < last; i++ {
		for how, damaged := range map[string][]*replay.RecordedEvent{
			"is missing": slices.Delete(slices.Clone(events), i, i+1),
			"is twice":   slices.Insert(slices.Clone(events), i, events[i]),
			"is cut off": events[:i],
		} {
			if play(damaged) == nil {
				t.Errorf("line %d of %d, %s, %s", i+1, len(events), events[i].Type, how)
			}
		}
	}
}
