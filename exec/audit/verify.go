package audit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/exec/audit/journal"
	"github.com/rye-build/rye/exec/audit/machine"
	"github.com/rye-build/rye/exec/audit/record"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/sign"
)

// A Report is what Verify found.
type Report struct {
	Segments    int64              `json:"segments"`
	Lines       int64              `json:"lines"` // of segments
	Calls       int64              `json:"calls"`
	Unfinished  int64              `json:"unfinished"`  // calls without an end: they run, or their process died
	Checkpoints int64              `json:"checkpoints"` // all of them hold, unless there is a problem
	Tail        int64              `json:"tail"`        // lines of which the head doesn't know: taking them away would not be found
	Torn        int64              `json:"torn"`        // journals that end in the middle of a line
	Head        record.Position    `json:"head"`        // to be remembered elsewhere, and given to Verify another time
	Machines    []Machine          `json:"machines"`
	Problems    []*journal.Problem `json:"problems"` // at most one for each file, sorted
}

// A Machine is a key that signed checkpoints.
type Machine struct {
	Key         key.Public `json:"key"`
	By          key.Public `json:"by"` // the key, of those that count, that vouches for it, else itself if it is one of them; zero for none
	Checkpoints int64      `json:"checkpoints"`
	first       int64      // the line of its first checkpoint
	vouchers    [][]byte
}

// maxProblems bounds what a report says. Behind so many nobody looks any more.
const maxProblems = 1000

// Verify reads the journals of a directory. Each checkpoint must be signed by a machine that one of the keys vouches for, or
// that is one of them; without keys it is only said that the journals agree with each other. Each position is one
// that was seen once, such as that in a receipt or in the report of an earlier Verify: the line must still be there.
// Calls may begin and end meanwhile.
//
// What is wrong with the journals is in the report; the error is for what can't be read, and a *VersionError.
func Verify(ctx context.Context, dir string, keys []key.Public, seen ...record.Position) (*Report, error) {
	v := &verifier{ctx: ctx, dir: dir, keys: keys, seen: map[string][]record.Position{}, machines: map[key.Fingerprint]*Machine{}}
	v.report.Machines, v.report.Problems = []Machine{}, []*journal.Problem{}
	for _, p := range seen {
		v.seen[p.Segment] = append(v.seen[p.Segment], p)
	}
	for _, list := range v.seen {
		slices.SortFunc(list, func(a, b record.Position) int { return int(a.Line - b.Line) })
	}
	// Whoever opens a segment makes the file first: of what is in the folder now, the head knows when there is more in it.
	files, err := segmentFiles(dir)
	if err != nil {
		return nil, err
	}
	x, err := v.head()
	if err != nil {
		return nil, err
	}
	if err := v.segments(x, files); err != nil {
		return nil, err
	}
	slices.SortFunc(v.report.Problems, func(a, b *journal.Problem) int { return strings.Compare(a.File, b.File) })
	return &v.report, nil
}

type verifier struct {
	ctx      context.Context
	dir      string
	keys     []key.Public
	seen     map[string][]record.Position
	machines map[key.Fingerprint]*Machine
	order    []*Machine
	jobs     chan signature

	mu      sync.Mutex
	badSig  int64 // the first line of the head with a bad signature
	report  Report
	headBad bool
}

// found adds a problem.
func (v *verifier) found(p *journal.Problem) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.report.Problems) < maxProblems {
		v.report.Problems = append(v.report.Problems, p)
	}
}

// head verifies the head.
func (v *verifier) head() (*index, error) {
	v.jobs = make(chan signature, 64)
	var workers sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), 8) {
		workers.Go(v.signatures)
	}
	seen := v.seen[""]
	var lost *journal.Problem
	x, err := readHead(v.dir, v, func(l *journal.Line) error {
		if lost == nil {
			lost = compare(&seen, l, headName)
		}
		return v.ctx.Err()
	})
	close(v.jobs)
	workers.Wait()
	problem, bad := errors.AsType[*journal.Problem](err)
	switch {
	case bad:
	case err != nil:
		return nil, err
	}
	if problem == nil && len(seen) > 0 && lost == nil {
		lost = &journal.Problem{File: headName, Line: x.last.N + 1, Reason: fmt.Sprintf("line %d existed before", seen[0].Line)}
	}
	first := []*journal.Problem{problem, lost}
	if v.badSig > 0 {
		first = append(first, &journal.Problem{File: headName, Line: v.badSig, Reason: "invalid checkpoint signature"})
	}
	first = append(first, v.unknown())
	var worst *journal.Problem
	for _, p := range first {
		if p != nil && (worst == nil || p.Line < worst.Line) {
			worst = p
		}
	}
	if worst != nil {
		v.headBad = true
		v.found(worst)
	}
	v.report.Head = record.Position{Line: x.last.N, Sum: x.last.Sum}
	if x.torn {
		v.report.Torn++
	}
	return x, nil
}

// compare looks at a line that should be one that was seen.
func compare(seen *[]record.Position, l *journal.Line, file string) *journal.Problem {
	for ; len(*seen) > 0 && (*seen)[0].Line <= l.N; *seen = (*seen)[1:] {
		if p := (*seen)[0]; p.Line < l.N || p.Sum != l.Sum {
			return &journal.Problem{File: file, Line: p.Line, Reason: fmt.Sprintf("replaced: this line was %s before", p.Sum.Short())}
		}
	}
	return nil
}

func (v *verifier) machine(_ *journal.Line, m *machineBody) error {
	f := m.Key.Fingerprint()
	k := v.machines[f]
	if k == nil {
		k = &Machine{Key: m.Key}
		v.machines[f] = k
		v.order = append(v.order, k)
	}
	// The same word is repeated often, and few different ones are ever given.
	if m.Voucher != nil && len(k.vouchers) < 16 && !slices.ContainsFunc(k.vouchers, func(b []byte) bool { return slices.Equal(b, m.Voucher) }) {
		k.vouchers = append(k.vouchers, slices.Clone(m.Voucher))
	}
	return nil
}

// A signature is one to be checked.
type signature struct {
	at      int64 // line of the head
	line    sign.Line
	content cas.Digest
	claim   sign.Claim
	key     key.Public
}

func (v *verifier) checkpoint(l *journal.Line, m *markBody) error {
	s, err := sign.ParseLine(m.Sig)
	if err != nil {
		return err
	}
	k := v.machines[s.Key]
	if k == nil {
		return errors.New("checkpoint signed by an unknown machine key")
	}
	if k.Checkpoints++; k.first == 0 {
		k.first = l.N
	}
	v.report.Checkpoints++
	open, body := *l, *m
	body.Sig = ""
	open.Body = encode(&body)
	v.jobs <- signature{l.N, s, cas.Sum(open.AppendOpen(nil)), claimOf(m.Segment), k.Key}
	return nil
}

// signatures checks those that come.
func (v *verifier) signatures() {
	for s := range v.jobs {
		if s.line.Digest == s.content && s.line.Tree.IsZero() && s.claim.Holds(s.line, s.key) {
			continue
		}
		v.mu.Lock()
		if v.badSig == 0 || s.at < v.badSig {
			v.badSig = s.at
		}
		v.mu.Unlock()
	}
}

// unknown looks who vouches for the machines, and returns the first checkpoint of one for which nobody does.
func (v *verifier) unknown() *journal.Problem {
	var first *journal.Problem
	for _, k := range v.order {
		for _, b := range k.vouchers {
			if by, err := machine.Check(b, k.Key, v.keys); err == nil && k.By.IsZero() {
				k.By = by
			}
		}
		if k.By.IsZero() && slices.Contains(v.keys, k.Key) {
			k.By = k.Key
		}
		if k.Checkpoints == 0 {
			continue
		}
		v.report.Machines = append(v.report.Machines, *k)
		if len(v.keys) > 0 && k.By.IsZero() && (first == nil || k.first < first.Line) {
			reason := fmt.Sprintf("checkpoint signed by machine %s, which none of the keys vouches for", k.Key.Fingerprint().Short())
			first = &journal.Problem{File: headName, Line: k.first, Reason: reason}
		}
	}
	return first
}

// segments verifies all segments that the head knows, and looks for others.
func (v *verifier) segments(x *index, files []string) error {
	v.report.Segments = int64(len(x.segments))
	if !v.headBad {
		if err := v.strangers(x, files); err != nil {
			return err
		}
		for _, name := range slices.Sorted(maps.Keys(v.seen)) {
			if name != "" && x.byName[name] == nil {
				v.found(&journal.Problem{File: name, Line: 1, Reason: "this segment existed before, but the head has no record of it"})
			}
		}
	}
	jobs := make(chan *segmentState)
	ctx, stop := context.WithCancelCause(v.ctx)
	defer stop(nil)
	var workers sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), 8) {
		workers.Go(func() {
			for s := range jobs {
				if err := v.segment(ctx, s); err != nil {
					stop(err)
				}
			}
		})
	}
	for _, s := range x.segments {
		select {
		case jobs <- s:
			continue
		case <-ctx.Done():
		}
		break
	}
	close(jobs)
	workers.Wait()
	return context.Cause(ctx)
}

// strangers looks at the files of which the head doesn't know. What it was told of while it was read, it knows by now.
func (v *verifier) strangers(x *index, files []string) error {
	var goOn []string
	for _, name := range files {
		if x.byName[name] != nil {
			continue
		}
		more, err := v.goesOn(name)
		if err != nil {
			return err
		}
		if more {
			goOn = append(goOn, name)
		}
	}
	if len(goOn) == 0 {
		return nil
	}
	now, err := readHead(v.dir, nobody{}, func(*journal.Line) error { return v.ctx.Err() })
	if _, bad := errors.AsType[*journal.Problem](err); err != nil && !bad {
		return err
	}
	for _, name := range goOn {
		if now.byName[name] == nil {
			v.found(&journal.Problem{File: name, Line: 1, Reason: "the head has no record of this segment"})
		}
	}
	return nil
}

// goesOn reports whether a segment has more than what is written before the head is told of it: whoever dies between the
// two leaves a first line, or less.
func (v *verifier) goesOn(name string) (bool, error) {
	f, err := os.Open(segmentPath(v.dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil // whoever couldn't write its first line has removed it
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	r := journal.NewReader(name, f)
	if err = r.Next(); err == nil {
		err = r.Next()
	}
	return err != io.EOF, nil
}

// segment verifies one segment and counts what is in it.
func (v *verifier) segment(ctx context.Context, s *segmentState) error {
	var n counts
	err := n.read(ctx, v.dir, s, v.seen[s.name])
	v.mu.Lock()
	r := &v.report
	r.Lines += n.lines
	r.Calls += n.calls
	r.Unfinished += int64(len(n.open))
	r.Tail += max(0, n.lines-max(s.lines, 1))
	r.Torn += n.torn
	v.mu.Unlock()
	if p, ok := errors.AsType[*journal.Problem](err); ok {
		v.found(p)
		return nil
	}
	return err
}

// counts are what is in a segment.
type counts struct {
	lines, calls, torn int64
	open               map[string]bool
}

func (n *counts) read(ctx context.Context, dir string, s *segmentState, seen []record.Position) error {
	f, r, err := openSegment(dir, s)
	if errors.Is(err, fs.ErrNotExist) {
		return &journal.Problem{File: s.name, Line: 1, Reason: "the segment is missing"}
	} else if err != nil {
		return err
	}
	defer f.Close()
	n.open = map[string]bool{}
	marks := s.marks
	for err = nil; r.Line.N > 0; err = r.Next() {
		if err == nil {
			err = n.take(&r.Line, s, &marks)
		}
		if p := compare(&seen, &r.Line, s.name); p != nil && err == nil {
			err = p
		}
		if err == nil && r.Line.N%1024 == 0 {
			err = ctx.Err()
		}
		if err != nil {
			break
		}
		n.lines = r.Line.N
	}
	switch {
	case err != nil && err != io.EOF:
		return err
	case n.lines < s.lines:
		return r.Problem("lines are missing: line %d of the head records %d", s.marked.N, s.lines)
	case len(seen) > 0:
		return r.Problem("lines are missing: line %d existed before", seen[0].Line)
	case s.closed && r.Torn:
		return r.Problem("line after the end of a closed segment")
	case r.Torn:
		n.torn++
	}
	return nil
}

// take takes a line in.
func (n *counts) take(l *journal.Line, s *segmentState, marks *[]mark) error {
	bad := func(format string, args ...any) error {
		return &journal.Problem{File: s.name, Line: l.N, Reason: fmt.Sprintf(format, args...)}
	}
	for ; len(*marks) > 0 && (*marks)[0].lines <= l.N; *marks = (*marks)[1:] {
		k := (*marks)[0]
		if k.lines < l.N {
			return bad("line %d, recorded in the head, is missing before it", k.lines)
		}
		if string(k.sum[:]) != string(l.Sum[:len(k.sum)]) || l.N == s.lines && l.Sum != s.last {
			return bad("differs from the line recorded in the head")
		}
	}
	switch {
	case s.closed && l.N > s.lines:
		return bad("line after the end of a closed segment")
	case l.N == 1:
	case l.Kind == kindBegin && n.open[l.Call]:
		return bad("call %q begins twice", l.Call)
	case l.Kind == kindBegin:
		n.open[l.Call] = true
		n.calls++
	case l.Kind == kindEnd && !n.open[l.Call]:
		return bad("call %q ends without having begun", l.Call)
	case l.Kind == kindEnd:
		delete(n.open, l.Call)
	default:
		return bad("unexpected line of kind %q", l.Kind)
	}
	return nil
}

// segmentFiles returns the names of the segments that are there. What has another name is none.
func segmentFiles(dir string) ([]string, error) {
	var names []string
	root := filepath.Join(dir, "segments")
	months, err := os.ReadDir(root)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	for _, month := range months {
		if !month.IsDir() {
			continue
		}
		files, err := os.ReadDir(filepath.Join(root, month.Name()))
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			name, ok := strings.CutSuffix(file.Name(), ".jsonl")
			if ok && checkSegment(name) == nil && segmentPath(dir, name) == filepath.Join(root, month.Name(), file.Name()) {
				names = append(names, name)
			}
		}
	}
	return names, nil
}
