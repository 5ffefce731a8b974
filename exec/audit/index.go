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
func readHead(dir string, visitor visitor, each func(*record.Line) error) (*index, error) {
	index := &index{byName: map[string]*segmentState{}}
	f, err := journal.Open(headPath(dir))
	if _, lost := errors.AsType[*journal.DamagedError](err); lost {
		return index, &record.Problem{File: headName, Line: 1, Reason: "the head is missing"}
	} else if errors.Is(err, fs.ErrNotExist) {
		return index, nil
	} else if err != nil {
		return index, err
	}
	defer f.Close()
	reader := record.NewReader(headName, f)
	for {
		err := reader.Next()
		if err == io.EOF {
			break
		} else if err != nil {
			return index, err
		}
		if err := index.take(&reader.Line, visitor); err != nil {
			if isNewerFormat(err) {
				return index, err
			}
			return index, &record.Problem{File: headName, Line: reader.Line.N, Reason: err.Error()}
		}
		if err := each(&reader.Line); err != nil {
			return index, err
		}
		index.last = reader.Line
		index.last.Body = nil
	}
	if index.torn = reader.Torn; index.torn && reader.Continues() || index.last.N == 0 {
		return index, reader.Problem("%s", journal.ErrDamaged)
	}
	return index, nil
}

// take adds a line of the head to the index.
func (x *index) take(line *record.Line, visitor visitor) error {
	if line.N == 1 {
		return new(firstBody).first(line, kindHead)
	}
	switch line.Kind {
	case kindOpen:
		var o openBody
		if err := decode(line.Body, &o); err != nil {
			return err
		}
		return x.open(line, &o)
	case kindMark, kindCheckpoint:
		var m markBody
		if err := decode(line.Body, &m); err != nil {
			return err
		}
		if (line.Kind == kindCheckpoint) != (m.Sig != "") || m.Closed && m.Sig == "" {
			return errForm
		}
		if err := x.mark(line, &m); err != nil || line.Kind == kindMark {
			return err
		}
		return visitor.checkpoint(line, &m)
	case kindPrune:
		var p pruneBody
		if err := decode(line.Body, &p); err != nil {
			return err
		}
		if err := x.prune(line, &p); err != nil {
			return err
		}
		return visitor.prune(line, &p)
	case kindMachine:
		var m machineBody
		if err := decode(line.Body, &m); err != nil {
			return err
		}
		return visitor.machine(line, &m)
	}
	return fmt.Errorf("unexpected line of kind %q", line.Kind)
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

func (x *index) mark(line *record.Line, markBody *markBody) error {
	segmentState := x.byName[markBody.Segment]
	switch {
	case segmentState == nil:
		return fmt.Errorf("segment %s was not opened", markBody.Segment)
	case segmentState.closed:
		return fmt.Errorf("segment %s is already closed", markBody.Segment)
	case segmentState.pruned > 0:
		return fmt.Errorf("segment %s was pruned", markBody.Segment)
	case markBody.Lines < segmentState.lines || markBody.Lines == segmentState.lines &&
		markBody.Last != segmentState.last:
		return fmt.Errorf("segment %s goes back to line %d", markBody.Segment, markBody.Lines)
	}
	k := mark{lines: markBody.Lines}
	copy(k.sum[:], markBody.Last[:])
	segmentState.marks = append(segmentState.marks, k)
	segmentState.lines, segmentState.last, segmentState.closed, segmentState.marked = markBody.Lines, markBody.Last,
		markBody.Closed, *line
	segmentState.marked.Body = nil
	return nil
}

// openSegment opens a segment's file and reads its first line. If the file ends before that, the reader is at its
// end.
func openSegment(dir string, s *segmentState) (*os.File, *record.Reader, error) {
	file, err := osfile.OpenRegular(segmentPath(dir, s.name))
	if err != nil {
		return nil, nil, err
	}
	r := record.NewReader(s.name, file)
	if err = r.Next(); err == nil {
		err = checkFirst(&r.Line, s)
	}
	if err != nil && err != io.EOF {
		file.Close()
		return nil, nil, err
	}
	return file, r, nil
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
