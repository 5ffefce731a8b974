package transcript

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/manifest/key"
)

// verifyBytes verifies a transcript that is in memory by the user's key alone.
func verifyBytes(t testing.TB, lines, payloads []byte) *Report {
	t.Helper()
	r, err := VerifyReader(t.Context(), NewReader(bytes.NewReader(lines), bytes.NewReader(payloads)),
		Check{Keys: []key.Public{user.Public()}, Thread: thread})
	if err != nil && fault.CodeOf(err) == fault.VersionMismatch {
		return &Report{Problem: &Problem{1, Edited, err.Error()}} // the first line says so
	}
	must(t, err)
	return r
}

// TestEveryByte changes each byte of a transcript and of its payloads. The line where that is found is the changed
// one.
func TestEveryByte(t *testing.T) {
	t.Parallel()
	dir := write(t, thread, options())
	lines, payloads := read(t, dir, LinesFile), read(t, dir, PayloadsFile)
	change := []func(byte) byte{
		func(c byte) byte { return c ^ 1 }, func(c byte) byte { return c ^ 0x20 }, func(byte) byte { return 0 },
		func(byte) byte { return '\n' }, func(byte) byte { return '"' },
	}
	step := 1
	// it is one goroutine: with the race detector every seventh byte is enough, and has each change
	if testing.Short() {
		step = 7
	}
	for i := 0; i < len(lines); i += step {
		b := bytes.Clone(lines)
		if b[i] = change[i%len(change)](b[i]); b[i] == lines[i] {
			b[i] ^= 0x80
		}
		line := int64(bytes.Count(lines[:i], []byte("\n"))) + 1
		p := verifyBytes(t, b, payloads).Problem
		if p == nil || p.Line != line || p.Kind == "" {
			t.Fatalf("byte %d of line %d: %v\n%q", i, line, p, b[max(0, i-60):min(len(b), i+60)])
		}
	}
	for i := 0; i < len(payloads); i += step {
		b := bytes.Clone(payloads)
		b[i] ^= 1
		if p := verifyBytes(t, lines, b).Problem; p == nil || p.Line != 9 || p.Kind != BadPayload {
			t.Fatalf("byte %d of the payloads: %v", i, p)
		}
	}
	for i := 0; i < len(payloads); i += 7 * step {
		if p := verifyBytes(t, lines, payloads[:i]).Problem; p == nil || p.Line != 9 || p.Kind != BadPayload {
			t.Fatalf("payloads cut at %d: %v", i, p)
		}
	}
	if p := verifyBytes(t, lines, append(bytes.Clone(payloads), 'x')).Problem; p == nil || p.Line != 17 ||
		p.Kind != Edited {
		t.Errorf("surplus payloads: %v", p)
	}
	for i := 0; i < len(lines); i += 3 * step {
		if p := verifyBytes(t, lines[:i], payloads).Problem; p == nil {
			t.Fatalf("cut at %d", i)
		}
	}
}

// TestEveryLine takes each line away, doubles it, swaps it with every other, puts it elsewhere, and takes that of
// another thread.
func TestEveryLine(t *testing.T) {
	t.Parallel()
	dir := write(t, thread, options())
	payloads := read(t, dir, PayloadsFile)
	lines := strings.SplitAfter(strings.TrimSuffix(string(read(t, dir, LinesFile)), "\n"), "\n")
	lines[len(lines)-1] += "\n"
	other := options()
	stranger := strings.SplitAfter(string(read(t, write(t, "acme/other-1795000000-a2b3c", other), LinesFile)), "\n")
	expect := func(what string, b []string, line int, kinds ...string) {
		t.Helper()
		p := verifyBytes(t, []byte(strings.Join(b, "")), payloads).Problem
		if p == nil || p.Line != int64(line) || !strings.Contains(strings.Join(kinds, " "), p.Kind) {
			t.Errorf("%s: %v, want line %d, one of %v", what, p, line, kinds)
		}
	}
	join := func(parts ...[]string) (all []string) {
		for _, p := range parts {
			all = append(all, p...)
		}
		return all
	}
	n := len(lines)
	for i := range n {
		kind := Missing
		if i == n-1 {
			kind = Unfinished
		}
		if i == 0 {
			kind = Missing
		}
		expect(fmt.Sprintf("without line %d", i+1), join(lines[:i], lines[i+1:]), i+1, kind)
		expect(fmt.Sprintf("line %d twice", i+1), join(lines[:i+1], lines[i:]), i+2, Reordered)
		expect(fmt.Sprintf("line %d of another thread", i+1), join(lines[:i], stranger[i:i+1], lines[i+1:]), i+1,
			Swapped)
		expect(fmt.Sprintf("cut behind line %d", i), lines[:i], i+1, Unsigned, Unfinished)
		for j := i + 1; j < n; j++ {
			b := join(lines)
			b[i], b[j] = b[j], b[i]
			expect(fmt.Sprintf("lines %d and %d swapped", i+1, j+1), b, i+1, Missing)
			expect(fmt.Sprintf("line %d behind %d", i+1, j+1), join(lines[:i], lines[i+1:j+1], lines[i:i+1],
				lines[j+1:]), i+1, Missing)
		}
		expect(fmt.Sprintf("line %d at the end", i+1), join(lines, lines[i:i+1]), n+1, Reordered)
	}
	expect("all of another thread", stranger, 1, Swapped)
	expect("nothing", nil, 1, Unsigned)
}

// forge rewrites the lines of a transcript from one on, with what another function makes of the events, and
// recomputes every prev, as a forger does who lacks the key. The lines of nil events are left out.
func forge(t testing.TB, lines []byte, change func(*Event) *Event) []byte {
	t.Helper()
	var out []byte
	var last Position
	for _, b := range bytes.Split(bytes.TrimSuffix(lines, []byte("\n")), []byte("\n")) {
		e, err := parseLine(b)
		must(t, err)
		if e = change(e); e == nil {
			continue
		}
		e.Seq, e.Prev = last.Seq+1, last.Digest
		b = e.appendLine(nil)
		last = Position{e.Seq, cas.Sum(b)}
		out = append(append(out, b...), '\n')
	}
	return out
}

func TestForged(t *testing.T) {
	dir := write(t, thread, options())
	lines, payloads := read(t, dir, LinesFile), read(t, dir, PayloadsFile)
	set := func(e *Event, p Payload) *Event {
		n, err := encode(p)
		must(t, err)
		e.Payload, e.value = n.Payload, n.value
		return e
	}
	for _, c := range []struct {
		name   string
		line   int64
		kind   string
		change func(*Event) *Event
	}{
		{"nothing", 0, "", func(e *Event) *Event { return e }},
		{"the first answer", 11, Forged, func(e *Event) *Event {
			if e.Seq == 7 {
				e = set(e, Answer{Turn: 1, Attempt: 2, Text: "Nothing to do."})
			}
			return e
		}},
		{"the directive", 11, Forged, func(e *Event) *Event {
			if e.Seq == 1 {
				s := started()
				s.Format, s.Directive.Digest = Format, sum("another")
				e = set(e, s)
			}
			return e
		}},
		{"the outputs", 16, Forged, func(e *Event) *Event {
			if e.Seq == 15 {
				e = set(e, Completed{Result: "Deployed elsewhere."})
			}
			return e
		}},
		{"a call left out", 9, Forged, func(e *Event) *Event {
			if e.Type == TypeCallStarted || e.Type == TypeCallResult {
				return nil
			}
			return e
		}},
		{"no checkpoints", 15, Unsigned, func(e *Event) *Event {
			if e.Type == TypeCheckpoint {
				return nil
			}
			return e
		}},
		{"the last one gone", 16, Unfinished, func(e *Event) *Event {
			if e.Seq == 16 {
				return nil
			}
			return e
		}},
		{"the first one gone", 15, Forged, func(e *Event) *Event {
			if e.Seq == 11 {
				return nil
			}
			return e
		}},
		{"another time", 11, Forged, func(e *Event) *Event {
			e.Time = e.Time.Add(1e9)
			return e
		}},
	} {
		p := verifyBytes(t, forge(t, lines, c.change), payloads).Problem
		if c.line == 0 && p != nil || c.line > 0 && (p == nil || p.Line != c.line || p.Kind != c.kind) {
			t.Errorf("%s: %v, want line %d: %s", c.name, p, c.line, c.kind)
		}
	}
	// Signed by Eve's machine, with her word for it or the user's for the other one.
	for name, voucher := range map[string][]byte{"none": nil, "of the other machine": voucherOf(t, own)} {
		o := options()
		o.Key = eve
		b := forge(t, lines, func(e *Event) *Event {
			switch e.Type {
			case TypeDriver:
				d := driver(1, voucher)
				d.Key = eve.Public()
				return set(e, d)
			}
			return e
		})
		b = resigned(t, b, eve)
		if p := verifyBytes(t, b, payloads).Problem; p == nil || p.Line != 11 || p.Kind != Untrusted {
			t.Errorf("signed by a stranger, voucher %s: %v", name, p)
		}
	}
	// Signed by a stranger under the key of the machine.
	if p := verifyBytes(t, resigned(t, lines, eve), payloads).Problem; p == nil || p.Line != 11 || p.Kind != Forged {
		t.Error(p)
	}
}

// resigned signs the checkpoints anew.
func resigned(t testing.TB, lines []byte, k key.Private) []byte {
	t.Helper()
	var last Position
	var out []byte
	for _, b := range bytes.Split(bytes.TrimSuffix(lines, []byte("\n")), []byte("\n")) {
		e, err := parseLine(b)
		must(t, err)
		e.Prev = last.Digest
		if e.Type == TypeCheckpoint {
			must(t, e.sign(k, noon))
		}
		b = e.appendLine(nil)
		last = Position{e.Seq, cas.Sum(b)}
		out = append(append(out, b...), '\n')
	}
	return out
}

func TestSeen(t *testing.T) {
	dir := write(t, thread, options())
	c := Check{Keys: []key.Public{own.Public()}}
	at := verify(t, dir, c).Last
	for _, seen := range []struct {
		at   Position
		kind string
	}{{at, ""}, {Position{at.Seq, sum("x")}, Replaced}, {Position{3, sum("x")}, Replaced}, {Position{at.Seq + 1,
		sum("x")}, Replaced}} {
		c.Seen = []Position{at, seen.at}
		p := verify(t, dir, c).Problem
		if seen.kind == "" && p != nil || seen.kind != "" && (p == nil || p.Kind != seen.kind ||
			p.Line != seen.at.Seq) {
			t.Errorf("%v: %v", seen.at, p)
		}
	}
	// Cut at its first checkpoint, a transcript is one that isn't finished, unless its end was seen.
	lines := bytes.SplitAfter(read(t, dir, LinesFile), []byte("\n"))
	must(t, os.WriteFile(filepath.Join(dir, LinesFile), bytes.Join(lines[:11], nil), 0o600))
	r := verify(t, dir, Check{Keys: c.Keys, Unfinished: true})
	if r.Problem != nil || r.Status != StatusUnfinished || r.Unsigned != 0 || r.Turns != 1 || r.End != nil {
		t.Errorf("%+v", r)
	}
	if p := verify(t, dir, Check{Keys: c.Keys, Unfinished: true, Seen: []Position{at}}).Problem; p == nil ||
		p.Kind != Replaced || p.Line != 12 {
		t.Error(p)
	}
	if r := verify(t, dir, Check{Unfinished: true}); r.Problem == nil || r.Problem.Kind != Untrusted {
		t.Error(r.Problem)
	}
}
