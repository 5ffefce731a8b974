package thread_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/journal/journaltest"
	"github.com/rye-build/rye/exec/thread"
	"github.com/rye-build/rye/exec/thread/provider"
	"github.com/rye-build/rye/exec/thread/provider/modeltest"
	"github.com/rye-build/rye/exec/thread/transcript"
)

// TestDerivedIsNotRepeated: a call whose result was lost is made again if its tool declares the risk read. One whose
// read is only derived, which needs no approval either, is unknown.
func TestDerivedIsNotRepeated(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, tool string
		repeated   bool
	}{
		{"declared", here, true},
		{"by its effects", strings.Replace(here, "risk: read", "effects: [none]", 1), true},
		{"derived", strings.Replace(here, "risk: read\n", "", 1), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			items := plain(strings.ReplaceAll(asking, "<tool>acme/echo</tool></execute>",
				"<tool>acme/*</tool></execute>"))
			items["tools/acme/mark.yaml"] = c.tool
			w := newWorld(t, items)
			text := ""
			w.server.Handle(func(q *modeltest.Request) modeltest.Turn {
				all := q.Body["messages"].([]any)
				if last := all[len(all)-1].(object); last["role"] == "tool" {
					return modeltest.Turn{Text: "done"}
				}
				return modeltest.Turn{Calls: []provider.ToolCall{executes("a", "acme/mark", object{"text": text})}}
			})
			twice, unknown := 0, 0
			for n := 1; ; n++ {
				text = fmt.Sprintf("x%dx", n)
				heal := w.failing(n)
				_, err := w.run(t.Context(), thread.Start{})
				if !heal() {
					break
				}
				if err != nil && !errors.Is(err, journaltest.ErrFull) {
					t.Fatalf("change %d: %v", n, err)
				}
				row, begun := w.last()
				if !begun || row.State.Ended() {
					continue
				}
				r, err := w.resume(row.ID)
				if err != nil {
					if _, missing := os.Stat(filepath.Join(w.dir(row.ID), transcript.LinesFile)); missing != nil &&
						fault.CodeOf(err) == fault.NotFound {
						continue // it had not begun
					}
					t.Fatalf("change %d: %v", n, err)
				}
				made, lost := w.echoed(text), 0
				for _, e := range w.events(r) {
					var result transcript.CallResult
					if e.Type != transcript.TypeCallResult || e.Decode(&result) != nil {
						continue
					}
					switch result.Status {
					case transcript.CallUnknown:
						lost++
					case transcript.CallOK:
					default:
						t.Errorf("change %d: the call is %s: %v", n, result.Status, result.Error)
					}
				}
				if made > 1 {
					twice++
				}
				unknown += lost
				if made == 0 && lost == 0 || made > 2 {
					t.Errorf("change %d: made %d times, unknown %d times", n, made, lost)
				}
			}
			if (twice > 0) != c.repeated || (unknown > 0) == c.repeated {
				t.Errorf("%d calls were made twice, %d are unknown", twice, unknown)
			}
		})
	}
}
