package audit

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rye-build/rye/exec/audit/record"
	"github.com/rye-build/rye/manifest/jcs"
)

// TestQueries: the questions of agents to registries stand among calls and steps with the words that leave the
// machine, are read again and exported, and are missed when one is edited.
func TestQueries(t *testing.T) {
	for _, edit := range []func(*Options){nil, required} {
		dir := filepath.Join(t.TempDir(), "audit")
		l := newLog(t, dir, edit)
		q := record.Query{Principal: "ann", Registry: "https://registry.example", Thread: "acme/find-1",
			Verb: "search", Words: "resize images"}
		must(t, l.Query(t.Context(), &q))
		run(t, l, "c1")
		must(t, l.Ask(t.Context(), &record.Approval{Request: "r1", Ref: "tool:a", State: "pending"}))
		other := q
		other.Verb, other.Words = "load", "acme/base"
		must(t, l.Query(t.Context(), &other))
		for _, bad := range []record.Query{{}, {Registry: "r", Verb: "search"}, {Registry: "r", Words: "x"},
			{Registry: "r", Verb: "search", Words: "a\nb"}, {Registry: "r", Verb: "search", Words: "a\u202eb"}} {
			if l.Query(t.Context(), &bad) == nil {
				t.Errorf("%+v is written", bad)
			}
		}
		must(t, l.Close(t.Context()))
		if r := sound(t, dir); r.Calls != 1 || r.Unfinished != 0 {
			t.Errorf("%+v", r)
		}
		var words []string
		for q, err := range Queries(t.Context(), dir, func(*Query) bool { return true }) {
			must(t, err)
			words = append(words, q.Verb+" "+q.Words)
			line := q.AppendExport(nil)
			if again, err := jcs.Canonical(nil, line); err != nil || !bytes.Equal(again, line) {
				t.Errorf("%s: %v", line, err)
			}
		}
		if strings.Join(words, ", ") != "search resize images, load acme/base" {
			t.Errorf("%q", words)
		}
		steps := 0
		for s, err := range Steps(t.Context(), dir, func(*Step) bool { return true }) {
			must(t, err)
			line := s.AppendExport(nil)
			if again, err := jcs.Canonical(nil, line); err != nil || !bytes.Equal(again, line) {
				t.Errorf("%s: %v", line, err)
			}
			steps++
		}
		if steps != 1 {
			t.Errorf("%d steps", steps)
		}
		files, err := filepath.Glob(filepath.Join(dir, "segments", "*", "*"))
		must(t, err)
		b, err := os.ReadFile(files[0])
		must(t, err)
		must(t, os.WriteFile(files[0], bytes.Replace(b, []byte("resize"), []byte("leaked"), 1), 0o600))
		r, err := Verify(t.Context(), dir, nil)
		must(t, err)
		if len(r.Problems) == 0 {
			t.Error("an edited question isn't found")
		}
	}
}
