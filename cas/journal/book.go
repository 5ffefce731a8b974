package journal

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
)

// A Total is the sum of a book's records.
type Total interface {
	// Take adds a record. It returns an error for an invalid one.
	Take(record []byte) error
	// Records returns as few records as possible with the same total.
	Records() [][]byte
}

// A SizedTotal knows about how long its Records are, in bytes, without making them. A Book makes them only if that is
// less than half of its size.
type SizedTotal interface {
	Total
	Size() int64
}

// A Book is one file of records, and their total. It is safe for concurrent use, and several Books, also in other
// processes, may have the same file. The caller closes it after the last use.
type Book[T Total] struct {
	Path   string
	Format string        // as in "rye ledger"
	Empty  func() T      // returns the total of no records
	Lost   []string      // the consequences of losing the file, for an error; nil for those of a book of threads
	Wait   time.Duration // how long to wait for other processes; 30 seconds when zero
	Hook   Hook          // set by tests

	queue struct {
		sync.Mutex
		changes []*change[T]
		led     bool
	}
	mu    sync.Mutex // guards the fields below
	total T
	file  *os.File // nil before the first read
	at    int64    // bytes of file whose records are in total
	last  string   // sum of the last record
	dense int64    // a file of at most this size isn't worth a compact one
}

// version is the format version that this package writes.
const version = "/1"

// first replaces the sum of the previous line in the first record.
const first = "0000000000000000"

// compactAt is the size above which a book is replaced by a compact one of less than half the size.
const compactAt = 256 << 10

// maxRecord is the most bytes of a record. It leaves room for the sums.
const maxRecord = MaxLine - 64

// A change is a call of Change that waits to be written.
type change[T Total] struct {
	decide func(T) ([]any, error)
	done   chan error
	err    error
}

// View calls look with the current total. look must not keep it.
func (b *Book[T]) View(look func(T) error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.follow(); err != nil {
		return b.damaged(err)
	}
	return look(b.total)
}

// Watch calls look with the total, now and after each change, until look returns true or an error. It calls look at
// least once a second, because the answer may depend on the time.
func (b *Book[T]) Watch(ctx context.Context, look func(T) (done bool, err error)) error {
	const every, atLeast = 50 * time.Millisecond, 20
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		seen, done := b.stamp(), false
		err := b.View(func(total T) (err error) {
			done, err = look(total)
			return err
		})
		if err != nil || done {
			return err
		}
		for n := 0; n < atLeast; n++ {
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-tick.C:
			}
			if b.stamp() != seen {
				break
			}
		}
	}
}

// stamp returns a value that differs after each change of the file, also after a shorter book has replaced it.
func (b *Book[T]) stamp() (s struct {
	size int64
	time time.Time
}) {
	if info, err := os.Stat(b.Path); err == nil {
		s.size, s.time = info.Size(), info.ModTime()
	}
	return s
}

// Change calls decide with the total and adds the records that it returns, values for JSON: all of them or none. It
// returns when they are durable. decide must not change or keep the total. Change returns decide's error unchanged.
func (b *Book[T]) Change(ctx context.Context, decide func(T) ([]any, error)) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	c := &change[T]{decide: decide, done: make(chan error, 1)}
	b.queue.Lock()
	b.queue.changes = append(b.queue.changes, c)
	lead := !b.queue.led
	b.queue.led = true
	b.queue.Unlock()
	if lead {
		b.lead()
	}
	return <-c.done
}

// lead writes the queued changes, and starts another goroutine for those that are queued meanwhile.
func (b *Book[T]) lead() {
	b.queue.Lock()
	all := b.queue.changes
	b.queue.changes, b.queue.led = nil, len(all) > 0
	b.queue.Unlock()
	if len(all) == 0 {
		return
	}
	b.commit(all)
	go b.lead()
}

var errNothing = errors.New("nothing to write")

// commit decides and writes changes, and reports the result to each.
func (b *Book[T]) commit(all []*change[T]) {
	j := Journal{Path: b.Path, Wait: b.Wait, Check: b.checkFormat, Line: b.isLine, Hook: b.Hook}
	b.mu.Lock()
	defer b.mu.Unlock()
	var written int
	replaced := false
	// No caller's context: the wait is bounded, and one caller's cancellation must not end the change of another.
	err := j.Append(context.Background(), func(end *Tail) ([]byte, error) {
		if err := b.follow(); err != nil {
			return nil, err
		}
		lines, err := b.decide(all)
		if err != nil {
			return nil, err
		}
		if end.Size == 0 {
			lines = append([]byte(b.Format+version+"\n"), lines...)
		} else if end.Size > max(compactAt, b.dense) && b.mayShrink(end.Size) {
			// Making the compact book costs as much as reading all of it, so a change seldom tries.
			short := b.compact()
			if b.dense = 2 * int64(len(short)); b.dense < end.Size {
				end.Replace, replaced, lines = true, true, short
			}
		}
		written = len(lines)
		return lines, nil
	})
	if err == nil && !replaced {
		b.at += int64(written)
	} else if !errors.Is(err, errNothing) {
		b.forget() // the file was replaced, or it is unknown how much was written
	}
	for _, c := range all {
		if c.err == nil && !errors.Is(err, errNothing) {
			c.err = b.damaged(err)
		}
		c.done <- c.err
	}
}

// decide returns the lines of changes, and adds their records to the total.
func (b *Book[T]) decide(all []*change[T]) (lines []byte, err error) {
	for _, c := range all {
		var records []any
		if records, c.err = c.decide(b.total); c.err != nil {
			continue
		}
		for _, r := range records {
			text, err := json.Marshal(r)
			if err == nil && len(text) > maxRecord {
				err = fault.New(fault.Validation, "record too long: %d bytes, at most %d are allowed", len(text),
					maxRecord)
			}
			if err == nil {
				err = b.total.Take(text)
			}
			if err != nil {
				return nil, err
			}
			lines = b.appendLine(lines, text)
		}
	}
	if len(lines) == 0 {
		return nil, errNothing
	}
	return lines, nil
}

// mayShrink reports whether a compact book may have less than half of a size.
func (b *Book[T]) mayShrink(size int64) bool {
	total, ok := any(b.total).(SizedTotal)
	return !ok || 2*total.Size() < size
}

// compact returns the content of a short book with the same total.
func (b *Book[T]) compact() []byte {
	last := b.last
	defer func() { b.last = last }()
	b.last = first
	out := []byte(b.Format + version + "\n")
	for _, r := range b.total.Records() {
		out = b.appendLine(out, r)
	}
	return out
}

// appendLine appends the line of a record and makes its sum the last one.
func (b *Book[T]) appendLine(out, record []byte) []byte {
	start := len(out)
	out = append(append(append(out, b.last...), ' '), record...)
	b.last = sum(out[start:])
	return append(append(append(out, ' '), b.last...), '\n')
}

func sum(b []byte) string { return strings.TrimPrefix(cas.Sum(b).String(), "blake3:")[:16] }

// parse returns the parts of a line: the sum of the previous line, the record, and the line's own sum.
func parse(line []byte) (before string, record []byte, own string, ok bool) {
	n := len(line)
	if n < 2*17+2 || line[16] != ' ' || line[n-17] != ' ' || line[17] != '{' {
		return "", nil, "", false
	}
	own = string(line[n-16:])
	return string(line[:16]), line[17 : n-17], own, sum(line[:n-17]) == own
}

func (b *Book[T]) isLine(line []byte) bool {
	_, _, _, ok := parse(line)
	return ok || string(line) == b.Format+version
}

func (b *Book[T]) checkFormat(line []byte) error {
	if rest, ok := bytes.CutPrefix(line, []byte(b.Format+"/")); ok && "/"+string(rest) != version {
		if _, err := strconv.Atoi(string(rest)); err == nil {
			return fault.New(fault.VersionMismatch, "%q has the format %s, expected %s", b.Path, line,
				b.Format+version).Try("rye version")
		}
	}
	return nil
}

// forget closes the file, so that the next read starts at its beginning.
func (b *Book[T]) forget() {
	if b.file != nil {
		b.file.Close()
	}
	b.total, b.file, b.at, b.last, b.dense = b.Empty(), nil, 0, first, 0
}

// Close closes the file. The book may be used again.
func (b *Book[T]) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.forget()
	return nil
}

// follow adds the records that were written since the last read to the total.
func (b *Book[T]) follow() error {
	for again := false; ; again = true {
		err := b.open()
		if errors.Is(err, fs.ErrNotExist) {
			b.forget()
			return nil
		}
		if err == nil {
			err = b.read()
		}
		if err == nil || again {
			return err
		}
		b.forget() // a writer may have cut off lines that were read before
	}
}

// open opens the file, unless it is open already and was neither replaced nor cut.
func (b *Book[T]) open() error {
	if b.file != nil {
		now, err := os.Stat(b.Path)
		if err == nil {
			mine, bad := b.file.Stat()
			if bad == nil && os.SameFile(now, mine) && b.ends() {
				return nil
			}
		}
	}
	b.forget()
	var err error
	b.file, err = Open(b.Path)
	return err
}

// ends reports whether the part of the file that was read still ends with the last record.
func (b *Book[T]) ends() bool {
	text := make([]byte, len(b.last)+1)
	_, err := b.file.ReadAt(text, b.at-int64(len(text)))
	return err == nil && string(text) == b.last+"\n" || b.last == first && b.at > 0
}

func (b *Book[T]) read() error {
	// Usually nothing is new, and a Reader would allocate its buffer first.
	if info, err := b.file.Stat(); b.at > 0 && err == nil && info.Size() == b.at {
		return nil
	}
	var (
		before, own string
		record      []byte
		format      error
		lines       *Reader
	)
	lines = NewReader(b.file, b.at, func(line []byte) (ok bool) {
		if lines.Offset == 0 {
			format = b.checkFormat(line)
			return string(line) == b.Format+version
		}
		before, record, own, ok = parse(line)
		return ok
	})
	damage := func(reason string) error { return &DamagedError{Path: b.Path, Offset: b.at, Reason: reason} }
	for {
		_, err := lines.Next()
		switch {
		case format != nil:
			return format
		case err == io.EOF && b.at > 0 && !lines.Continues():
			return nil
		case err == io.EOF || err == ErrDamaged:
			return damage(ErrDamaged.Error())
		case err != nil:
			return err
		case b.at > 0 && before != b.last:
			return damage("records before it are missing or out of order")
		case b.at > 0:
			if err := b.total.Take(record); err != nil {
				return damage(err.Error())
			}
			b.last = own
		}
		b.at = lines.Offset
	}
}

// damaged returns an error about the file as people and programs see it.
func (b *Book[T]) damaged(err error) error {
	damagedError, ok := errors.AsType[*DamagedError](err)
	if _, done := fault.Find(err); !ok || done {
		return err
	}
	why := b.Lost
	if why == nil {
		why = []string{fmt.Sprintf("it is the %s of all threads of this user: restore it from a backup",
			strings.TrimPrefix(b.Format, "rye ")),
			"without one, move its directory away: threads that were interrupted can't be resumed then, and transcripts stay"}
	}
	return fault.New(fault.Integrity, "%s", damagedError).From(damagedError).On("reason", "journal").On("path",
		damagedError.Path).Because(why...).
		Try("mv " + fault.Quote(filepath.Dir(damagedError.Path)) + " " +
			fault.Quote(filepath.Dir(damagedError.Path)+".old"))
}
