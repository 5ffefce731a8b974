package transcript

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/journal"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/manifest/key"
)

// Options are the options of a writer.
type Options struct {
	Key key.Private // the machine's key, which signs checkpoints
	// Trust are the users who may vouch for the key of an earlier driver on another machine.
	Trust []key.Public
	Now   func() time.Time
	// Guard is called before each write. It takes the thread's lock, and fails with CONFLICT if another process now
	// drives the thread. The writer calls release after the sync. Nil means that no other process can.
	Guard func() (release func(), err error)
	Show  func(*Event) // receives each written event; may be nil
	// Hook is called before each change of a file; an error prevents the change. Tests inject faults with it.
	Hook func(op, path string, b []byte) error
}

// A Writer appends to one transcript. It is safe for concurrent use; its opener closes it. After an error that
// leaves the files in doubt, it refuses everything: Open the transcript again.
type Writer struct {
	o    Options
	disk disk
	dir  string

	mu       sync.Mutex
	lines    *os.File
	payloads *os.File // nil before the first large payload
	end      int64    // of lines
	large    int64    // of payloads
	thread   string
	order    *order
	last     Position
	facts    *verifier // of the written events
	err      error     // set if writing is no longer possible
}

// Create makes a directory and begins a transcript in it with all events or none. An existing transcript is
// fs.ErrExist. The caller closes the Writer.
func Create(dir, thread string, s Started, d Driver, o Options, others ...Payload) (*Writer, error) {
	if err := CheckThread(thread); err != nil {
		return nil, err
	}
	w := &Writer{o: o, disk: disk{Hook: o.Hook}, dir: dir, thread: thread, order: new(order),
		facts: newVerifier(Check{})}
	s.Format, d.Key = Format, o.Key.Public()
	if err := w.disk.Hook.MakeDirectory(dir); err != nil {
		return nil, err
	}
	if err := w.begin(append([]Payload{s, d}, others...)); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return w, nil
}

// begin writes the first lines under a temporary name and renames the complete file.
func (w *Writer) begin(events []Payload) error {
	path := filepath.Join(w.dir, LinesFile)
	if _, err := os.Lstat(path); err == nil {
		return &fs.PathError{Op: "create", Path: path, Err: fs.ErrExist}
	}
	batch, err := w.prepare(events)
	if err != nil {
		return err
	}
	release, err := w.guard()
	if err != nil {
		return err
	}
	defer release()
	if err := w.writePayloads(batch); err != nil {
		return err
	}
	var h osfile.Hook
	if w.o.Hook != nil {
		h = func(op, path string) error { return w.o.Hook(op, path, batch.lines) }
	}
	if err := h.WriteFile(path, 0o600, true, osfile.BytesOf(batch.lines)); err != nil {
		return err
	}
	if w.lines, err = os.OpenFile(path, os.O_RDWR|osfile.NoFollow, 0); err != nil {
		return err
	}
	w.commit(batch)
	return nil
}

// Open continues a transcript. It reads all of it, removes the remains of an interrupted write, and appends a
// driver, whose epoch must be higher than the last. It fails with a *Problem if the transcript was changed or a
// signing key isn't trusted, and with CONFLICT if the thread has ended. The caller closes the Writer.
func Open(dir string, driver Driver, options Options) (*Writer, error) {
	reader, err := OpenReader(dir)
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	verifier := newVerifier(Check{Keys: append(slices.Clone(options.Trust), options.Key.Public()), Unfinished: true})
	if err := verifier.readAll(reader); err != nil {
		return nil, err
	}
	if p := verifier.report.Problem; p != nil && p.Kind != Unsigned {
		return nil, p
	}
	if reader.order.ended != "" {
		return nil, fault.New(fault.Conflict, "the thread %s has ended: %s", reader.thread,
			reader.order.ended).On("thread",
			reader.thread)
	}
	w := &Writer{o: options, disk: disk{Hook: options.Hook}, dir: dir, thread: reader.thread, order: &reader.order,
		last: reader.last,
		end:  reader.at, large: reader.large, facts: verifier}
	if err := w.repair(); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	driver.Key = options.Key.Public()
	if _, err := w.Append(driver); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return w, nil
}

// repair opens the files and removes everything after the last line.
func (w *Writer) repair() (err error) {
	release, err := w.guard()
	if err != nil {
		return err
	}
	defer release()
	if w.lines, err = os.OpenFile(filepath.Join(w.dir, LinesFile), os.O_RDWR|osfile.NoFollow, 0); err != nil {
		return err
	}
	w.payloads, err = os.OpenFile(filepath.Join(w.dir, PayloadsFile), os.O_RDWR|osfile.NoFollow, 0)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := w.cut(w.payloads, w.large); err != nil {
		return err
	}
	return w.cut(w.lines, w.end)
}

// cut truncates a file to its proper end.
func (w *Writer) cut(file *os.File, end int64) error {
	if file == nil {
		return nil
	}
	fi, err := file.Stat()
	if err != nil || fi.Size() == end {
		return err
	}
	if err := w.disk.Cut(file, end); err != nil {
		return err
	}
	return w.disk.Sync(file)
}

func (w *Writer) guard() (func(), error) {
	if w.o.Guard == nil {
		return func() {}, nil
	}
	return w.o.Guard()
}

// Last returns the last event's place, so that another store can remember it.
func (w *Writer) Last() Position {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.last
}

// Report returns the report of Verify without the machines. It needn't read and check the events that this process
// wrote.
func (w *Writer) Report() *Report {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := w.facts.report
	r.Models, r.Tools = w.facts.proven.lists()
	r.Lines, r.Last, r.Unsigned = w.last.Seq, w.last, w.last.Seq-r.Signed.Seq
	r.Bytes, r.PayloadBytes, r.Torn, r.Problem, r.Machines = w.end, w.large, false, nil, []Machine{}
	return &r
}

// Close closes the files. All appended events are already durable.
func (w *Writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.err = fs.ErrClosed
	var errs []error
	for _, f := range []*os.File{w.lines, w.payloads} {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	w.lines, w.payloads = nil, nil
	return errors.Join(errs...)
}

// Append appends events, all or none, and returns when they are durable. It signs a Checkpoint among them. It
// refuses events that violate their schema, the order, or a limit.
func (w *Writer) Append(events ...Payload) ([]*Event, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return nil, w.err
	}
	batch, err := w.prepare(events)
	if err != nil || len(events) == 0 {
		return nil, err
	}
	release, err := w.guard()
	if err != nil {
		return nil, err
	}
	defer release()
	if err := w.write(batch); err != nil {
		return nil, err
	}
	w.commit(batch)
	return batch.events, nil
}

// A batch is a list of events with their places and bytes.
type batch struct {
	events   []*Event
	lines    []byte
	payloads []byte
	order    *order
	last     Position
}

// prepare assigns places to events and signs checkpoints.
func (w *Writer) prepare(payloads []Payload) (*batch, error) {
	batch := &batch{order: w.order.clone(), last: w.last}
	now := w.o.Now().UTC().Truncate(time.Millisecond)
	for _, p := range payloads {
		if c, ok := p.(Checkpoint); ok {
			c.Sig = sigPlaceholder
			p = c
		}
		e, err := encode(p)
		if err != nil {
			return nil, err
		}
		e.Seq, e.Time, e.Thread, e.Prev = batch.last.Seq+1, now, w.thread, batch.last.Digest
		if e.Type == TypeCheckpoint {
			if err := e.sign(w.o.Key, now); err != nil {
				return nil, err
			}
		}
		if err := w.add(batch, e); err != nil {
			return nil, err
		}
	}
	return batch, nil
}

// sigPlaceholder fits the schema until sign replaces it.
const sigPlaceholder = "rye:signed:v2:"

// add adds an event to a batch.
func (w *Writer) add(batch *batch, event *Event) error {
	if err := batch.order.next(event); err != nil {
		return fault.New(fault.Validation, "thread %s: %v", w.thread, err).From(err)
	}
	if event.Seq > MaxLines || event.Seq > MaxLines-endLines && !closes(event.Type) {
		return fault.New(fault.Limit, "the transcript of %s has %d lines: no more can be added", w.thread,
			event.Seq-1).
			On("limit", MaxLines)
	}
	if len(event.Payload) > MaxInline {
		at := w.large + int64(len(batch.payloads))
		if at+int64(len(event.Payload)) >= MaxPayloads {
			return fault.New(fault.Limit, "the payloads of %s have %d bytes: no more can be added", w.thread, at).
				On("limit", int64(MaxPayloads))
		}
		event.Large = &Large{at, cas.Sum(event.Payload), int64(len(event.Payload))}
		batch.payloads = append(append(batch.payloads, event.Payload...), '\n')
	}
	from := len(batch.lines)
	batch.lines = event.appendLine(batch.lines)
	event.Digest = cas.Sum(batch.lines[from:])
	batch.lines = append(batch.lines, '\n')
	batch.events, batch.last = append(batch.events, event), event.Position()
	return nil
}

// closes reports whether an event of the type may use the lines reserved for the end.
func closes(t Type) bool {
	return t.IsEnd() || t == TypeCheckpoint || t == TypeCallResult || t == TypeLimit || t == TypeWaiting ||
		t == TypeDriver
}

// write makes a batch durable, or restores the files.
func (w *Writer) write(batch *batch) error {
	fi, err := w.lines.Stat()
	if err != nil {
		return err
	}
	if fi.Size() != w.end {
		return fault.New(fault.Conflict, "another process wrote to the transcript of %s", w.thread).On("thread",
			w.thread)
	}
	if err := w.writePayloads(batch); err != nil {
		return err
	}
	if err := w.extend(w.lines, batch.lines, w.end); err != nil {
		return errors.Join(err, w.broken(w.cut(w.payloads, w.large)))
	}
	return nil
}

// writePayloads makes the payloads of a batch durable.
func (w *Writer) writePayloads(batch *batch) (err error) {
	if len(batch.payloads) == 0 {
		return nil
	}
	if w.payloads != nil {
		return w.extend(w.payloads, batch.payloads, w.large)
	}
	path := filepath.Join(w.dir, PayloadsFile)
	if err := w.disk.Do("create", path, nil); err != nil {
		return err
	}
	// No line names the content of an existing file, so it is truncated.
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC|osfile.NoFollow, 0o600)
	if err != nil {
		return err
	}
	if err := w.extend(f, batch.payloads, 0); err != nil {
		return errors.Join(err, f.Close())
	}
	if err := w.disk.SyncDirectory(w.dir); err != nil {
		return errors.Join(err, f.Close())
	}
	w.payloads = f
	return nil
}

// extend writes and syncs bytes at the end of a file. After a failed sync the file's content is unknown.
func (w *Writer) extend(f *os.File, b []byte, at int64) error {
	if err := w.disk.Write(f, b, at); err != nil {
		if _, cut := errors.AsType[*journal.CutError](err); cut {
			return w.broken(err)
		}
		return err
	}
	if err := w.disk.Sync(f); err != nil {
		return w.broken(errors.Join(err, w.disk.Cut(f, at)))
	}
	return nil
}

// broken records an error that leaves the files in doubt.
func (w *Writer) broken(err error) error {
	if err != nil && w.err == nil {
		w.err = fmt.Errorf("the transcript of %s can't be continued here: %w", w.thread, err)
	}
	return err
}

// commit records a durable batch.
func (w *Writer) commit(b *batch) {
	w.order, w.last = b.order, b.last
	w.end += int64(len(b.lines))
	w.large += int64(len(b.payloads))
	for _, e := range b.events {
		_ = w.broken(w.facts.believe(e))
		w.facts.report.Ended = e.Time
		if w.o.Show != nil {
			w.o.Show(e)
		}
	}
}

// Load reads the large payload from a thread's directory.
func (l *Large) Load(dir string) ([]byte, error) {
	f, err := osfile.OpenRegular(filepath.Join(dir, PayloadsFile))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b := make([]byte, l.Size)
	if _, err := f.ReadAt(b, l.At); err != nil && err != io.EOF {
		return nil, err
	}
	if cas.Sum(b) != l.Digest {
		return nil, fault.New(fault.Integrity, "the payload at byte %d is not %s", l.At, l.Digest)
	}
	return b, nil
}
