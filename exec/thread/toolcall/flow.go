package toolcall

import (
	"context"
	"maps"
	"path/filepath"
	"slices"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/exec/thread/transcript"
)

// Remember notes what threads have called, by their records in a directory, and what their children and the threads
// before them have: conditions of the policies that look at it mustn't forget it where a thread goes on. What can't be
// read isn't noted.
func (m *Maker) Remember(ctx context.Context, dir string, threads ...string) {
	seen := map[string]bool{"": true}
	for len(threads) > 0 {
		id := threads[0]
		if threads = threads[1:]; seen[id] {
			continue
		}
		seen[id] = true
		made := map[string]string{} // tools, by the names of calls
		for event, err := range transcript.Read(filepath.Join(dir, filepath.FromSlash(id))) {
			if err != nil {
				break
			}
			switch event.Type {
			case transcript.TypeStarted:
				var s transcript.Started
				if event.Decode(&s) == nil {
					threads = append(threads, s.Continues)
				}
			case transcript.TypeCallStarted:
				var c transcript.CallStarted
				if event.Decode(&c) == nil {
					threads = append(threads, c.Child)
					if in, _ := c.Input.(map[string]any); in["dry_run"] != true {
						made[c.Call] = c.Ref
					}
				}
			case transcript.TypeCallResult:
				var r transcript.CallResult
				if event.Decode(&r) == nil && r.Status == transcript.CallRefused {
					delete(made, r.Call)
				}
			}
		}
		for _, ref := range slices.Sorted(maps.Values(made)) {
			m.note(ctx, ref)
		}
	}
}

// note notes the call of a tool.
func (m *Maker) note(ctx context.Context, name string) {
	ref, err := model.ParseRef(name)
	if err != nil || ref.Kind != "tool" || m.flow.Has(ref) {
		return
	}
	var tags []string
	if it, err := m.session.Item(ctx, ref); err == nil { // or they aren't known
		tags = it.Model.Tags
	}
	m.flow.Add(ref, tags)
}
