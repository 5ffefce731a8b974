package audit

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/exec/audit/receipt"
	"github.com/rye-build/rye/exec/audit/record"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/key/keytest"
	"github.com/rye-build/rye/manifest/sign"
)

// twoSegments makes a log of two closed segments with two calls each.
func twoSegments(t testing.TB) string {
	dir := filepath.Join(t.TempDir(), "audit")
	for i := range 2 {
		l := newLog(t, dir, func(o *Options) { o.Now = ticking() })
		run(t, l, fmt.Sprintf("a%d", i), fmt.Sprintf("b%d", i))
		must(t, l.Close(t.Context()))
	}
	return dir
}

func lines(b []byte) [][]byte { return slices.Collect(bytes.Lines(b)) }

// problemOf returns the problem of a file, or nil.
func problemOf(r *Report, file string) *record.Problem {
	for _, p := range r.Problems {
		if p.File == file {
			return p
		}
	}
	return nil
}

// Each byte of the journals, changed, is found in its line.
func TestEveryByte(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "audit")
	l := newLog(t, dir, nil)
	run(t, l, "a")
	must(t, l.Close(t.Context()))
	segment := segmentsOf(t, dir)[0]
	for _, path := range []string{headPath(dir), segment} {
		file := headName
		if path == segment {
			file = strings.TrimSuffix(filepath.Base(segment), ".jsonl")
		}
		good := read(t, path)
		for i := 0; i < len(good); i += sampled(7) {
			line := int64(bytes.Count(good[:i], []byte("\n"))) + 1
			b := bytes.Clone(good)
			b[i] ^= 1 << (i % 7)
			write(t, path, b)
			r := verify(t, dir)
			p := problemOf(r, file)
			if p == nil || p.Line != line {
				t.Errorf("%s, byte %d of line %d: %v", file, i, line, p)
			}
		}
		// A process that dies can leave a last line without its LF. In the head that line is lost, but no caller was
		// told that it was written.
		write(t, path, good[:len(good)-1])
		r := verify(t, dir)
		if p := problemOf(r, file); path == segment && (p == nil || p.Line != 3) || path != segment &&
			(p != nil || r.Torn != 1 || r.Tail != 2) {
			t.Errorf("%s without its last LF: %+v", file, r)
		}
		write(t, path, good)
	}
	sound(t, dir)
}

// Lines that are taken away, doubled, put elsewhere or added are found where that begins.
func TestLinesChanged(t *testing.T) {
	dir := twoSegments(t)
	segments := segmentsOf(t, dir)
	for _, path := range append([]string{headPath(dir)}, segments...) {
		file := headName
		if path != headPath(dir) {
			file = strings.TrimSuffix(filepath.Base(path), ".jsonl")
		}
		good := read(t, path)
		all := lines(good)
		try := func(what string, at int, changed [][]byte) {
			t.Helper()
			write(t, path, bytes.Join(changed, nil))
			p := problemOf(verify(t, dir), file)
			if p == nil || p.Line != int64(at) {
				t.Errorf("%s: %s at %d: %v", file, what, at, p)
			}
		}
		for i := range all {
			if i < len(all)-1 || path != headPath(dir) {
				try("without a line", i+1, slices.Delete(slices.Clone(all), i, i+1))
			}
			try("with a line twice", i+2, slices.Insert(slices.Clone(all), i, all[i]))
			if i > 0 {
				changed := slices.Clone(all)
				changed[i-1], changed[i] = changed[i], changed[i-1]
				try("with lines swapped", i, changed)
			}
		}
		try("with a stranger's line", len(all)+1, append(slices.Clone(all), []byte("{}\n")))
		write(t, path, good)
	}
	// A segment that is gone, and one in place of another.
	good := read(t, segments[0])
	must(t, os.Remove(segments[0]))
	r := verify(t, dir)
	if len(r.Problems) != 1 || r.Problems[0].Line != 1 || r.Problems[0].Reason != "the segment is missing" {
		t.Errorf("%v", r.Problems)
	}
	write(t, segments[0], read(t, segments[1]))
	r = verify(t, dir)
	if len(r.Problems) != 1 || r.Problems[0].Line != 1 ||
		r.Problems[0].Reason != "not the segment recorded in the head" {
		t.Errorf("%v", r.Problems)
	}
	write(t, segments[0], good)
	// Files that are none of ours, a segment that isn't in the head, and what a process left that died before it
	// opened one.
	name := "20261120T120000Z-0123456789abcdef"
	write(t, filepath.Join(dir, "segments", "note.txt"), []byte("x"))
	write(t, filepath.Join(filepath.Dir(segments[0]), "note.txt"), []byte("x"))
	write(t, segmentPath(dir, name), lines(good)[0])
	sound(t, dir)
	write(t, segmentPath(dir, name), good)
	if p := problemOf(verify(t, dir), name); p == nil || p.Reason != "the head has no record of this segment" {
		t.Error(p)
	}
}

// A segment that is opened, and goes on, after the head was read isn't one that the head doesn't know.
func TestOpenedMeanwhile(t *testing.T) {
	dir := t.TempDir()
	run(t, newLog(t, dir, nil), "a")
	v := &verifier{ctx: t.Context(), dir: dir, machines: map[key.Fingerprint]*Machine{}}
	x, err := v.head()
	must(t, err)
	run(t, newLog(t, dir, nil), "b")
	files, err := segmentFiles(dir)
	must(t, err)
	must(t, v.segments(x, files))
	if len(files) != 2 || len(v.report.Problems) > 0 {
		t.Errorf("of %q: %v", files, v.report.Problems)
	}
}

// The end of the head, cut off with everything after it, is found by who remembers a later position.
func TestSeen(t *testing.T) {
	dir := twoSegments(t)
	r := sound(t, dir)
	receipt := list(t, dir, Filter{})[3].Position
	if r := verify(t, dir, r.Head, receipt, record.Position{Line: 1,
		Sum: lineSum(t, lines(read(t, headPath(dir)))[0])}); len(r.Problems) > 0 {
		t.Errorf("%v", r.Problems)
	}
	fork := twoSegments(t) // the same but for random names
	other := sound(t, fork).Head
	for _, c := range []struct {
		name, want string
		seen       record.Position
	}{
		{"another line", "head, line 6: replaced: this line was " + other.Sum.Short() + " before", other},
		{"a later line", "head, line 7: line 9 existed before", record.Position{Line: 9}},
		{"no line", "head, line 0: replaced: this line was 000000000000 before", record.Position{}},
		{"another segment",
			"20261120T120000Z-0123456789abcdef, line 1: this segment existed before, but the head has no record of it",
			record.Position{Segment: "20261120T120000Z-0123456789abcdef", Line: 1}},
		{"another call", receipt.Segment + ", line 2: replaced: this line was " + receipt.Sum.Short() + " before",
			record.Position{Segment: receipt.Segment, Line: 2, Sum: receipt.Sum}},
		{"a later call", receipt.Segment + ", line 6: lines are missing: line 8 existed before",
			record.Position{Segment: receipt.Segment, Line: 8, Sum: receipt.Sum}},
	} {
		if r := verify(t, dir, c.seen); len(r.Problems) != 1 || r.Problems[0].Error() != c.want {
			t.Errorf("%s: %v", c.name, r.Problems)
		}
	}
	head := read(t, headPath(dir))
	write(t, headPath(dir), bytes.Join(lines(head)[:4], nil))
	must(t, os.Remove(segmentPath(dir, receipt.Segment)))
	if r := verify(t, dir); len(r.Problems) != 0 {
		t.Errorf("the end isn't promised: %v", r.Problems)
	}
	if r := verify(t, dir, r.Head); len(r.Problems) != 1 ||
		r.Problems[0].Error() != "head, line 5: line 6 existed before" {
		t.Errorf("%v", r.Problems)
	}
}

func lineSum(t testing.TB, b []byte) cas.Digest {
	var l record.Line
	if !l.Scan(bytes.TrimSuffix(b, []byte("\n"))) {
		t.Fatalf("%s", b)
	}
	return l.Sum
}

// rechain writes lines anew after edit has changed some, with sums that fit.
func rechain(t testing.TB, path string, edit func(i int, l *record.Line)) {
	t.Helper()
	var out []byte
	var prev cas.Digest
	for i, b := range lines(read(t, path)) {
		var l record.Line
		if !l.Scan(bytes.TrimSuffix(b, []byte("\n"))) {
			t.Fatalf("%s", b)
		}
		l.Body = bytes.Clone(l.Body)
		l.Prev = prev
		edit(i, &l)
		out = l.Append(out)
		prev = l.Sum
	}
	write(t, path, out)
}

// edited returns a journal whose line i was changed and given a sum that fits, while the lines after it stayed.
func edited(t testing.TB, b []byte, i int) []byte {
	t.Helper()
	var out []byte
	for j, b := range lines(b) {
		var l record.Line
		if !l.Scan(bytes.TrimSuffix(bytes.Clone(b), []byte("\n"))) {
			t.Fatalf("%s", b)
		}
		if j == i {
			l.At = l.At.Add(time.Millisecond)
			b = l.Append(nil)
		}
		out = append(out, b...)
	}
	return out
}

// TestBrokenChain: a line that was rewritten with its own sum, and a journal continued with the lines of another one,
// are found before, between and after checkpoints, in the head and in segments.
func TestBrokenChain(t *testing.T) {
	logs := make([]string, 2)
	for i := range logs {
		logs[i] = filepath.Join(t.TempDir(), "audit")
		clock := ticking()
		if i > 0 {
			clock()
		}
		l := newLog(t, logs[i], func(o *Options) { o.Now = clock })
		for _, id := range []string{"a", "b"} {
			run(t, l, id)
			must(t, l.Checkpoint(t.Context()))
		}
		run(t, l, "c", "d")
	}
	dir, other := logs[0], logs[1]
	for file, another := range map[string]string{headPath(dir): headPath(other),
		segmentsOf(t, dir)[0]: segmentsOf(t, other)[0]} {
		good, foreign := read(t, file), lines(read(t, another))
		n := len(lines(good))
		if n != len(foreign) {
			t.Fatal(n, len(foreign))
		}
		for i := range n - 1 {
			write(t, file, edited(t, good, i))
			if r := verify(t, dir); len(r.Problems) == 0 {
				t.Errorf("%s: line %d rewritten", filepath.Base(file), i+1)
			}
			write(t, file, slices.Concat(slices.Concat(lines(good)[:i+1]...), slices.Concat(foreign[i+1:]...)))
			if r := verify(t, dir); len(r.Problems) == 0 {
				t.Errorf("%s: spliced after line %d", filepath.Base(file), i+1)
			}
		}
		write(t, file, good)
	}
	sound(t, dir)
}

// TestMissedMark: a line that the head records and that the numbers of a segment jump over is missing.
func TestMissedMark(t *testing.T) {
	n := counts{open: map[string]bool{}}
	marks := []mark{{lines: 3}}
	err := n.take(&record.Line{N: 5, Kind: kindBegin, Call: "a"}, &segmentState{name: "s", lines: 3}, &marks)
	if err == nil || err.Error() != "s, line 5: line 3, recorded in the head, is missing before it" {
		t.Error(err)
	}
}

// Who can write the journals and make all sums fit, and lacks the machine's key, is found.
func TestForged(t *testing.T) {
	thief := keytest.Named("thief")
	thiefsVoucher, err := receipt.Vouch(thief.Public(), "build-7", thief, noon)
	must(t, err)
	resign := func(p key.Private, l *record.Line) {
		var m markBody
		must(t, decode(l.Body, &m))
		m.Sig = ""
		l.Body = encode(&m)
		s, err := sign.New(cas.Sum(l.AppendOpen(nil)), claimOf(m.Segment), p, noon)
		must(t, err)
		m.Sig = s.String()
		l.Body = encode(&m)
	}
	for _, c := range []struct {
		name, want string
		edit       func(l *record.Line)
	}{
		{"the voucher taken away", "head, line 4: invalid checkpoint signature", func(l *record.Line) {
			if l.Kind == kindMachine {
				l.Body = encode(&machineBody{machineKey.Public(), nil})
			}
		}},
		{"another machine", "head, line 4: checkpoint signed by an unknown machine key", func(l *record.Line) {
			if l.Kind == kindMachine {
				l.Body = encode(&machineBody{thief.Public(), thiefsVoucher})
			}
		}},
		{"another machine signs", "head, line 4: checkpoint signed by machine " + thief.Public().Fingerprint().
			Short() + ", which none of the keys vouches for", func(l *record.Line) {
			switch l.Kind {
			case kindMachine:
				l.Body = encode(&machineBody{thief.Public(), thiefsVoucher})
			case kindCheckpoint:
				resign(thief, l)
			}
		}},
		{"another machine signs, with the true one's voucher",
			"head, line 4: checkpoint signed by machine " + thief.Public().Fingerprint().Short() +
				", which none of the keys vouches for", func(l *record.Line) {
				switch l.Kind {
				case kindMachine:
					l.Body = encode(&machineBody{thief.Public(), testVoucher()})
				case kindCheckpoint:
					resign(thief, l)
				}
			}},
		{"a checkpoint made a mark", "head, line 4: invalid line format", func(l *record.Line) {
			if l.Kind == kindCheckpoint {
				l.Kind = kindMark
			}
		}},
		{"an unsigned checkpoint", "head, line 4: invalid line format", func(l *record.Line) {
			if l.Kind == kindCheckpoint {
				var m markBody
				must(t, decode(l.Body, &m))
				m.Sig = ""
				l.Body = encode(&m)
			}
		}},
		{"a bad signature line", "head, line 4: " + sign.ErrLine.Error(), func(l *record.Line) {
			if l.Kind == kindCheckpoint {
				var m markBody
				must(t, decode(l.Body, &m))
				m.Sig = "rye"
				l.Body = encode(&m)
			}
		}},
		{"another time", "head, line 4: invalid checkpoint signature", func(l *record.Line) {
			l.At = l.At.AddDate(0, 0, 1)
		}},
		{"another kind", `head, line 2: unexpected line of kind "note"`, func(l *record.Line) {
			if l.Kind == kindMachine {
				l.Kind = "note"
			}
		}},
		{"more in a body", `head, line 3: invalid line format`, func(l *record.Line) {
			if l.Kind == kindOpen {
				l.Body = append([]byte(`{"a":1,`), l.Body[1:]...)
			}
		}},
		{"no body", `head, line 3: invalid line format`, func(l *record.Line) {
			if l.Kind == kindOpen {
				l.Body = []byte(`{]}`)
			}
		}},
		{"a segment elsewhere", `head, line 3: "../../../../../../../etc/passwd-12" is not a segment name`,
			func(l *record.Line) {
				if l.Kind == kindOpen {
					l.Body = encode(&openBody{cas.Digest{}, "../../../../../../../etc/passwd-12"})
				}
			}},
		{"a first line of another kind", `head, line 1: the first line must be of kind "head"`, func(l *record.Line) {
			if l.Kind == kindHead {
				l.Kind = kindMachine
			}
		}},
	} {
		dir := filepath.Join(t.TempDir(), "audit")
		l := newLog(t, dir, nil)
		run(t, l, "a", "b")
		must(t, l.Close(t.Context()))
		rechain(t, headPath(dir), func(_ int, l *record.Line) { c.edit(l) })
		if p := problemOf(verify(t, dir), headName); p == nil || p.Error() != c.want {
			t.Errorf("%s: %v", c.name, p)
		}
	}
}

// Marks that contradict each other, and segments that contradict them.
func TestContradictions(t *testing.T) {
	for _, c := range []struct {
		name, want string
		edit       func(i int, l *record.Line, m *markBody)
	}{
		{"goes back", "head, line 5: segment S goes back to line 2", func(i int, l *record.Line, m *markBody) {
			if i == 4 {
				m.Lines = 2
			}
		}},
		{"another line", "head, line 5: segment S goes back to line 3", func(i int, l *record.Line, m *markBody) {
			if i == 4 {
				m.Lines = 3
			}
		}},
		{"of no segment", "head, line 4: segment 20261120T120000Z-0123456789abcdef was not opened",
			func(i int, l *record.Line, m *markBody) {
				if i == 3 {
					m.Segment = "20261120T120000Z-0123456789abcdef"
				}
			}},
		{"of no lines", "head, line 4: invalid line count 0", func(i int, l *record.Line, m *markBody) {
			if i == 3 {
				m.Lines = 0
			}
		}},
		{"another sum", "S, line 3: differs from the line recorded in the head",
			func(i int, l *record.Line, m *markBody) {
				if i == 3 {
					m.Last[0]++
				}
			}},
		{"another last sum", "S, line 5: differs from the line recorded in the head",
			func(i int, l *record.Line, m *markBody) {
				if i >= 4 {
					m.Last[31]++
				}
			}},
		{"more lines", "S, line 6: lines are missing: line 5 of the head records 7",
			func(i int, l *record.Line, m *markBody) {
				if i == 4 {
					m.Lines = 7
				}
			}},
	} {
		dir := filepath.Join(t.TempDir(), "audit")
		l := newLog(t, dir, nil)
		run(t, l, "a")
		must(t, l.commit(t.Context(), 3))
		run(t, l, "b")
		must(t, l.commit(t.Context(), 5))
		rechain(t, headPath(dir), func(i int, l *record.Line) {
			if l.Kind == kindMark {
				var m markBody
				must(t, decode(l.Body, &m))
				c.edit(i, l, &m)
				l.Body = encode(&m)
			}
		})
		r := verify(t, dir)
		if len(r.Problems) == 0 || strings.ReplaceAll(r.Problems[len(r.Problems)-1].Error(), l.segment,
			"S") != c.want && strings.ReplaceAll(r.Problems[0].Error(), l.segment, "S") != c.want {
			t.Errorf("%s: %v", c.name, r.Problems)
		}
	}
}

// A segment whose lines follow each other and make no sense.
func TestSegmentSense(t *testing.T) {
	for _, c := range []struct {
		name, want string
		edit       func(i int, l *record.Line)
	}{
		{"twice", `line 3: call "a" begins twice`, func(i int, l *record.Line) {
			if i == 2 {
				l.Kind = kindBegin
			}
		}},
		{"no begin", `line 2: call "a" ends without having begun`, func(i int, l *record.Line) {
			if i == 1 {
				l.Kind = kindEnd
			}
		}},
		{"another kind", `line 2: unexpected line of kind "note"`, func(i int, l *record.Line) {
			if i == 1 {
				l.Kind = "note"
			}
		}},
	} {
		dir := filepath.Join(t.TempDir(), "audit")
		l := newLog(t, dir, nil)
		run(t, l, "a")
		rechain(t, segmentsOf(t, dir)[0], c.edit)
		r := verify(t, dir)
		if len(r.Problems) != 1 || r.Problems[0].Error() != l.segment+", "+c.want {
			t.Errorf("%s: %v", c.name, r.Problems)
		}
		var found error
		for _, err := range List(t.Context(), dir, Filter{}) {
			found = errors.Join(found, err)
		}
		if found == nil {
			t.Errorf("%s: listed", c.name)
		}
	}
	// What a call says is read by who lists it.
	dir := filepath.Join(t.TempDir(), "audit")
	l := newLog(t, dir, nil)
	run(t, l, "a")
	rechain(t, segmentsOf(t, dir)[0], func(i int, l *record.Line) {
		if i == 1 {
			l.Body = []byte(`{"ref":"tool:demo/hi"}`)
		}
	})
	for _, err := range List(t.Context(), dir, Filter{}) {
		if want := l.segment + ", line 2: audit: digest is missing"; err == nil || err.Error() != want {
			t.Error(err)
		}
	}
	if _, err := Stats(t.Context(), dir, Filter{}); err == nil {
		t.Error("counted")
	}
}
