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
	"slices"
	"strings"
	"sync"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/exec/audit/receipt"
	"github.com/rye-build/rye/exec/audit/record"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/sign"
)

// A Report is the result of Verify.
type Report struct {
	Segments int64 `json:"segments"`
	Lines    int64 `json:"lines"` // of segments
	Calls    int64 `json:"calls"`
	// calls without an end: still running, or their process died
	Unfinished  int64 `json:"unfinished"`
	Checkpoints int64 `json:"checkpoints"` // all are valid if there is no problem
	// lines that the head has no mark of: their removal would not be detected
	Tail int64 `json:"tail"`
	Torn int64 `json:"torn"` // journals that end in the middle of a line
	// to be remembered elsewhere, and given to Verify another time
	Head   record.Position `json:"head"`
	Pruned []Pruned        `json:"pruned,omitempty"` // segments that signed lines have removed
	// positions in such segments: they can't be looked at any more
	SeenPruned int64             `json:"seen_pruned,omitzero"`
	Machines   []Machine         `json:"machines"`
	Problems   []*record.Problem `json:"problems"` // at most one for each file, sorted
}

// A Machine is a key that signed checkpoints.
type Machine struct {
	Key key.Public `json:"key"`
	// the trusted key that vouches for it, or itself if it is trusted; zero for none
	By          key.Public `json:"by"`
	Checkpoints int64      `json:"checkpoints"`
	first       int64      // the line of its first checkpoint
	vouchers    [][]byte
}

// maxProblems bounds a report; a reader has no use for more.
const maxProblems = 1000

// Verify reads the journals of a directory. Each checkpoint must be signed by one of the keys, or by a machine that
// one of them vouches for; without keys Verify only checks that the journals agree with each other. Each position
// comes from a receipt or from an earlier report: its line must still exist. Calls may begin and end meanwhile.
//
// Problems of the journals are in the report. The error is for files that can't be read, and for a newer format.
func Verify(ctx context.Context, dir string, keys []key.Public, seen ...record.Position) (*Report, error) {
	verifier := &verifier{ctx: ctx, dir: dir, keys: keys, seen: map[string][]record.Position{},
		machines: map[key.Fingerprint]*Machine{}}
	verifier.report.Machines, verifier.report.Problems = []Machine{}, []*record.Problem{}
	for _, p := range seen {
		verifier.seen[p.Segment] = append(verifier.seen[p.Segment], p)
	}
	for _, list := range verifier.seen {
		slices.SortFunc(list, func(a, b record.Position) int { return int(a.Line - b.Line) })
	}
	// A process creates a segment's file before the head names it. So the head has a record of every file listed here
	// that has more than its first line.
	files, err := segmentFiles(dir)
	if err != nil {
		return nil, err
	}
	x, err := verifier.head()
	if err != nil {
		return nil, err
	}
	if err := verifier.segments(x, files); err != nil {
		return nil, err
	}
	slices.SortFunc(verifier.report.Problems,
		func(a, b *record.Problem) int { return strings.Compare(a.File, b.File) })
	return &verifier.report, nil
}

type verifier struct {
	ctx      context.Context
	dir      string
	keys     []key.Public
	seen     map[string][]record.Position
	machines map[key.Fingerprint]*Machine
	order    []*Machine
	signed   []signature

	mu      sync.Mutex
	report  Report
	headBad bool
}

// found adds a problem.
func (v *verifier) found(p *record.Problem) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.report.Problems) < maxProblems {
		v.report.Problems = append(v.report.Problems, p)
	}
}

// head verifies the head.
func (v *verifier) head() (*index, error) {
	seen := v.seen[""]
	var lost *record.Problem
	index, err := readHead(v.dir, v, func(l *record.Line) error {
		if lost == nil {
			lost = compare(&seen, l, headName)
		}
		return v.ctx.Err()
	})
	problem, bad := errors.AsType[*record.Problem](err)
	if err != nil && !bad {
		return nil, err
	}
	forged, err := v.forged()
	if err != nil {
		return nil, err
	}
	if problem == nil && len(seen) > 0 && lost == nil {
		lost = &record.Problem{File: headName, Line: index.last.N + 1,
			Reason: fmt.Sprintf("line %d existed before", seen[0].Line)}
	}
	var worst *record.Problem
	for _, p := range []*record.Problem{problem, lost, forged, v.unknown()} {
		if p != nil && (worst == nil || p.Line < worst.Line) {
			worst = p
		}
	}
	if worst != nil {
		v.headBad = true
		v.found(worst)
	}
	v.report.Head = record.Position{Line: index.last.N, Sum: index.last.Sum}
	if index.torn {
		v.report.Torn++
	}
	return index, nil
}

// compare checks a line against the positions in seen, up to this line.
func compare(seen *[]record.Position, l *record.Line, file string) *record.Problem {
	for ; len(*seen) > 0 && (*seen)[0].Line <= l.N; *seen = (*seen)[1:] {
		if p := (*seen)[0]; p.Line < l.N || p.Sum != l.Sum {
			return &record.Problem{File: file, Line: p.Line,
				Reason: fmt.Sprintf("replaced: this line was %s before", p.Sum.Short())}
		}
	}
	return nil
}

func (v *verifier) machine(_ *record.Line, machineBody *machineBody) error {
	f := machineBody.Key.Fingerprint()
	k := v.machines[f]
	if k == nil {
		k = &Machine{Key: machineBody.Key}
		v.machines[f] = k
		v.order = append(v.order, k)
	}
	// Machine lines repeat the same voucher often, and few different ones exist.
	if machineBody.Voucher != nil && len(k.vouchers) < 16 && !slices.ContainsFunc(k.vouchers, func(b []byte) bool {
		return slices.Equal(b, machineBody.Voucher)
	}) {
		k.vouchers = append(k.vouchers, slices.Clone(machineBody.Voucher))
	}
	return nil
}

// A signature is waiting to be checked.
type signature struct {
	at      int64 // line of the head
	line    sign.Line
	content cas.Digest
	claim   sign.Claim
	key     key.Public
}

func (v *verifier) checkpoint(l *record.Line, m *markBody) error {
	body := *m
	body.Sig = ""
	return v.sign(l, m.Sig, &body, claimOf(m.Segment))
}

// sign collects the signature of a line for forged. The signature covers the line with bare, its body without
// signature.
func (v *verifier) sign(line *record.Line, sig string, bare body, claim sign.Claim) error {
	parsed, err := sign.ParseLine(sig)
	if err != nil {
		return err
	}
	k := v.machines[parsed.Key]
	if k == nil {
		return errors.New("checkpoint signed by an unknown machine key")
	}
	if k.Checkpoints++; k.first == 0 {
		k.first = line.N
	}
	v.report.Checkpoints++
	open := *line
	open.Body = encode(bare)
	v.signed = append(v.signed, signature{line.N, parsed, cas.Sum(open.AppendOpen(nil)), claim, k.Key})
	return nil
}

// forged returns the first checkpoint with an invalid signature.
func (v *verifier) forged() (first *record.Problem, err error) {
	err = cas.Parallel(v.ctx, 0, len(v.signed), func(_ context.Context, i int) error {
		s := &v.signed[i]
		if s.line.Digest == s.content && s.line.Tree.IsZero() && s.claim.Holds(s.line, s.key) {
			return nil
		}
		v.mu.Lock()
		defer v.mu.Unlock()
		if first == nil || s.at < first.Line {
			first = &record.Problem{File: headName, Line: s.at, Reason: "invalid checkpoint signature"}
		}
		return nil
	})
	return first, err
}

// unknown looks up which key vouches for each machine, and returns the first checkpoint of a machine without one.
func (v *verifier) unknown() *record.Problem {
	var first *record.Problem
	for _, k := range v.order {
		for _, b := range k.vouchers {
			if by, err := receipt.CheckVoucher(b, k.Key, v.keys); err == nil && k.By.IsZero() {
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
			reason := fmt.Sprintf("checkpoint signed by machine %s, which none of the keys vouches for",
				k.Key.Fingerprint().Short())
			first = &record.Problem{File: headName, Line: k.first, Reason: reason}
		}
	}
	return first
}

// segments verifies all segments that the head knows, and looks for others.
func (v *verifier) segments(index *index, files []string) error {
	for _, s := range index.segments {
		if s.pruned == 0 {
			v.report.Segments++
		}
	}
	if !v.headBad {
		if err := v.strangers(index, files); err != nil {
			return err
		}
		for _, name := range slices.Sorted(maps.Keys(v.seen)) {
			if name != "" && index.byName[name] == nil {
				v.found(&record.Problem{File: name, Line: 1,
					Reason: "this segment existed before, but the head has no record of it"})
			}
		}
	}
	return cas.Parallel(v.ctx, 0, len(index.segments), func(ctx context.Context, i int) error {
		return v.segment(ctx, index.segments[i])
	})
}

// strangers reports files that the head has no record of. It reads the head again, for segments added since the first
// read.
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
	now, err := readHead(v.dir, noVisitor{}, func(*record.Line) error { return v.ctx.Err() })
	if _, bad := errors.AsType[*record.Problem](err); err != nil && !bad {
		return err
	}
	for _, name := range goOn {
		if now.byName[name] == nil {
			v.found(&record.Problem{File: name, Line: 1, Reason: "the head has no record of this segment"})
		}
	}
	return nil
}

// goesOn reports whether a segment has more than its first line. A process that dies before the head names its
// segment leaves a first line, or less.
func (v *verifier) goesOn(name string) (bool, error) {
	f, err := osfile.OpenRegular(segmentPath(v.dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil // a process that couldn't write its first line has removed it
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	r := record.NewReader(name, f)
	if err = r.Next(); err == nil {
		err = r.Next()
	}
	return err != io.EOF, nil
}

// segment verifies one segment and counts its lines.
func (v *verifier) segment(ctx context.Context, segmentState *segmentState) error {
	var n counts
	if segmentState.pruned > 0 {
		v.mu.Lock()
		defer v.mu.Unlock()
		v.report.SeenPruned += int64(len(v.seen[segmentState.name]))
		return nil
	}
	err := n.read(ctx, v.dir, segmentState, v.seen[segmentState.name])
	v.mu.Lock()
	r := &v.report
	r.Lines += n.lines
	r.Calls += n.calls
	r.Unfinished += int64(len(n.open))
	r.Tail += max(0, n.lines-max(segmentState.lines, 1))
	r.Torn += n.torn
	v.mu.Unlock()
	if p, ok := errors.AsType[*record.Problem](err); ok {
		v.found(p)
		return nil
	}
	return err
}

// counts are the contents of a segment in numbers.
type counts struct {
	lines, calls, torn int64
	open               map[string]bool
}

func (n *counts) read(ctx context.Context, dir string, segmentState *segmentState, seen []record.Position) error {
	f, reader, err := openSegment(dir, segmentState)
	if errors.Is(err, fs.ErrNotExist) && isPruned(ctx, dir, segmentState.name) {
		return nil
	} else if errors.Is(err, fs.ErrNotExist) {
		return &record.Problem{File: segmentState.name, Line: 1, Reason: "the segment is missing"}
	} else if err != nil {
		return err
	}
	defer f.Close()
	n.open = map[string]bool{}
	marks := segmentState.marks
	for err = nil; reader.Line.N > 0; err = reader.Next() {
		if err == nil {
			err = n.take(&reader.Line, segmentState, &marks)
		}
		if p := compare(&seen, &reader.Line, segmentState.name); p != nil && err == nil {
			err = p
		}
		if err == nil && reader.Line.N%1024 == 0 {
			err = ctx.Err()
		}
		if err != nil {
			break
		}
		n.lines = reader.Line.N
	}
	switch {
	case err != nil && err != io.EOF:
		return err
	case n.lines < segmentState.lines:
		return reader.Problem("lines are missing: line %d of the head records %d", segmentState.marked.N,
			segmentState.lines)
	case len(seen) > 0:
		return reader.Problem("lines are missing: line %d existed before", seen[0].Line)
	case segmentState.closed && reader.Torn:
		return reader.Problem("line after the end of a closed segment")
	case reader.Torn:
		n.torn++
	}
	return nil
}

// take checks and counts a line.
func (n *counts) take(line *record.Line, segmentState *segmentState, marks *[]mark) error {
	bad := func(format string, args ...any) error {
		return &record.Problem{File: segmentState.name, Line: line.N, Reason: fmt.Sprintf(format, args...)}
	}
	for ; len(*marks) > 0 && (*marks)[0].lines <= line.N; *marks = (*marks)[1:] {
		k := (*marks)[0]
		if k.lines < line.N {
			return bad("line %d, recorded in the head, is missing before it", k.lines)
		}
		if string(k.sum[:]) != string(line.Sum[:len(k.sum)]) || line.N == segmentState.lines &&
			line.Sum != segmentState.last {
			return bad("differs from the line recorded in the head")
		}
	}
	switch {
	case segmentState.closed && line.N > segmentState.lines:
		return bad("line after the end of a closed segment")
	case line.N == 1:
	case line.Kind == kindBegin && n.open[line.Call]:
		return bad("call %q begins twice", line.Call)
	case line.Kind == kindBegin:
		n.open[line.Call] = true
		n.calls++
	case line.Kind == kindEnd && !n.open[line.Call]:
		return bad("call %q ends without having begun", line.Call)
	case line.Kind == kindEnd:
		delete(n.open, line.Call)
	case line.Kind == kindAsk && line.Call == "":
		if _, err := record.ParseApproval(line.Body); err != nil {
			return bad("%s", err)
		}
	case line.Kind == kindQuery && line.Call == "":
		if _, err := record.ParseQuery(line.Body); err != nil {
			return bad("%s", err)
		}
	default:
		return bad("unexpected line of kind %q", line.Kind)
	}
	return nil
}

// segmentFiles returns the names of the existing segments. Other files are ignored.
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
			if ok && checkSegment(name) == nil &&
				segmentPath(dir, name) == filepath.Join(root, month.Name(), file.Name()) {
				names = append(names, name)
			}
		}
	}
	return names, nil
}
