package audit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/exec/audit/record"
	"github.com/rye-build/rye/manifest/sign"
)

// A pruneBody names segments whose files are removed. Like a checkpoint it is signed.
type pruneBody struct {
	Before   string     `json:"before"` // nothing in the segments is later
	Calls    int64      `json:"calls"`
	Export   cas.Digest `json:"export"` // the digest of a file with the calls
	Lines    int64      `json:"lines"`
	Segments []string   `json:"segments"`
	Sig      string     `json:"sig,omitempty"`
}

// mostPruned is how many segments one line can name within journal.MaxLine.
const mostPruned = 1500

func (p *pruneBody) check() error {
	if at, err := time.Parse(timeForm, p.Before); err != nil || at.Format(timeForm) != p.Before {
		return fmt.Errorf("invalid time %+q", p.Before)
	}
	if p.Calls < 0 || p.Lines < 0 || p.Lines > 1<<53-1 || len(p.Segments) == 0 || len(p.Segments) > mostPruned {
		return errForm
	}
	for i, s := range p.Segments {
		if err := checkSegment(s); err != nil {
			return err
		}
		if i > 0 && p.Segments[i-1] >= s {
			return errForm
		}
	}
	return nil
}

// pruneClaim returns the claim of a machine's signature of a line that names removed segments.
func pruneClaim() sign.Claim { return sign.Claim{Domain: sign.Audit, Name: "audit:prune"} }

// prune marks the segments that a line names as removed. Two processes that prune at once may both name one.
func (x *index) prune(l *record.Line, p *pruneBody) error {
	for _, name := range p.Segments {
		s := x.byName[name]
		if s == nil {
			return fmt.Errorf("segment %s was not opened", name)
		}
		s.pruned = l.N
	}
	return nil
}

// Pruned is a line of the head that names removed segments.
type Pruned struct {
	Line     int64      `json:"line"` // of the head
	At       time.Time  `json:"at"`
	Before   time.Time  `json:"before"`
	Segments int        `json:"segments"`
	Calls    int64      `json:"calls"`
	Lines    int64      `json:"lines"`
	Export   cas.Digest `json:"export"`
}

func prunedOf(l *record.Line, p *pruneBody) Pruned {
	before, _ := time.Parse(timeForm, p.Before) // check has parsed it
	return Pruned{Line: l.N, At: l.At, Before: before, Segments: len(p.Segments), Calls: p.Calls, Lines: p.Lines,
		Export: p.Export}
}

func (v *verifier) prune(l *record.Line, p *pruneBody) error {
	body := *p
	body.Sig = ""
	v.report.Pruned = append(v.report.Pruned, prunedOf(l, p))
	return v.sign(l, p.Sig, &body, pruneClaim())
}

// isPruned reads the head again and reports whether it now names a segment as removed.
func isPruned(ctx context.Context, dir, segment string) bool {
	x, _ := readHead(dir, noVisitor{}, func(*record.Line) error { return ctx.Err() })
	s := x.byName[segment]
	return s != nil && s.pruned > 0
}

// A Pruning is a list of segments that can be removed.
type Pruning struct {
	Before   time.Time
	Segments []Segment
	Kept     int // segments that are old enough, but a process still writes to them
}

// A Segment can be removed.
type Segment struct {
	Name  string    `json:"segment"`
	Began time.Time `json:"began"`
	Ended time.Time `json:"ended"` // time of its last line
	Calls int64     `json:"calls"`
	Lines int64     `json:"lines"`
	Bytes int64     `json:"bytes"`
}

// Old returns the segments in which nothing is later than before, and calls visit with the line of an export for each
// of their calls, steps and questions. A segment that a process still writes to is left out. The log must have been
// verified.
func Old(ctx context.Context, dir string, before time.Time, visit func(line []byte) error) (*Pruning, error) {
	pruning := &Pruning{Before: before.UTC().Truncate(time.Millisecond)}
	x, err := readHead(dir, noVisitor{}, func(*record.Line) error { return ctx.Err() })
	if err != nil {
		return nil, err
	}
	for _, s := range x.segments {
		if s.pruned > 0 || !s.opened.At.Before(before) || !s.marked.At.Before(before) { // zero without a mark
			continue
		}
		old, held, err := oldSegment(ctx, dir, s, before, visit)
		if err != nil {
			return nil, err
		}
		if held {
			pruning.Kept++
		} else if old != nil {
			pruning.Segments = append(pruning.Segments, *old)
		}
	}
	slices.SortFunc(pruning.Segments, func(a, b Segment) int { return bytes.Compare([]byte(a.Name), []byte(b.Name)) })
	return pruning, nil
}

// oldSegment returns a segment if no line in it is later than before. It returns held if a process still writes to
// it.
func oldSegment(ctx context.Context, dir string, segmentState *segmentState, before time.Time,
	visit func(line []byte) error) (old *Segment, held bool, err error) {
	file, reader, err := openSegment(dir, segmentState)
	if err != nil {
		return nil, false, err
	}
	defer file.Close()
	// An open segment without a lock belongs to a process that died.
	if free, err := osfile.TryLock(file, osfile.Exclusive); !segmentState.closed && (err != nil || !free) {
		return nil, true, nil
	}
	old = &Segment{Name: segmentState.name, Began: segmentState.opened.At}
	for err = nil; err == nil; err = reader.Next() {
		old.Lines, old.Ended = reader.Line.N, reader.Line.At
	}
	if err != io.EOF {
		return nil, false, err
	}
	if !old.Ended.Before(before) {
		return nil, false, nil
	}
	if info, err := file.Stat(); err == nil {
		old.Bytes = info.Size()
	}
	var visited error
	err = records(ctx, dir, segmentState, func(r *Record) bool {
		old.Calls++
		visited = visit(r.Append(nil))
		return visited == nil
	})
	if err == nil && visited == nil {
		err = steps(ctx, dir, segmentState, func(s *Step) bool {
			visited = visit(s.AppendExport(nil))
			return visited == nil
		})
	}
	if err == nil && visited == nil {
		err = queries(ctx, dir, segmentState, func(q *Query) bool {
			visited = visit(q.AppendExport(nil))
			return visited == nil
		})
	}
	return old, false, errors.Join(err, visited)
}

// Prune removes segments after naming them, and the export with their calls, in signed lines of the head. It also
// removes files that an earlier Prune named and left behind.
func (l *Log) Prune(ctx context.Context, p *Pruning, export cas.Digest) error {
	if len(p.Segments) > 0 {
		if err := l.tell(ctx, func(t *record.Tail) error { return l.namePruned(t, p, export) }); err != nil {
			return err
		}
	}
	x, err := readHead(l.o.Dir, noVisitor{}, func(*record.Line) error { return ctx.Err() })
	if err != nil {
		return err
	}
	for _, s := range x.segments {
		if s.pruned == 0 {
			continue
		}
		path := segmentPath(l.o.Dir, s.name)
		if h := l.head.Hook; h != nil {
			if err := h("remove", path, nil); err != nil {
				return err
			}
		}
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// namePruned adds signed lines that name the segments, each as many as fit.
func (l *Log) namePruned(tail *record.Tail, p *Pruning, export cas.Digest) error {
	l.tellMachine(tail)
	for some := range slices.Chunk(p.Segments, mostPruned) {
		pruneBody := pruneBody{Before: p.Before.Format(timeForm), Export: export}
		for _, s := range some {
			pruneBody.Segments, pruneBody.Calls, pruneBody.Lines = append(pruneBody.Segments, s.Name),
				pruneBody.Calls+s.Calls, pruneBody.Lines+s.Lines
		}
		c := l.line(kindPrune, &pruneBody)
		tail.Place(&c)
		s, err := sign.New(c.Sum, pruneClaim(), l.o.Key, c.At)
		if err != nil {
			return err
		}
		pruneBody.Sig = s.String()
		c.Body = encode(&pruneBody)
		tail.Add(c)
	}
	return nil
}
