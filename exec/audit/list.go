package audit

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"iter"
	"slices"
	"strconv"
	"time"

	"github.com/rye-build/rye/exec/audit/record"
)

// A Record is a call in the journals.
type Record struct {
	Begin time.Time   `json:"begin"`
	Call  record.Call `json:"call"`
	End   time.Time   `json:"end,omitzero"` // zero with Outcome nil: it still runs, or its process died
	ID    string      `json:"id"`           // Call.ID

	record.Position // of its first line

	Outcome *record.End `json:"outcome,omitempty"`
}

// MarshalJSON writes the record as Append does, so that a call has one JSON form.
func (r *Record) MarshalJSON() ([]byte, error) { return r.Append(nil), nil }

// Append appends the record as JCS: a line of an export, without its LF.
func (r *Record) Append(data []byte) []byte {
	data = r.Begin.AppendFormat(append(data, `{"begin":"`...), timeForm)
	data = r.Call.Append(append(data, `","call":`...))
	if r.Outcome != nil {
		data = r.End.AppendFormat(append(data, `,"end":"`...), timeForm)
		data = append(data, '"')
	}
	data = append(append(append(data, `,"id":"`...), r.Call.ID...), '"')
	data = strconv.AppendInt(append(data, `,"line":`...), r.Position.Line, 10)
	if r.Outcome != nil {
		data = r.Outcome.Append(append(data, `,"outcome":`...))
	}
	data = append(append(data, `,"segment":"`...), r.Position.Segment...)
	data = r.Position.Sum.Append(append(data, `","sum":"`...))
	return append(data, '"', '}')
}

const timeForm = "2006-01-02T15:04:05.000Z"

// A Filter selects records.
type Filter struct {
	Since, Until time.Time          // limits on Begin: not before Since, before Until; zero for no limit
	Match        func(*Record) bool // nil for all
	// how many to return, those that ended last first; 0 for all, in the order they ended
	Last int
}

func (f *Filter) takes(r *Record) bool {
	return !r.Begin.Before(f.Since) && (f.Until.IsZero() || r.Begin.Before(f.Until)) && (f.Match == nil || f.Match(r))
}

// skips reports whether no record of a segment can match.
func (f *Filter) skips(s *segmentState) bool {
	return s.pruned > 0 || !f.Until.IsZero() && !s.opened.At.Before(f.Until) || s.closed && s.marked.At.Before(f.Since)
}

// noVisitor ignores the head's signed lines, for callers that only need the segments.
type noVisitor struct{}

func (noVisitor) machine(*record.Line, *machineBody) error { return nil }
func (noVisitor) checkpoint(*record.Line, *markBody) error { return nil }
func (noVisitor) prune(*record.Line, *pruneBody) error     { return nil }

// List returns the records of a directory, segment by segment as these were opened. Those of calls that haven't ended
// come at the end of their segment. A line that isn't as it was written is an error, behind which the next segment
// follows; Verify checks whether lines are missing and who signed them. Without a log there are no
// records.
func List(ctx context.Context, dir string, filter Filter) iter.Seq2[*Record, error] {
	return func(yield func(*Record, error) bool) {
		x, err := readHead(dir, noVisitor{}, func(*record.Line) error { return ctx.Err() })
		if err != nil && !yield(nil, err) {
			return
		}
		if filter.Last > 0 {
			listLast(ctx, dir, filter, x, yield)
			return
		}
		for _, s := range x.segments {
			if filter.skips(s) {
				continue
			}
			ok := true
			err := records(ctx, dir, s, func(r *Record) bool {
				ok = !filter.takes(r) || yield(r, nil)
				return ok
			})
			if !ok || err != nil && !yield(nil, err) || ctx.Err() != nil {
				return
			}
		}
	}
}

// listLast goes backwards through the segments, and holds only the calls of each that it may return.
func listLast(ctx context.Context, dir string, filter Filter, x *index, yield func(*Record, error) bool) {
	left := filter.Last
	for _, s := range slices.Backward(x.segments) {
		if left == 0 || ctx.Err() != nil {
			return
		}
		if filter.skips(s) {
			continue
		}
		var last []*Record
		err := records(ctx, dir, s, func(r *Record) bool {
			if filter.takes(r) {
				if len(last) >= 2*left {
					last = slices.Delete(last, 0, len(last)-left)
				}
				last = append(last, r)
			}
			return true
		})
		if err != nil && !yield(nil, err) {
			return
		}
		for _, r := range slices.Backward(last[max(0, len(last)-left):]) {
			if left--; !yield(r, nil) {
				return
			}
		}
	}
}

// records calls visit for each call of a segment, until it returns false.
func records(ctx context.Context, dir string, s *segmentState, visit func(*Record) bool) error {
	open, stopped := map[string]*Record{}, false
	var order []*Record // in the order they began; ended calls are removed now and then
	err := segmentLines(ctx, dir, s, func(r *record.Reader) (bool, error) {
		if r.Line.Kind == kindAsk || r.Line.Kind == kindQuery {
			return true, nil
		}
		c, err := take(r, open)
		switch {
		case err != nil:
			stopped = true
		case c.Outcome == nil:
			if order = append(order, c); len(order) > 2*len(open)+64 {
				order = slices.DeleteFunc(order, func(c *Record) bool { return c.Outcome != nil })
			}
		default:
			stopped = !visit(c)
		}
		return !stopped, err
	})
	if stopped || err != nil && ctx.Err() != nil {
		return err
	}
	for _, c := range order {
		if c.Outcome == nil && !visit(c) {
			return nil
		}
	}
	return err
}

// segmentLines calls visit for each line of a segment that wasn't pruned, until it returns false or an error.
func segmentLines(ctx context.Context, dir string, segmentState *segmentState,
	visit func(*record.Reader) (bool, error)) error {
	f, reader, err := openSegment(dir, segmentState)
	if errors.Is(err, fs.ErrNotExist) && isPruned(ctx, dir, segmentState.name) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	for reader.Line.N > 0 {
		if err := reader.Next(); err == io.EOF {
			break
		} else if err != nil {
			return err
		}
		if reader.Line.N%1024 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if more, err := visit(reader); err != nil {
			return &record.Problem{File: segmentState.name, Line: reader.Line.N, Reason: err.Error()}
		} else if !more {
			return nil
		}
	}
	return nil
}

// A Step is a step of a request for an approval, with its time and place in the log.
type Step struct {
	record.Approval
	At time.Time `json:"at"`
	record.Position
}

// AppendExport appends the step as JCS: a line of an export, without its LF.
func (s *Step) AppendExport(b []byte) []byte {
	return appendNote(s.Approval.Append(append(b, `{"approval":`...)), s.At, s.Position, nil)
}

// A Query is a question of an agent to a registry, with its time and place in the log.
type Query struct {
	record.Query
	At time.Time `json:"at"`
	record.Position
}

// AppendExport appends the question as JCS: a line of an export, without its LF.
func (q *Query) AppendExport(b []byte) []byte {
	return appendNote(append(b, '{'), q.At, q.Position, q.Query.Append(nil))
}

// appendNote appends the members of a line of an export that is about no call, behind what sorts before them.
func appendNote(b []byte, at time.Time, position record.Position, query []byte) []byte {
	if b[len(b)-1] != '{' {
		b = append(b, ',')
	}
	b = at.AppendFormat(append(b, `"at":"`...), timeForm)
	b = strconv.AppendInt(append(b, `","line":`...), position.Line, 10)
	if query != nil {
		b = append(append(b, `,"query":`...), query...)
	}
	b = append(append(b, `,"segment":"`...), position.Segment...)
	b = position.Sum.Append(append(b, `","sum":"`...))
	return append(b, '"', '}')
}

// Steps returns the matching steps of requests, in the order of segments. Errors are as those of List.
func Steps(ctx context.Context, dir string, match func(*Step) bool) iter.Seq2[*Step, error] {
	return notes(ctx, dir, steps, match)
}

// Queries returns the matching questions to registries, in the order of segments. Errors are as those of List.
func Queries(ctx context.Context, dir string, match func(*Query) bool) iter.Seq2[*Query, error] {
	return notes(ctx, dir, queries, match)
}

// notes returns what a visitor of segments finds and match accepts.
func notes[T any](ctx context.Context, dir string, visitor func(context.Context, string, *segmentState,
	func(*T) bool) error, match func(*T) bool) iter.Seq2[*T, error] {
	return func(yield func(*T, error) bool) {
		x, err := readHead(dir, noVisitor{}, func(*record.Line) error { return ctx.Err() })
		if err != nil && !yield(nil, err) {
			return
		}
		for _, s := range x.segments {
			if s.pruned > 0 {
				continue
			}
			ok := true
			err := visitor(ctx, dir, s, func(n *T) bool {
				ok = !match(n) || yield(n, nil)
				return ok
			})
			if !ok || err != nil && !yield(nil, err) || ctx.Err() != nil {
				return
			}
		}
	}
}

// steps calls visit for each step in a segment, until it returns false.
func steps(ctx context.Context, dir string, s *segmentState, visit func(*Step) bool) error {
	return segmentLines(ctx, dir, s, func(r *record.Reader) (bool, error) {
		if r.Line.Kind != kindAsk {
			return true, nil
		}
		a, err := record.ParseApproval(r.Line.Body)
		return err == nil && visit(&Step{a, r.Line.At, positionOf(r)}), err
	})
}

// queries calls visit for each question in a segment, until it returns false.
func queries(ctx context.Context, dir string, s *segmentState, visit func(*Query) bool) error {
	return segmentLines(ctx, dir, s, func(r *record.Reader) (bool, error) {
		if r.Line.Kind != kindQuery {
			return true, nil
		}
		q, err := record.ParseQuery(r.Line.Body)
		return err == nil && visit(&Query{q, r.Line.At, positionOf(r)}), err
	})
}

func positionOf(r *record.Reader) record.Position {
	return record.Position{Segment: r.File, Line: r.Line.N, Sum: r.Line.Sum}
}

// take reads a line that begins or ends a call.
func take(r *record.Reader, open map[string]*Record) (*Record, error) {
	line := &r.Line
	rec := open[line.Call]
	switch {
	case line.Kind == kindBegin && rec == nil:
		call, err := record.ParseCall(line.Call, line.Body)
		rec = &Record{Position: record.Position{Segment: r.File, Line: line.N, Sum: line.Sum}, ID: line.Call,
			Begin: line.At,
			Call:  call}
		open[line.Call] = rec
		return rec, err
	case line.Kind == kindEnd && rec != nil:
		o, err := record.ParseEnd(line.Body)
		rec.End, rec.Outcome = line.At, &o
		delete(open, line.Call)
		return rec, err
	}
	return nil, errors.New("expected the begin of a call, or the end of one that has begun")
}

// A Summary counts calls.
type Summary struct {
	Calls      int64             `json:"calls"`
	Unfinished int64             `json:"unfinished"`
	Statuses   map[string]int64  `json:"statuses"`
	Items      map[string]*Usage `json:"items"` // by ref
}

// A Usage sums up the calls of one item.
type Usage struct {
	Calls   int64         `json:"calls"`
	NotOK   int64         `json:"not_ok"` // ended with another status than OK
	Total   time.Duration `json:"total_ns"`
	Longest time.Duration `json:"longest_ns"`
}

// Stats counts the records that a filter takes.
func Stats(ctx context.Context, dir string, filter Filter) (*Summary, error) {
	summary := &Summary{Statuses: map[string]int64{}, Items: map[string]*Usage{}}
	for rec, err := range List(ctx, dir, filter) {
		if err != nil {
			return summary, err
		}
		usage := summary.Items[rec.Call.Ref]
		if usage == nil {
			usage = &Usage{}
			summary.Items[rec.Call.Ref] = usage
		}
		summary.Calls++
		usage.Calls++
		if rec.Outcome == nil {
			summary.Unfinished++
			continue
		}
		summary.Statuses[rec.Outcome.Status]++
		if rec.Outcome.Status != record.OK {
			usage.NotOK++
		}
		usage.Total += rec.Outcome.Duration
		usage.Longest = max(usage.Longest, rec.Outcome.Duration)
	}
	return summary, nil
}
