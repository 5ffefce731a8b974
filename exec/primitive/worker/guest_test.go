package worker

import (
	"bytes"
	"errors"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/exec/sandbox"
	"github.com/rye-build/rye/exec/sandbox/sandboxtest"
	"github.com/rye-build/rye/manifest/policy/floor"
)

// The arguments that start this binary as the second stage of a sandbox, and as a guest.
const (
	stageWord = "__stage"
	guestWord = "__guest"
)

// An order is a request of the tests.
type order struct{ Kind, Text, Prints, Complains string }

func TestMain(m *testing.M) {
	sandboxtest.Programs(map[string]func([]string) int{guestWord: func([]string) int {
		return serve(os.Stdin, os.Stdout)
	}})
	os.Exit(m.Run())
}

// serve prints what it is asked to print, and then its input, and answers with the frame that it is asked for.
func serve(in io.Reader, out io.Writer) int {
	var o order
	w := NewWriter(out)
	if err := Read(in, &o); err != nil {
		w.Frame(Refused, Cut(err.Error()))
		return 2
	}
	io.WriteString(w.Stream(Err), o.Prints)
	io.Copy(w.Stream(Out), in)
	os.Stderr.WriteString(o.Complains)
	if o.Kind != "" {
		w.Frame(o.Kind[0], []byte(o.Text))
	}
	return 3
}

func host(t *testing.T) *Host {
	return &Host{Machine: sandboxtest.Machine(t), Self: []string{sandboxtest.Self(t), guestWord}}
}

// TestKeep: a guest gets another call only after a whole answer with its usage and nothing behind it, so that what it
// wrote in one call never counts in the next; one that writes outside of a call is stopped.
func TestKeep(t *testing.T) {
	used := append([]byte{Used, 0, 0, 0, 16}, make([]byte, 16)...)
	answer := []byte{Value, 0, 0, 0, 1, '1'}
	for name, c := range map[string]struct {
		written []byte
		want    bool
	}{
		"an answer":        {slices.Concat(used, answer), true},
		"without usage":    {answer, false},
		"half a frame":     {slices.Concat(used, answer, []byte{Value, 0}), false},
		"another answer":   {slices.Concat(used, answer, answer), false},
		"an unknown frame": {slices.Concat(used, []byte{'?', 0, 0, 0, 0}), false},
	} {
		r := &reader{out: io.Discard, errs: io.Discard, left: 100, stop: func() {}}
		r.Write(c.written)
		if r.clean() != c.want {
			t.Errorf("%s: %v", name, r.clean())
		}
	}
	stopped := false
	k := &kept{stop: func() { stopped = true }}
	if k.Write(answer); !stopped {
		t.Error("it wrote outside of a call")
	}
}

// TestRun: what a guest prints, and how it ends.
func TestRun(t *testing.T) {
	for name, c := range map[string]struct {
		order order
		want  End
		fails string
	}{
		"a value":   {order{"v", `{"value":1}`, "hello", ""}, End{Kind: Value, Text: []byte(`{"value":1}`)}, ""},
		"a status":  {order{"x", "\x00\x00\x00\x07", "", ""}, End{Kind: Exit, Text: []byte{0, 0, 0, 7}}, ""},
		"a trap":    {order{"t", "unreachable", "", ""}, End{Kind: Trap, Text: []byte("unreachable")}, ""},
		"a refusal": {order{"n", "no such function", "", ""}, End{}, "no such function"},
		"no answer": {order{"", "", "", "panic: oh\n\ngoroutine 1"},
			End{Broken: "the guest ended without an answer: panic: oh"}, ""},
		"no memory": {order{"", "", "", "fatal error: out of memory"},
			End{Broken: "the guest ended without an answer: fatal error: out of memory",
				Ending: sandbox.Ending{Ended: "memory"}}, ""},
		"half a status": {order{"x", "1", "", ""}, End{Broken: errFrame.Error()}, ""},
		"far too much": {order{"v", strings.Repeat("x", MaxFrame+1), "", ""},
			End{Ending: sandbox.Ending{Ended: "output"}}, ""},
		"too much": {order{"v", strings.Repeat("x", 2000), "", ""},
			End{Kind: Value, Text: bytes.Repeat([]byte("x"), 2000), Ending: sandbox.Ending{Ended: "output"}}, ""},
	} {
		var out, errs bytes.Buffer
		e, err := host(t).Run(t.Context(), Call{
			Sandbox: sandbox.Spec{Level: floor.Limits, Limits: sandbox.Limits{Output: 1000}}, Request: c.order,
			Input: "input", Out: &out, Errs: &errs, Stop: func() {},
		})
		if c.fails != "" {
			if err == nil || err.Error() != c.fails {
				t.Errorf("%s: %+v, %v", name, e, err)
			}
			continue
		}
		if err != nil || e.Kind != c.want.Kind || !bytes.Equal(e.Text, c.want.Text) || e.Broken != c.want.Broken ||
			e.Ended != c.want.Ended {
			t.Errorf("%s: %+v, %v", name, e, err)
			continue
		}
		if out.String() != "input" || errs.String() != c.order.Prints ||
			e.Usage["stderr_bytes"] != int64(len(c.order.Prints)) || e.Usage["wall_ms"] < 0 {
			t.Errorf("%s: %q, %q, %v", name, out.String(), errs.String(), e.Usage)
		}
	}
	if _, err := (&Host{}).Run(t.Context(), Call{}); err == nil {
		t.Error("without a program")
	}
	for _, bad := range []any{func() {}, strings.Repeat("x", MaxRequest)} {
		if _, err := host(t).Run(t.Context(), Call{Request: bad}); err == nil {
			t.Errorf("a request of type %T", bad)
		}
	}
	if _, err := (&Host{Self: []string{"/x"}, Machine: sandbox.New(sandbox.Options{})}).Run(t.Context(),
		Call{}); err == nil {
		t.Error("without a sandbox")
	}
}

// TestRead: anything but a whole request is an error.
func TestRead(t *testing.T) {
	for _, text := range []string{"", "\x00\x00\x00\x02{", "\xff\xff\xff\xff{}", "\x00\x00\x00\x02[]",
		"\x00\x00\x00\x02{x"} {
		if err := Read(strings.NewReader(text), new(order)); err == nil {
			t.Errorf("%q", text)
		}
	}
	if len(Cut(strings.Repeat("ä", 5000))) > 4010 || string(Cut("x")) != "x" {
		t.Error("a text isn't cut")
	}
}

type closed struct{}

func (closed) Write([]byte) (int, error) { return 0, os.ErrClosed }

// TestWriter: long output is written in frames of at most MaxFrame, and a closed pipe is an error.
func TestWriter(t *testing.T) {
	var sent, out bytes.Buffer
	text := strings.Repeat("0123456789", 20_000)
	if n, err := io.WriteString(NewWriter(&sent).Stream(Out), text); n != len(text) || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	r := &reader{out: &out, left: 1 << 30, stop: func() { t.Error("stopped") }}
	if sent.WriteTo(r); out.String() != text {
		t.Errorf("%d bytes", out.Len())
	}
	if _, err := io.WriteString(NewWriter(closed{}).Stream(Out), "x"); !errors.Is(err, os.ErrClosed) {
		t.Error(err)
	}
}

// TestFrames: a guest that sends anything but frames is stopped.
func TestFrames(t *testing.T) {
	for _, text := range []string{"z\x00\x00\x00\x00", "o\xff\x00\x00\x00", "x\x00\x00\x00\x01x",
		"t\x00\x00\x00\x00o\x00\x00\x00\x01x"} {
		stopped := 0
		r := &reader{out: io.Discard, errs: io.Discard, left: 10, stop: func() { stopped++ }}
		for i := range len(text) {
			r.Write([]byte(text[i : i+1]))
		}
		r.Write([]byte("more"))
		if r.err != errFrame || stopped != 1 {
			t.Errorf("%q: %v, stopped %d times", text, r.err, stopped)
		}
	}
}

// FuzzFrames takes anything apart, in any pieces, and passes on no more than the limit.
func FuzzFrames(f *testing.F) {
	f.Add([]byte("o\x00\x00\x00\x02hix\x00\x00\x00\x04\x00\x00\x00\x01"), 3)
	f.Add([]byte("e\x00\x00\x00\x01!t\x00\x00\x00\x04trap"), 1)
	f.Add([]byte("n\x00\x01\x00\x01"), 100)
	f.Add([]byte("v\x00\x00\x00\x02{}"), 2)
	f.Fuzz(func(t *testing.T, b []byte, piece int) {
		read := func(piece int) (*reader, string) {
			var out bytes.Buffer
			r := &reader{out: &out, errs: &out, left: 20, stop: func() {}}
			for part := range slices.Chunk(b, piece) {
				r.Write(part)
			}
			return r, out.String()
		}
		one, all := read(len(b) + 1)
		other, again := read(max(1, piece))
		if len(all) > 20 || all != again || one.kind != other.kind || !bytes.Equal(one.text, other.text) ||
			one.err != other.err {
			t.Fatalf("%q and %q, %+v and %+v", all, again, one, other)
		}
	})
}

// TestPause: memory is looked at seldom while much of it is left.
func TestPause(t *testing.T) {
	for left, want := range map[int64]time.Duration{-1: soonest, 16 << 20: soonest, 224 << 20: 28 * time.Millisecond,
		math.MaxInt64: latest} {
		if got := pause(left); got != want {
			t.Errorf("%d bytes left: %s", left, got)
		}
	}
}

// TestWatchMemory: the watch reports too much memory once, and samples as often as it is asked to.
func TestWatchMemory(t *testing.T) {
	over, asked := 0, 0
	WatchMemory(func() bool { return true }, 1, func() { over++ })
	if over != 1 {
		t.Errorf("%d times", over)
	}
	WatchMemory(func() bool { asked++; return asked < 3 }, math.MaxInt64, func() { t.Error("over nothing") })
	if asked != 3 {
		t.Errorf("asked %d times", asked)
	}
}
