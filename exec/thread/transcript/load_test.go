package transcript

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/manifest/key"
)

// TestLoad: a payload is what its line says, or an error.
func TestLoad(t *testing.T) {
	w, dir := begun(t, options())
	events, err := w.Append(Artifact{Call: "c", Digest: sum("x"), Media: "text/plain",
		Content: strings.Repeat("x", 6000)})
	must(t, err)
	l := events[0].Large
	if b, err := l.Load(dir); err != nil || !bytes.Equal(b, events[0].Payload) {
		t.Error(err)
	}
	if _, err := (&Large{l.At, sum("y"), l.Size}).Load(dir); fault.CodeOf(err) != fault.Integrity {
		t.Error(err)
	}
	if _, err := (&Large{l.At + 9000, sum("y"), 1}).Load(dir); fault.CodeOf(err) != fault.Integrity {
		t.Error(err)
	}
	if _, err := l.Load(filepath.Join(dir, "x")); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// TestFacts: what a report tells apart is bounded, and sorted.
func TestFacts(t *testing.T) {
	f := newFacts()
	for i := range maxFacts + 2 {
		f.tool(Item{Ref: fmt.Sprint("tool:", i)}, 1)
		f.model(modelKey{model: fmt.Sprint(i)}).settle(Usage{Input: 1}, 1)
	}
	models, tools := f.lists()
	if len(models) != maxFacts+1 || len(tools) != maxFacts+1 || tools[0] != (ToolUse{others, 2}) ||
		f.calls != maxFacts+2 {
		t.Error(len(models), len(tools), tools[0])
	}
}

// TestLong: verifying a long transcript takes memory for one event.
func TestLong(t *testing.T) {
	w, dir := begun(t, options())
	for range 40 {
		var events []Payload
		for range 100 {
			events = append(events, Hook{ID: "h", Event: "e", Result: strings.Repeat("x", 2000)})
		}
		_, err := w.Append(append(events, Artifact{Call: "c", Digest: sum("x"), Media: "text/plain",
			Content: strings.Repeat("y", 1<<18)},
			Checkpoint{Turn: 1})...)
		must(t, err)
	}
	r, err := OpenReader(dir)
	must(t, err)
	defer r.Close()
	for {
		if _, err := r.Next(); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if cap(r.buf) > 16*MaxLine {
			t.Fatalf("%d bytes kept", cap(r.buf))
		}
	}
	if r.Last() != w.Last() || r.Torn {
		t.Error(r.Last(), r.Torn)
	}
}

func BenchmarkVerify(b *testing.B) {
	w, dir := begun(b, options())
	for range 100 {
		_, err := w.Append(Request{Turn: 1, Attempt: 1, Digest: sum("r"), Messages: []any{Message{Role: "user",
			Text: strings.Repeat("text ", 600)}}, Provider: Item{Ref: "tool:p"}, Model: "m"},
			Answer{Turn: 1, Attempt: 1, Text: strings.Repeat("text ", 400)},
			Artifact{Call: "c", Digest: sum("x"), Media: "text/plain",
				Content: strings.Repeat("a line of it\n", 5000)}, Checkpoint{Turn: 1})
		must(b, err)
	}
	b.SetBytes(w.end + w.large)
	for b.Loop() {
		if r := verify(b, dir, Check{Keys: []key.Public{own.Public()}, Unfinished: true}); r.Problem != nil {
			b.Fatal(r.Problem)
		}
	}
}
