package audit

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/journal"
	"github.com/rye-build/rye/exec/audit/record"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/sign"
)

// Options configure a Log.
type Options struct {
	Dir      string      // made when the first call begins
	Key      key.Private // the machine's: see package machine
	Voucher  []byte      // what machine.Vouch returned; nil if no user vouches for the key
	Required bool        // see Require
	Program  string      // who writes, as "rye 2.0.0"
	Now      func() time.Time
	Wait     time.Duration // for other processes; zero for 30 seconds
}

// ErrClosed is returned by a Log after Close, and by its entries.
var ErrClosed = errors.New("the audit log is closed")

// broken returns the error of a Log whose segment may be incomplete after a failed write or sync. It refuses calls
// until a new Log is opened.
func broken(err error) error {
	return fault.New(fault.Files, "the audit log can't continue: %v", err).From(err)
}

// A checkpoint is made when a call ends after so many lines or so much time.
const (
	checkpointLines = 1000
	checkpointTime  = time.Minute
)

// A Log is one process's way into the journals. It may be used by any number of goroutines.
type Log struct {
	o        Options
	head     journal.Journal
	required atomic.Bool

	mu      sync.Mutex      // of what follows, down to err
	file    *journal.Writer // of the segment; nil before the first call and after Close
	segment string
	started bool            // the head knows of it
	last    record.Line     // of the segment, without body
	open    map[string]bool // calls that have begun
	err     error           // why nothing can be written any more
	buf     []byte

	commits      sync.Mutex // of what follows; taken before mu
	marked       int64      // lines that the head knows of
	checkpointed int64      // lines that a checkpoint covers
	at           time.Time  // of the last checkpoint
}

// Open returns the log in a directory. Nothing is read or written before a call begins.
func Open(o Options) (*Log, error) {
	if err := record.CheckText("program", o.Program); err != nil {
		return nil, err
	}
	if o.Key.IsZero() || o.Now == nil {
		return nil, errors.New("the audit log requires a key and a clock")
	}
	if err := (&machineBody{o.Key.Public(), o.Voucher}).check(); err != nil {
		return nil, err
	}
	l := &Log{o: o, open: map[string]bool{}}
	l.required.Store(o.Required)
	l.head = journal.Journal{Path: headPath(o.Dir), Wait: o.Wait, Check: checkHead, Line: func(b []byte) bool {
		return new(record.Line).Scan(b)
	}}
	return l, nil
}

// checkHead refuses a head in another format by its first line. What isn't a line is refused as damage.
func checkHead(b []byte) error {
	var first record.Line
	if !first.Scan(b) {
		return nil
	}
	return new(firstBody).first(&first, kindHead)
}

// Require has calls begin, from now on, only once their lines can't be lost.
func (l *Log) Require() { l.required.Store(true) }

// An Entry is a call that has begun.
type Entry struct {
	log   *Log
	id    string
	pos   record.Position
	ended bool // under the log's mu
}

// Position returns the position of the call's first line.
func (e *Entry) Position() record.Position { return e.pos }

// Begin writes that a call begins. If it returns an error the call must not have a side effect.
func (l *Log) Begin(ctx context.Context, c record.Call) (*Entry, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	if err := l.start(ctx); err != nil {
		return nil, err
	}
	e, err := l.begin(c)
	if err != nil || !l.required.Load() {
		return e, err
	}
	if err := l.commit(ctx, e.pos.Line); err != nil {
		// The line may stay, so say there that nothing came of it. If that can't be said the id remains taken: a call
		// that begins twice would look as if the segment had been changed.
		l.mu.Lock()
		refused := record.End{Code: "UNAVAILABLE", Status: record.Refused}
		if _, werr := l.write(kindEnd, c.ID, refused.Append(nil)); werr == nil {
			delete(l.open, c.ID)
		}
		l.mu.Unlock()
		return nil, err
	}
	return e, nil
}

// Ask writes a step of a request for an approval. If it returns an error the step must not be made.
func (l *Log) Ask(ctx context.Context, a *record.Approval) error {
	if err := a.Check(); err != nil {
		return err
	}
	if err := l.start(ctx); err != nil {
		return err
	}
	l.mu.Lock()
	pos, err := l.write(kindAsk, "", a.Append(nil))
	l.mu.Unlock()
	if err != nil || !l.required.Load() {
		return err
	}
	return l.commit(ctx, pos.Line)
}

func (l *Log) begin(c record.Call) (*Entry, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open[c.ID] {
		return nil, record.Invalid("id", "%q is already used by a running call", c.ID)
	}
	pos, err := l.write(kindBegin, c.ID, c.Append(nil))
	if err != nil {
		return nil, err
	}
	l.open[c.ID] = true
	return &Entry{log: l, id: c.ID, pos: pos}, nil
}

// End writes what became of the call, and makes a checkpoint when it is time. If it returns an error, it may be called
// again, unless the outcome is recorded already.
func (e *Entry) End(ctx context.Context, o record.End) error {
	if err := o.Check(); err != nil {
		return err
	}
	l := e.log
	l.mu.Lock()
	if e.ended {
		l.mu.Unlock()
		return fmt.Errorf("the call %q has ended already", e.id)
	}
	pos, err := l.write(kindEnd, e.id, o.Append(nil))
	if err == nil {
		e.ended = true
		delete(l.open, e.id)
	}
	l.mu.Unlock()
	if err == nil && l.required.Load() {
		err = l.commit(ctx, pos.Line)
	}
	if err != nil {
		return err
	}
	l.commits.Lock()
	due := pos.Line-l.checkpointed >= checkpointLines || l.o.Now().Sub(l.at) >= checkpointTime
	l.commits.Unlock()
	if due {
		return l.Checkpoint(ctx)
	}
	return nil
}

// Checkpoint makes everything that was written durable, and has the machine vouch for it.
func (l *Log) Checkpoint(ctx context.Context) error {
	l.commits.Lock()
	defer l.commits.Unlock()
	return l.mark(ctx, true, false)
}

// Close is Checkpoint, after which nothing follows in this process's segment. Calls that haven't ended are left
// without an outcome.
func (l *Log) Close(ctx context.Context) error {
	l.commits.Lock()
	defer l.commits.Unlock()
	l.mu.Lock()
	f, err := l.file, l.err
	if err == nil {
		l.err = ErrClosed
	}
	l.mu.Unlock()
	if f == nil {
		return nil
	}
	if err == nil && l.started {
		err = l.mark(ctx, true, true)
	}
	l.mu.Lock()
	l.file = nil
	l.mu.Unlock()
	return errors.Join(err, f.Close())
}

// start opens the segment before the first call. The file comes first, so that a segment that the head names and that
// is not there was taken away.
func (l *Log) start(ctx context.Context) error {
	l.mu.Lock()
	started, err := l.started, l.err
	l.mu.Unlock()
	if started || err != nil {
		return err // without waiting for those who commit
	}
	l.commits.Lock()
	defer l.commits.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil || l.started {
		return l.err
	}
	if l.file == nil {
		var random [8]byte
		rand.Read(random[:])
		now := l.o.Now().UTC()
		if err := l.create(now.Format(segmentTime)+"-"+hex.EncodeToString(random[:]), now); err != nil {
			return err
		}
	}
	// After a failure here the next call tries again with the same file. If the head knows of it nevertheless, it is
	// told twice.
	first := l.last.Sum
	err = l.tell(ctx, func(t *record.Tail) error {
		l.announce(t, first)
		return nil
	})
	if err != nil {
		return err
	}
	l.started = true
	l.marked, l.checkpointed, l.at = 1, 1, l.o.Now()
	return nil
}

// create makes the segment's file with its first line, so that its name lasts.
func (l *Log) create(segment string, now time.Time) error {
	first := l.line(kindSegment, &firstBody{format, l.o.Program, segment})
	first.At, first.N = now, 1
	b := first.Append(nil)
	f, err := l.head.Hook.Create(segmentPath(l.o.Dir, segment), b)
	if err != nil {
		return err
	}
	f.Claim()
	l.file, l.segment, l.last = f, segment, first
	return nil
}

// tell appends lines to the head.
func (l *Log) tell(ctx context.Context, add func(*record.Tail) error) error {
	err := l.head.Append(ctx, func(end *journal.Tail) ([]byte, error) {
		t := record.TailOf(end.Lines)
		if end.Size == 0 {
			t.Add(l.line(kindHead, &firstBody{Format: format}))
		}
		err := add(t)
		return t.Added, err
	})
	if e, ok := errors.AsType[*journal.DamagedError](err); ok {
		return fault.New(fault.Integrity, "%s", e).From(e).On("reason", "audit-log").On("path", e.Path).
			Because("rye doesn't append to a damaged journal: keep a copy, then move its directory away").
			Try("rye audit verify")
	}
	return err
}

// line is a line of the head or the first of a segment.
func (l *Log) line(kind string, b body) record.Line {
	return record.Line{At: l.o.Now().UTC(), Body: encode(b), Kind: kind}
}

// announce adds the lines that begin a segment in the head. The key is repeated if it isn't among the last lines, so
// that a reader finds it nearby.
func (l *Log) announce(t *record.Tail, first cas.Digest) {
	l.tellMachine(t)
	t.Add(l.line(kindOpen, &openBody{first, l.segment}))
}

// tellMachine adds the key that signs, and its voucher.
func (l *Log) tellMachine(t *record.Tail) {
	mine := l.line(kindMachine, &machineBody{l.o.Key.Public(), l.o.Voucher})
	told := false
	for o := range t.Last() {
		told = told || o.Kind == kindMachine && bytes.Equal(o.Body, mine.Body)
	}
	if !told {
		t.Add(mine)
	}
}

// write adds a line to the segment.
func (l *Log) write(kind, call string, body []byte) (record.Position, error) {
	if l.err != nil {
		return record.Position{}, l.err
	}
	next := record.Line{At: l.o.Now().UTC(), Body: body, Call: call, Kind: kind, N: l.last.N + 1, Prev: l.last.Sum}
	l.buf = next.Append(l.buf[:0])
	if len(l.buf) > journal.MaxLine {
		return record.Position{}, record.Invalid("call", "has %d bytes, more than %d", len(l.buf), journal.MaxLine)
	}
	if err := l.file.Append(l.buf); err != nil {
		if _, ok := errors.AsType[*journal.CutError](err); ok {
			l.err = broken(err)
		}
		return record.Position{}, err
	}
	next.Body = nil
	l.last = next
	return record.Position{Segment: l.segment, Line: next.N, Sum: next.Sum}, nil
}

// commit waits until a line can't be lost. Those who wait meanwhile are served with it.
func (l *Log) commit(ctx context.Context, n int64) error {
	l.commits.Lock()
	defer l.commits.Unlock()
	if l.marked >= n {
		return nil
	}
	return l.mark(ctx, false, false)
}

// mark records the length of the segment in the head, once the segment is durable. The caller holds commits.
func (l *Log) mark(ctx context.Context, signed, closed bool) error {
	l.mu.Lock()
	f, last, err := l.file, l.last, l.err
	l.mu.Unlock()
	switch {
	case err != nil && !(closed && err == ErrClosed):
		return err
	case !l.started, !closed && signed && l.checkpointed == last.N:
		return nil
	}
	if err := f.Sync(); err != nil {
		// After a failed sync, a later one may report success without writing the lost pages.
		l.mu.Lock()
		l.err = broken(err)
		l.mu.Unlock()
		return err
	}
	body := markBody{Closed: closed, Last: last.Sum, Lines: last.N, Segment: l.segment}
	err = l.tell(ctx, func(t *record.Tail) error {
		if !signed {
			t.Add(l.line(kindMark, &body))
			return nil
		}
		return l.checkpoint(t, body)
	})
	if err != nil {
		return err
	}
	l.marked = last.N
	if signed {
		l.checkpointed, l.at = last.N, l.o.Now()
	}
	return nil
}

// checkpoint adds a line behind t that the machine signs.
func (l *Log) checkpoint(t *record.Tail, b markBody) error {
	c := l.line(kindCheckpoint, &b)
	t.Place(&c)
	s, err := sign.New(c.Sum, claimOf(b.Segment), l.o.Key, c.At)
	b.Sig = s.String()
	c.Body = encode(&b)
	t.Add(c)
	return err
}

// claimOf returns the claim of a machine's signature of a checkpoint.
func claimOf(segment string) sign.Claim {
	return sign.Claim{Domain: sign.Audit, Name: "audit:" + segment}
}

func headPath(dir string) string { return filepath.Join(dir, "head.jsonl") }

// segmentPath keeps a month's segments together.
func segmentPath(dir, segment string) string {
	return filepath.Join(dir, "segments", segment[:4]+"-"+segment[4:6], segment+".jsonl")
}
