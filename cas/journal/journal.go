// Package journal lets many processes append lines to one file, so that no line is lost and no reader sees half a
// line.
//
// A journal is a file of lines that end with LF. Writers only append lines. The user of a journal defines its
// lines: each has its own checksum, which shows damage. A new journal is written under a temporary name and then
// renamed. Writers lock a second file, named like the journal with ".lock" appended. They mark it, by writing to
// it, when the journal exists: a journal that is missing after that was lost, and no writer creates it again.
// Readers take no lock.
//
// How a line goes through here: Journal.Append locks the lock file (lock), opens the journal (open), finds its last
// good line (tail, within), and calls next with that end. It writes the lines of next behind the end
// (Writer.Append) and syncs them, or creates or replaces the file. Book.Change queues a change; one goroutine
// writes all queued changes (lead, commit) after it has read new records (follow) and encoded its own (decide). A
// Reader returns the lines (Next).
//
// # Damage
//
// A process that dies while it writes leaves the beginning of a line without LF. A machine that dies leaves NUL
// bytes where nothing was written; 16 in a row count as that. Such an end is torn: readers stop before it, and the
// next writer cuts it off. Any other bytes that aren't a line are damage: readers report it, and writers append
// nothing.
//
// # Books
//
// A Book keeps records that many processes add, and their total in memory. Its file is a journal that begins with a
// line for the format and then has one record on each line:
//
//	rye ledger/1
//	0000000000000000 {"op":"open","thread":"acme/plan-1795000000-a2b3c","budget":1000000000} 8c1f0e2a7b3d4956
//	8c1f0e2a7b3d4956 {"op":"close","thread":"acme/plan-1795000000-a2b3c"} 03b8f7d6c5e4a192
//
// A line has the sum of the line before (zeros before the first record), a JSON object, and the sum of all that:
// the first 16 digits of its BLAKE3. So readers notice a record that was changed, removed or moved. They do not
// notice that whole lines were cut off at the end.
//
// Changes of many goroutines are written and synced together. A book of more than 256 KiB is replaced when a book
// with the same total would have less than half its size.
package journal

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/rye-build/rye/cas/osfile"
)

// MaxLine is the most bytes of a line, with its LF.
const MaxLine = 64 << 10

// ErrDamaged is the reason for bytes that are not a line.
var ErrDamaged = errors.New("not a journal line, or changed after it was written")

// A DamagedError reports a journal that lost lines. Writers append nothing to it.
type DamagedError struct {
	Path   string
	Offset int64 // where the damage begins
	Reason string
}

func (e *DamagedError) Error() string {
	return fmt.Sprintf("corrupt journal %q at byte %d: %s", e.Path, e.Offset, e.Reason)
}

// A Journal is a file to which many processes and goroutines append.
type Journal struct {
	Path  string
	Wait  time.Duration            // how long to wait while the journal doesn't grow; osfile.LockWait when zero
	Check func(first []byte) error // returns an error for the first line of another format; optional
	Line  func(line []byte) bool   // reports whether a line, without LF, is as it was written
	Hook  Hook
}

// LockPath returns the path of a journal's lock file. If that file isn't empty, the journal exists or was lost.
func LockPath(journal string) string { return journal + ".lock" }

// Open opens a journal for reading; the caller closes it. It returns fs.ErrNotExist if the journal never existed,
// and a *DamagedError if it was lost.
func Open(path string) (*os.File, error) { return open(path, os.O_RDONLY) }

func open(path string, flag int) (*os.File, error) {
	// The lock file comes first: another process may create the journal and then mark the lock file at any moment.
	info, unmarked := os.Stat(LockPath(path))
	f, err := os.OpenFile(path, flag|osfile.Nonblock, 0) // a pipe would wait for a writer
	switch {
	case err == nil:
		if fi, err := f.Stat(); err != nil || !fi.Mode().IsRegular() {
			return nil, errors.Join(cmp.Or(err, error(&DamagedError{Path: path, Reason: "not a regular file"})),
				f.Close())
		}
		return f, nil
	case !errors.Is(err, fs.ErrNotExist) || errors.Is(unmarked, fs.ErrNotExist):
		return f, err
	case unmarked != nil:
		return nil, unmarked
	case info.Size() > 0:
		return nil, &DamagedError{Path: path, Reason: "the file is missing"}
	}
	return nil, err
}

// A Tail is the end of a journal.
type Tail struct {
	Size    int64  // of all good lines; zero if the journal doesn't exist yet
	Lines   []byte // the last good lines, at least one unless Size is zero
	Replace bool   // set by next: its lines replace all lines

	torn bool // bytes of an incomplete write follow
}

// window is how many bytes at the end of a journal Append reads if the last near bytes have no good line. It holds
// several lines.
const (
	window = 2*MaxLine + 4096
	near   = 16 << 10
)

// Append adds the lines that next returns for the journal's end, and syncs them together. When it returns nil, they
// are durable with everything before them. After an error none of them is in the journal, unless they could not be
// removed: then the next writer keeps them. The first lines create the journal.
func (j *Journal) Append(ctx context.Context, next func(*Tail) ([]byte, error)) error {
	if err := j.Hook.MakeDirectory(filepath.Dir(j.Path)); err != nil {
		return err
	}
	lock, err := j.lock(ctx)
	if err != nil {
		return err
	}
	defer lock.Close()
	tail := &Tail{}
	file, err := open(j.Path, os.O_RDWR)
	if err == nil {
		defer file.Close()
		if tail, err = j.tail(file); err == nil {
			err = j.mark(lock)
		}
		if err != nil {
			return err
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	data, err := next(tail)
	if err != nil || len(data) == 0 && tail.Size == 0 {
		return err
	}
	if tail.Size == 0 || tail.Replace {
		osfile.Sweep(filepath.Dir(j.Path), time.Now())
		watched := osfile.Hook(func(op, path string) error { return j.Hook.do(op, path, data) })
		if err := watched.WriteFile(j.Path, 0o600, false, osfile.BytesOf(data)); err != nil {
			return err
		}
		return j.mark(lock)
	}
	writer := &Writer{f: file, size: tail.Size, hook: &j.Hook}
	if tail.torn {
		if err := writer.cut(); err != nil {
			return err
		}
	}
	if err := writer.Append(data); err != nil {
		return err
	}
	if err := writer.Sync(); err != nil {
		// The next process must not rely on lines that may not be durable.
		writer.size = tail.Size
		return errors.Join(err, writer.cut())
	}
	return nil
}

// lock waits until no other process adds lines. It gives up only when the journal has not grown for the waiting
// time: a long queue of writers that make progress is no error.
func (j *Journal) lock(ctx context.Context) (*os.File, error) {
	const never = math.MaxInt64
	path, wait := LockPath(j.Path), cmp.Or(j.Wait, osfile.LockWait)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	size := j.size()
	var late *time.Timer
	late = time.AfterFunc(never, func() {
		before := size
		err := j.Hook.do("look", j.Path, nil)
		if size = j.size(); err != nil || size == before {
			cancel(osfile.Busy(path, wait))
			return
		}
		late.Reset(wait)
	})
	defer late.Stop()
	late.Reset(wait)
	return osfile.OpenLocked(ctx, path, osfile.Exclusive, never)
}

func (j *Journal) size() int64 {
	info, err := os.Stat(j.Path)
	if err != nil {
		return 0
	}
	return info.Size()
}

// mark writes to the lock file that the journal exists.
func (j *Journal) mark(lock *os.File) error {
	if info, err := lock.Stat(); err != nil || info.Size() > 0 {
		return err
	}
	w := &Writer{f: lock, hook: &j.Hook}
	if err := w.Append([]byte("journal\n")); err != nil {
		return err
	}
	return w.Sync()
}

// tail finds the last good line.
func (j *Journal) tail(file *os.File) (*Tail, error) {
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	size := info.Size()
	if err := j.first(file, size); err != nil {
		return nil, err
	}
	t, err := j.within(file, size, near)
	if _, far := errors.AsType[*DamagedError](err); far && size > near {
		return j.within(file, size, window)
	}
	return t, err
}

// first checks the first line.
func (j *Journal) first(f *os.File, size int64) error {
	for _, most := range []int64{1 << 10, MaxLine} {
		b, err := readAt(f, 0, min(size, most))
		if err != nil {
			return err
		}
		line, _, whole := bytes.Cut(b, []byte("\n"))
		if !whole && most < min(size, MaxLine) {
			continue
		}
		if j.Check != nil {
			if err := j.Check(line); err != nil {
				return err
			}
		}
		if !j.Line(line) {
			return &DamagedError{j.Path, 0, ErrDamaged.Error()}
		}
		break
	}
	return nil
}

// within finds the last good line in the last bytes of the file.
func (j *Journal) within(f *os.File, size, last int64) (*Tail, error) {
	from := max(0, size-last)
	data, err := readAt(f, from, size-from)
	if err != nil {
		return nil, err
	}
	if from > 0 {
		i := bytes.IndexByte(data, '\n') + 1
		data, from = data[i:], from+int64(i)
	}
	start := bytes.LastIndexByte(data, '\n') + 1
	var end int
	for isTorn := torn(data[start:], true, j.Line); isTorn &&
		start > 0; isTorn = torn(data[start:end], false, j.Line) {
		end, start = start, bytes.LastIndexByte(data[:start-1], '\n')+1
		if j.Line(data[start : end-1]) {
			return &Tail{Size: from + int64(end), Lines: data[:end], torn: from+int64(end) < size}, nil
		}
	}
	return nil, &DamagedError{j.Path, from + int64(start), ErrDamaged.Error()}
}

// torn reports whether bytes that aren't a line come from an incomplete write. At the end of the file such bytes
// have no LF. A whole line with another byte instead of its LF isn't torn: it was damaged later.
func torn(b []byte, atEnd bool, line func([]byte) bool) bool {
	if !atEnd {
		return bytes.Contains(b, nul)
	}
	return len(b) == 0 || b[len(b)-1] == 0 || !line(b[:len(b)-1])
}

// nul is more NUL bytes than any line has. A file system leaves them where a write didn't finish before a crash.
var nul = make([]byte, 16)

func readAt(f *os.File, from, size int64) ([]byte, error) {
	b := make([]byte, size)
	n, err := f.ReadAt(b, from)
	if err != nil && (err != io.EOF || n < len(b)) {
		return nil, fmt.Errorf("%q: %w", f.Name(), err)
	}
	return b, nil
}
