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
	Dir      string      // created when the first call begins
	Key      key.Private // the machine's: receipt.MachineKey
	Voucher  []byte      // from receipt.Vouch; nil if no user vouches for the key
	Required bool        // whether Begin waits for a sync, as after Require
	Program  string      // the program that writes, as "rye 2.0.0"
	Now      func() time.Time
	Wait     time.Duration // limit on waiting for other processes' locks; zero for 30 seconds
}

// ErrClosed is returned by a Log after Close, and by its entries.
var ErrClosed = errors.New("the audit log is closed")

// broken returns the error of a Log whose segment may be incomplete after a failed write or sync. It refuses calls
// until a new Log is opened.
func broken(err error) error {
	return fault.New(fault.Files, "the audit log can't continue: %v", err).From(err)
}

// A call that ends after so many lines or so much time makes a checkpoint.
const (
	checkpointLines = 1000
	checkpointTime  = time.Minute
)

// A Log is one process's access to the journals. It is safe for concurrent use.
type Log struct {
	o        Options
	head     journal.Journal
	required atomic.Bool

	mu      sync.Mutex      // guards the fields down to err
	file    *journal.Writer // of the segment; nil before the first call and after Close
	segment string
	started bool            // the head has a record of the segment
	last    record.Line     // of the segment, without body
	open    map[string]bool // calls that have begun
	err     error           // why the log can't write any more
	buf     []byte

	commits      sync.Mutex // guards the fields below; taken before mu
	marked       int64      // lines that the head has a mark of
	checkpointed int64      // lines that a checkpoint covers
	at           time.Time  // of the last checkpoint
}

// Open returns the log in a directory. It reads and writes nothing before a call begins.
func Open(options Options) (*Log, error) {
	if err := record.CheckText("program", options.Program); err != nil {
		return nil, err
	}
	if options.Key.IsZero() || options.Now == nil {
		return nil, errors.New("the audit log requires a key and a clock")
	}
	if err := (&machineBody{options.Key.Public(), options.Voucher}).check(); err != nil {
		return nil, err
	}
	l := &Log{o: options, open: map[string]bool{}}
	l.required.Store(options.Required)
	l.head = journal.Journal{Path: headPath(options.Dir), Wait: options.Wait, Check: checkHead,
		Line: func(b []byte) bool {
			return new(record.Line).Scan(b)
		}}
	return l, nil
}

// checkHead refuses a head whose first line names another format. A first line that can't be parsed passes: journal
// reports it as damage.
func checkHead(b []byte) error {
	var first record.Line
	if !first.Scan(b) {
		return nil
	}
	return new(firstBody).first(&first, kindHead)
}

// Require makes every later Begin wait until its line is synced.
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

// Begin records that a call begins. If it returns an error the call must not have a side effect.
func (l *Log) Begin(ctx context.Context, call record.Call) (*Entry, error) {
	if err := call.Check(); err != nil {
		return nil, err
	}
	if err := l.start(ctx); err != nil {
		return nil, err
	}
	entry, err := l.begin(call)
	if err != nil || !l.required.Load() {
		return entry, err
	}
	if err := l.commit(ctx, entry.pos.Line); err != nil {
		// The line may survive, so record the call as refused. If that fails too, the id stays taken: a call that
		// begins twice would look as if the segment had been changed.
		l.mu.Lock()
		refused := record.End{Code: "UNAVAILABLE", Status: record.Refused}
		if _, werr := l.write(kindEnd, call.ID, refused.Append(nil)); werr == nil {
			delete(l.open, call.ID)
		}
		l.mu.Unlock()
		return nil, err
	}
	return entry, nil
}

// Ask records a step of a request for an approval. If it returns an error the step must not be made.
func (l *Log) Ask(ctx context.Context, a *record.Approval) error {
	if err := a.Check(); err != nil {
		return err
	}
	return l.note(ctx, kindAsk, a.Append(nil))
}

// Query records that an agent asks a registry. If it returns an error the registry must not be asked.
func (l *Log) Query(ctx context.Context, q *record.Query) error {
	if err := q.Check(); err != nil {
		return err
	}
	return l.note(ctx, kindQuery, q.Append(nil))
}

// note writes a line that is about no call.
func (l *Log) note(ctx context.Context, kind string, body []byte) error {
	if err := l.start(ctx); err != nil {
		return err
	}
	l.mu.Lock()
	pos, err := l.write(kind, "", body)
	l.mu.Unlock()
	if err != nil || !l.required.Load() {
		return err
	}
	return l.commit(ctx, pos.Line)
}

func (l *Log) begin(call record.Call) (*Entry, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open[call.ID] {
		return nil, record.Invalid("id", "%q is already used by a running call", call.ID)
	}
	pos, err := l.write(kindBegin, call.ID, call.Append(nil))
	if err != nil {
		return nil, err
	}
	l.open[call.ID] = true
	return &Entry{log: l, id: call.ID, pos: pos}, nil
}

// End writes what became of the call, and makes a checkpoint when it is time. If it returns an error, it may be called
// again, unless the outcome is recorded already.
func (e *Entry) End(ctx context.Context, o record.End) error {
	if err := o.Check(); err != nil {
		return err
	}
	log := e.log
	log.mu.Lock()
	if e.ended {
		log.mu.Unlock()
		return fmt.Errorf("the call %q has ended already", e.id)
	}
	pos, err := log.write(kindEnd, e.id, o.Append(nil))
	if err == nil {
		e.ended = true
		delete(log.open, e.id)
	}
	log.mu.Unlock()
	if err == nil && log.required.Load() {
		err = log.commit(ctx, pos.Line)
	}
	if err != nil {
		return err
	}
	log.commits.Lock()
	due := pos.Line-log.checkpointed >= checkpointLines || log.o.Now().Sub(log.at) >= checkpointTime
	log.commits.Unlock()
	if due {
		return log.Checkpoint(ctx)
	}
	return nil
}

// Checkpoint syncs everything written so far, and signs it with the machine's key.
func (l *Log) Checkpoint(ctx context.Context) error {
	l.commits.Lock()
	defer l.commits.Unlock()
	return l.mark(ctx, true, false)
}

// Close makes a checkpoint and closes this process's segment. Calls that haven't ended stay without an outcome.
func (l *Log) Close(ctx context.Context) error {
	l.commits.Lock()
	defer l.commits.Unlock()
	l.mu.Lock()
	writer, err := l.file, l.err
	if err == nil {
		l.err = ErrClosed
	}
	l.mu.Unlock()
	if writer == nil {
		return nil
	}
	if err == nil && l.started {
		err = l.mark(ctx, true, true)
	}
	l.mu.Lock()
	l.file = nil
	l.mu.Unlock()
	return errors.Join(err, writer.Close())
}

// start opens the segment before the first call. It creates the file before the head names it, so that a file that
// the head names and that is missing must have been removed.
func (l *Log) start(ctx context.Context) error {
	l.mu.Lock()
	started, err := l.started, l.err
	l.mu.Unlock()
	if started || err != nil {
		return err // without waiting for goroutines that commit
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
	// After a failure here the next call tries again with the same file. The head may then record the segment twice.
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

// create creates the segment's file with its first line, and syncs its directory entry.
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

// line returns a line of the head, or the first line of a segment.
func (l *Log) line(kind string, b body) record.Line {
	return record.Line{At: l.o.Now().UTC(), Body: encode(b), Kind: kind}
}

// announce adds the lines that begin a segment in the head: the machine's key, if none of the last lines has it, and
// the segment.
func (l *Log) announce(t *record.Tail, first cas.Digest) {
	l.tellMachine(t)
	t.Add(l.line(kindOpen, &openBody{first, l.segment}))
}

// tellMachine adds the signing key and its voucher, unless one of the last lines already has them.
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

// write appends a line to the segment.
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

// commit waits until line n is synced and marked. Goroutines that wait at the same time share one mark.
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
