package journal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/osfile"
)

// A Shared is a journal that many processes add lines to. The file beside it, with ".lock", is locked meanwhile, and
// remembers that there is a journal.
type Shared struct {
	Disk  Disk
	Path  string
	Wait  time.Duration     // for other processes, since the journal last grew
	First func() Line       // the first line of one that isn't there yet
	Check func(*Line) error // refuses the first line of one that is
}

// LockPath returns the file that is locked for a journal. When it isn't empty there is a journal, or was one.
func LockPath(journal string) string { return journal + ".lock" }

// window is how much of the end of a journal is read to continue it. It holds several lines, whatever they say.
const window = 2*MaxLine + 4096

// A Tail is the end of a journal.
type Tail struct {
	n    int64      // the last line's number
	sum  cas.Digest // and sum
	size int64      // of the good lines
	read []byte     // good lines up to there, not all of them
	torn bool       // something stands behind them that a dying process left
}

// Place gives a line its place behind t, and its sum. Next makes it the end.
func (t *Tail) Place(l *Line) {
	l.N, l.Prev = t.n+1, t.sum
	l.Sum = cas.Sum(l.AppendOpen(nil))
}

// Next is Place, and makes the line the end of t.
func (t *Tail) Next(l Line) Line {
	t.Place(&l)
	t.n, t.sum = l.N, l.Sum
	return l
}

// Last returns lines of the end of the journal, in their order: the last ones, as many as were read.
func (t *Tail) Last() iter.Seq[Line] {
	return func(yield func(Line) bool) {
		for b := range bytes.Lines(t.read) {
			var l Line
			if l.Scan(b[:len(b)-1]) && !yield(l) {
				return
			}
		}
	}
}

// Append adds the lines that next returns, placed behind the tail that it is given, and syncs them. When it returns
// nil, they and everything before them are on disk. Else none of them is there, or whoever comes next takes it away;
// of a *CutError a line may stay, whole.
func (s *Shared) Append(ctx context.Context, next func(*Tail) ([]Line, error)) error {
	if err := s.Disk.MakeDirectory(filepath.Dir(s.Path)); err != nil {
		return err
	}
	lock, err := s.lock(ctx)
	if err != nil {
		return err
	}
	defer lock.Close()
	f, err := s.open(lock)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := s.mark(lock); err != nil {
		return err
	}
	t, err := s.tail(f)
	if err != nil {
		return err
	}
	size := t.size
	lines, err := next(t)
	if err != nil || len(lines) == 0 {
		return err
	}
	var b []byte
	for i := range lines {
		b = lines[i].Append(b)
	}
	if t.torn {
		if err := s.Disk.Cut(f, size); err != nil {
			return err
		}
	}
	if err := s.Disk.Write(f, b, size); err != nil {
		return err
	}
	if err := s.Disk.Sync(f); err != nil {
		// Whoever comes next must not take what may not be durable for what is.
		return errors.Join(err, s.Disk.Cut(f, size))
	}
	return nil
}

// lock waits until no other process adds lines. However many stand before it, the queue moves as long as the journal
// grows: only since then does the time count.
func (s *Shared) lock(ctx context.Context) (*os.File, error) {
	const never = math.MaxInt64
	path := LockPath(s.Path)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	size := s.size()
	var late *time.Timer
	late = time.AfterFunc(never, func() {
		before := size
		err := s.Disk.do("look", s.Path, nil)
		if size = s.size(); err != nil || size == before {
			cancel(osfile.Busy(path, s.Wait))
			return
		}
		late.Reset(s.Wait)
	})
	defer late.Stop()
	late.Reset(s.Wait)
	return osfile.OpenLocked(ctx, path, osfile.Exclusive, never)
}

// size is that of the journal, as far as it can be seen.
func (s *Shared) size() int64 {
	info, err := os.Stat(s.Path)
	if err != nil {
		return 0
	}
	return info.Size()
}

// open opens the journal, which it makes if there never was one.
func (s *Shared) open(lock *os.File) (*os.File, error) {
	f, err := os.OpenFile(s.Path, os.O_RDWR, 0)
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return f, err
	}
	if info, err := lock.Stat(); err != nil {
		return nil, err
	} else if info.Size() > 0 {
		return nil, damaged(s.Path, 0, "the file is missing")
	}
	tmp := s.Path + ".tmp" // ours alone, under the lock
	if err := os.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err := s.make(tmp); err != nil {
		return nil, errors.Join(err, os.RemoveAll(tmp))
	}
	if err := s.Disk.SyncDirectory(filepath.Dir(s.Path)); err != nil {
		return nil, err
	}
	return os.OpenFile(s.Path, os.O_RDWR, 0)
}

// make makes the journal by another name first, so that nobody sees the half of a first line.
func (s *Shared) make(tmp string) error {
	f, err := s.Disk.Create(tmp)
	if err != nil {
		return err
	}
	first := (&Tail{}).Next(s.First())
	err = s.Disk.Write(f, first.Append(nil), 0)
	if err == nil {
		err = s.Disk.Sync(f)
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := s.Disk.do("rename", s.Path, nil); err != nil {
		return err
	}
	return os.Rename(tmp, s.Path)
}

// mark leaves in the lock's file that there is a journal.
func (s *Shared) mark(lock *os.File) error {
	if info, err := lock.Stat(); err != nil || info.Size() > 0 {
		return err
	}
	if err := s.Disk.Write(lock, []byte("journal\n"), 0); err != nil {
		return err
	}
	return s.Disk.Sync(lock)
}

// tail finds the last good line. Behind it there may be what a process left that died while it wrote, the beginning
// of a line or, with the machine, NUL: a journal is continued over that and over nothing else.
func (s *Shared) tail(f *os.File) (*Tail, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if err := s.checkFirst(f, info.Size()); err != nil {
		return nil, err
	}
	from := max(0, info.Size()-window)
	b, err := readAt(f, from, info.Size()-from)
	if err != nil {
		return nil, err
	}
	if from > 0 {
		i := bytes.IndexByte(b, '\n') + 1
		b, from = b[i:], from+int64(i)
	}
	start, end := 0, bytes.LastIndexByte(b, '\n')+1
	for ; end > 0; end = start {
		start = bytes.LastIndexByte(b[:end-1], '\n') + 1
		var l Line
		if l.Scan(b[start : end-1]) {
			return &Tail{n: l.N, sum: l.Sum, size: from + int64(end), read: b[:end], torn: from+int64(end) < info.Size()}, nil
		}
		if !bytes.Contains(b[start:end], nul) {
			break
		}
	}
	return nil, damaged(s.Path, from+int64(start), notLine)
}

// checkFirst refuses to continue what others began in another form.
func (s *Shared) checkFirst(f *os.File, size int64) error {
	b, err := readAt(f, 0, min(size, MaxLine))
	if err != nil {
		return err
	}
	var l Line
	if i := bytes.IndexByte(b, '\n'); i < 0 || !l.Scan(b[:i]) {
		return damaged(s.Path, 0, notLine)
	}
	return s.Check(&l)
}

func readAt(f *os.File, from, size int64) ([]byte, error) {
	b := make([]byte, size)
	n, err := f.ReadAt(b, from)
	if err != nil && (err != io.EOF || n < len(b)) {
		return nil, fmt.Errorf("%q: %w", f.Name(), err)
	}
	return b, nil
}

const notLine = "not a journal line, or changed after it was written"

// nul is more NUL bytes than any line has: a file system leaves them where a write didn't finish before a crash.
var nul = make([]byte, 16)
