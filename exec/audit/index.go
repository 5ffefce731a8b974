package audit

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/journal"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/exec/audit/record"
)

// A mark is a length that the head recorded of a segment. Only the last mark's full sum is kept, in
// segmentState.last.
type mark struct {
	lines int64
	sum   [8]byte
}

// A segmentState is the state of a segment by the head.
type segmentState struct {
	name   string
	opened record.Line // without body
	first  cas.Digest
	marks  []mark
	lines  int64 // of the last mark
	last   cas.Digest
	marked record.Line // the line of the last mark, without body
	closed bool
	pruned int64 // the number of the line that removed it
}

// An index is the content of a head.
type index struct {
	segments []*segmentState // in the order they were opened
	byName   map[string]*segmentState
	last     record.Line // of the head
	torn     bool
}

// A visitor receives the machine, checkpoint and prune lines of a head. Its errors are problems of the line.
type visitor interface {
	machine(l *record.Line, m *machineBody) error
	checkpoint(l *record.Line, m *markBody) error
	prune(l *record.Line, p *pruneBody) error
}

// readHead reads the head. On an error (a *record.Problem, a newer format, or one of the file) the index holds what
// was read before it. Without a head the index is empty.
func readHead(dir string, v visitor, each func(*record.Line) error) (*index, error) {
	x := &index{byName: map[string]*segmentState{}}
	f, err := journal.Open(headPath(dir))
	if _, lost := errors.AsType[*journal.DamagedError](err); lost {
		return x, &record.Problem{File: headName, Line: 1, Reason: "the head is missing"}
	} else if errors.Is(err, fs.ErrNotExist) {
		return x, nil
	} else if err != nil {
		return x, err
	}
	defer f.Close()
	r := record.NewReader(headName, f)
	for {
		err := r.Next()
		if err == io.EOF {
			break
		} else if err != nil {
			return x, err
		}
		if err := x.take(&r.Line, v); err != nil {
			if isNewerFormat(err) {
				return x, err
			}
			return x, &record.Problem{File: headName, Line: r.Line.N, Reason: err.Error()}
		}
		if err := each(&r.Line); err != nil {
			return x, err
		}
		x.last = r.Line
		x.last.Body = nil
	}
	if x.torn = r.Torn; x.torn && r.Continues() || x.last.N == 0 {
		return x, r.Problem("%s", journal.ErrDamaged)
	}
	return x, nil
}

// take adds a line of the head to the index.
func (x *index) take(l *record.Line, v visitor) error {
	if l.N == 1 {
		return new(firstBody).first(l, kindHead)
	}
	switch l.Kind {
	case kindOpen:
		var o openBody
		if err := decode(l.Body, &o); err != nil {
			return err
		}
		return x.open(l, &o)
	case kindMark, kindCheckpoint:
		var m markBody
		if err := decode(l.Body, &m); err != nil {
			return err
		}
		if (l.Kind == kindCheckpoint) != (m.Sig != "") || m.Closed && m.Sig == "" {
			return errForm
		}
		if err := x.mark(l, &m); err != nil || l.Kind == kindMark {
			return err
		}
		return v.checkpoint(l, &m)
	case kindPrune:
		var p pruneBody
		if err := decode(l.Body, &p); err != nil {
			return err
		}
		if err := x.prune(l, &p); err != nil {
			return err
		}
		return v.prune(l, &p)
	case kindMachine:
		var m machineBody
		if err := decode(l.Body, &m); err != nil {
			return err
		}
		return v.machine(l, &m)
	}
	return fmt.Errorf("unexpected line of kind %q", l.Kind)
}

func (x *index) open(l *record.Line, o *openBody) error {
	if s := x.byName[o.Segment]; s != nil {
		if s.first != o.First || s.marks != nil || s.pruned > 0 {
			return fmt.Errorf("segment %s was already opened", s.name)
		}
		return nil
	}
	s := &segmentState{name: o.Segment, opened: *l, first: o.First}
	s.opened.Body = nil
	x.byName[s.name] = s
	x.segments = append(x.segments, s)
	return nil
}

func (x *index) mark(l *record.Line, m *markBody) error {
	s := x.byName[m.Segment]
	switch {
	case s == nil:
		return fmt.Errorf("segment %s was not opened", m.Segment)
	case s.closed:
		return fmt.Errorf("segment %s is already closed", m.Segment)
	case s.pruned > 0:
		return fmt.Errorf("segment %s was pruned", m.Segment)
	case m.Lines < s.lines || m.Lines == s.lines && m.Last != s.last:
		return fmt.Errorf("segment %s goes back to line %d", m.Segment, m.Lines)
	}
	k := mark{lines: m.Lines}
	copy(k.sum[:], m.Last[:])
	s.marks = append(s.marks, k)
	s.lines, s.last, s.closed, s.marked = m.Lines, m.Last, m.Closed, *l
	s.marked.Body = nil
	return nil
}

// openSegment opens a segment's file and reads its first line. If the file ends before that, the reader is at its
// end.
func openSegment(dir string, s *segmentState) (*os.File, *record.Reader, error) {
	f, err := osfile.OpenRegular(segmentPath(dir, s.name))
	if err != nil {
		return nil, nil, err
	}
	r := record.NewReader(s.name, f)
	if err = r.Next(); err == nil {
		err = checkFirst(&r.Line, s)
	}
	if err != nil && err != io.EOF {
		f.Close()
		return nil, nil, err
	}
	return f, r, nil
}

// checkFirst compares a segment's first line with the head.
func checkFirst(l *record.Line, s *segmentState) error {
	var b firstBody
	err := b.first(l, kindSegment)
	if err == nil && (b.Segment != s.name || l.Sum != s.first) {
		err = errors.New("not the segment recorded in the head")
	}
	if err == nil || isNewerFormat(err) {
		return err
	}
	return &record.Problem{File: s.name, Line: 1, Reason: err.Error()}
}
