package audit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/cas/goldentest"
	"github.com/rye-build/rye/exec/audit/record"
	"github.com/rye-build/rye/manifest/jcs"
)

func names(rs []*Record) string {
	var out []string
	for _, r := range rs {
		out = append(out, r.Call.ID)
	}
	return strings.Join(out, " ")
}

func TestList(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "audit")
	now := noon
	clock := func(o *Options) { o.Now = func() time.Time { return now } }
	for day := range 3 {
		now = noon.AddDate(0, 0, day)
		l := newLog(t, dir, clock)
		run(t, l, fmt.Sprintf("a%d", day))
		long, err := l.Begin(t.Context(), call(fmt.Sprintf("long%d", day)))
		must(t, err)
		now = now.Add(time.Hour)
		e, err := l.Begin(t.Context(), call(fmt.Sprintf("b%d", day)))
		must(t, err)
		must(t, e.End(t.Context(), record.End{Status: record.Failed, Code: "EXECUTION_FAILED", Exit: 3,
			Duration: 2 * time.Second}))
		if day != 1 {
			must(t, long.End(t.Context(), done()))
		}
		must(t, l.Close(t.Context()))
	}
	failed := func(r *Record) bool { return r.Outcome != nil && r.Outcome.Status == record.Failed }
	for _, c := range []struct {
		name, want string
		f          Filter
	}{
		{"all", "a0 b0 long0 a1 b1 long1 a2 b2 long2", Filter{}},
		{"since", "a2 b2 long2", Filter{Since: noon.AddDate(0, 0, 2)}},
		{"since noon and a half", "b2", Filter{Since: noon.AddDate(0, 0, 2).Add(time.Minute)}},
		{"until", "a0 long0", Filter{Until: noon.Add(time.Minute)}},
		{"until noon", "", Filter{Until: noon}},
		{"match", "b0 b1 b2", Filter{Match: failed}},
		{"last", "long2 b2 a2 long1", Filter{Last: 4}},
		{"last of those", "b2 b1", Filter{Last: 2, Match: failed}},
		{"last, until", "long1 b1 a1 long0", Filter{Last: 4, Until: noon.AddDate(0, 0, 2)}},
		{"more than there are", "b2 b1 b0", Filter{Last: 10, Match: failed}},
	} {
		if got := names(list(t, dir, c.f)); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	for range 4 { // stopping anywhere
		n := 0
		for range List(t.Context(), dir, Filter{Last: n}) {
			if n++; n == 2 {
				break
			}
		}
	}
	s, err := Stats(t.Context(), dir, Filter{})
	must(t, err)
	if u := s.Items["tool:demo/hi"]; s.Calls != 9 || s.Unfinished != 1 || s.Statuses["ok"] != 5 ||
		s.Statuses["failed"] != 3 || u.Calls != 9 || u.NotOK != 3 || u.Longest != 2*time.Second ||
		u.Total != 13500*time.Millisecond {
		t.Errorf("%+v %+v", s, s.Items)
	}
	b := exported(t, dir)
	for line := range bytes.Lines(b) {
		line = bytes.TrimSuffix(line, []byte("\n"))
		if again, err := jcs.Canonical(nil, line); err != nil || !bytes.Equal(again, line) {
			t.Errorf("%s isn't canonical: %v", line, err)
		}
	}
	if n := bytes.Count(b, []byte("\n")); n != 9 {
		t.Error(n, "lines")
	}
}

// exported returns all records, each on a line.
func exported(t *testing.T, dir string) (b []byte) {
	t.Helper()
	for r, err := range List(t.Context(), dir, Filter{}) {
		must(t, err)
		b = append(r.Append(b), '\n')
	}
	return b
}

// Many calls, some of them without an end, take only the memory of those open at once.
func TestListOpen(t *testing.T) {
	dir := t.TempDir()
	l := newLog(t, dir, nil)
	var open []*Entry
	want := 0
	for i := range 500 {
		e, err := l.Begin(t.Context(), call(fmt.Sprint(i)))
		must(t, err)
		if open = append(open, e); len(open) > 10 {
			k := rand.IntN(len(open))
			must(t, open[k].End(t.Context(), done()))
			open = append(open[:k], open[k+1:]...)
			want++
		}
	}
	all := list(t, dir, Filter{})
	for i, r := range all {
		if (r.Outcome != nil) != (i < want) {
			t.Fatalf("record %d of %d: %+v", i, want, r)
		}
	}
	if len(all) != 500 {
		t.Error(len(all))
	}
}

// A bad segment doesn't hide the others.
func TestListDamage(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "audit")
	var first string
	for i := range 3 {
		l := newLog(t, dir, nil)
		run(t, l, fmt.Sprint("c", i))
		if i == 0 {
			first = segmentPath(dir, l.segment)
		}
		must(t, l.Close(t.Context()))
	}
	for _, damage := range []func(){
		func() { write(t, first, []byte("x\n")) },
		func() { must(t, os.Remove(first)) },
	} {
		damage()
		for _, f := range []Filter{{}, {Last: 5}} {
			var got []*Record
			bad := 0
			for r, err := range List(t.Context(), dir, f) {
				if err != nil {
					bad++
					continue
				}
				got = append(got, r)
			}
			if bad != 1 || len(got) != 2 {
				t.Errorf("%d bad, %s", bad, names(got))
			}
		}
	}
}

// golden compares what is written with a file of testdata.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	goldentest.File(t, filepath.Join("testdata", name), got)
}

// The journals, byte by byte. The name of a segment is random, so it is given here.
func TestGolden(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "audit")
	l := newLog(t, dir, func(o *Options) { o.Now = ticking() })
	must(t, l.create("20261120T120001Z-0123456789abcdef", noon))
	e, err := l.Begin(t.Context(), fullCall("a"))
	must(t, err)
	must(t, l.commit(t.Context(), 2))
	must(t, e.End(t.Context(), done()))
	e, err = l.Begin(t.Context(), call("b"))
	must(t, err)
	must(t, e.End(t.Context(), record.End{Status: record.Refused, Code: "POLICY_DENIED"}))
	must(t, l.Close(t.Context()))
	golden(t, "head.jsonl", read(t, headPath(dir)))
	golden(t, "segment.jsonl", read(t, segmentsOf(t, dir)[0]))
	golden(t, "export.jsonl", exported(t, dir))
	r, err := json.MarshalIndent(sound(t, dir), "", "  ")
	must(t, err)
	golden(t, "report.json", append(r, '\n'))
	for _, path := range []string{headPath(dir), segmentsOf(t, dir)[0]} {
		for line := range bytes.Lines(read(t, path)) {
			line = bytes.TrimSuffix(line, []byte("\n"))
			if again, err := jcs.Canonical(nil, line); err != nil || !bytes.Equal(again, line) {
				t.Errorf("%s isn't canonical: %v", line, err)
			}
		}
	}
}

// FuzzVerify reads any bytes as a head, or as a segment: nothing panics, and what isn't as it was written is never
// good.
func FuzzVerify(f *testing.F) {
	dir := twoSegments(f)
	head := read(f, headPath(dir))
	segments := segmentsOf(f, dir)
	segment := read(f, segments[0])
	f.Add(true, head)
	f.Add(false, segment)
	f.Add(true, head[:len(head)/2])
	f.Add(false, append(bytes.Clone(segment[:len(segment)-100]), make([]byte, 100)...))
	f.Fuzz(func(t *testing.T, isHead bool, b []byte) {
		path, good := segments[0], segment
		if isHead {
			path, good = headPath(dir), head
		}
		write(t, path, b)
		defer write(t, path, good)
		r, err := Verify(t.Context(), dir, nil)
		if err != nil && !isNewerFormat(err) {
			t.Fatal(err)
		}
		if err == nil && len(r.Problems) == 0 && !bytes.Equal(b, good) &&
			!(isHead && (bytes.HasPrefix(b, good[:len(good)-1]) || r.Torn > 0 || r.Tail > 0)) {
			t.Errorf("accepted %q", b)
		}
		for r, err := range List(t.Context(), dir, Filter{}) {
			if err == nil && r.Call.Check() != nil {
				t.Errorf("listed %+v", r)
			}
			if _, ok := errors.AsType[*record.Problem](err); err != nil && !ok && !isHead {
				t.Error(err)
			}
		}
	})
}
