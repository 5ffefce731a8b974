package nofollow

import (
	"errors"
	"io/fs"
	"os"
	"sync"

	"github.com/rye-build/rye/cas/statcache"
)

// Seen records the stats of files, so that work on them needn't be repeated while all are unchanged. Comparing them
// reads no file. It follows the rules of package statcache; where these can't be kept, as on systems without a ctime,
// everything counts as changed. Use it only for work that warns, never for admitting bytes.
type Seen struct {
	clock func() statcache.Moment
	began statcache.Moment

	mu    sync.Mutex
	at    map[string]mark // by path
	on    map[uint64]bool // the devices of the opened directories
	blind bool            // something can't be compared again
}

// A mark is the stamp of an entry before it was read. For a directory on the way it has only the parts that don't
// change with its entries; for a missing entry it is zero.
type mark struct {
	statcache.Stamp
	listed bool
}

// maxSeen bounds the recorded entries.
const maxSeen = 1 << 12

// NewSeen returns an empty Seen with a clock of package statcache.
func NewSeen(clock func() statcache.Moment) *Seen {
	return &Seen{clock: clock, began: clock(), at: map[string]mark{}, on: map[uint64]bool{}}
}

// Note makes seen record all reads of d, which was opened at dir. Call it before using d.
func (d *FS) Note(seen *Seen, dir string) {
	d.seen, d.dir = seen, dir
	seen.Path(dir)
	seen.mu.Lock()
	defer seen.mu.Unlock()
	f, err := d.root.Open(".")
	if err != nil {
		seen.blind = true
		return
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !statcache.OwnStamps(f.Fd()) {
		seen.blind = true
		return
	}
	seen.on[statcache.StampOf(info).Dev] = true
}

// Path records the entry, or its absence, at a path that is about to be opened.
func (s *Seen) Path(path string) {
	info, err := os.Lstat(path)
	s.note(path, info, err)
}

// note records the stamp of an entry.
func (s *Seen) note(path string, info fs.FileInfo, err error) {
	m := mark{}
	if err == nil {
		if m.Stamp = statcache.StampOf(info); info.IsDir() {
			m.Stamp = passed(m.Stamp)
		}
	}
	s.add(path, m, info, err)
}

// listed records a directory whose entries are read.
func (s *Seen) listed(path string, info fs.FileInfo, err error) {
	m := mark{listed: true}
	if err == nil {
		m.Stamp = statcache.StampOf(info)
	}
	s.add(path, m, info, err)
}

func (s *Seen) add(path string, mark mark, info fs.FileInfo, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old, again := s.at[path]
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist), err == nil && info.Mode()&fs.ModeSymlink != 0,
		len(s.at) == maxSeen:
		s.blind = true
	case !again || mark.listed && !old.listed && passed(mark.Stamp) == old.Stamp:
		s.at[path] = mark
	case mark.Stamp != old.Stamp && passed(mark.Stamp) != passed(old.Stamp) || mark.listed == old.listed &&
		mark.Stamp != old.Stamp:
		s.blind = true // changed meanwhile
	}
}

// passed returns the part of a directory's stamp that doesn't depend on its entries.
func passed(s statcache.Stamp) statcache.Stamp {
	return statcache.Stamp{Dev: s.Dev, Ino: s.Ino, Mode: s.Mode}
}

// Settled reports whether Unchanged is reliable: a file that was written just now may be written again with the same
// stamp.
func (s *Seen) Settled() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.blind || s.clock().SetBackSince(s.began) {
		return false
	}
	for _, m := range s.at {
		there, read := m.Stamp != statcache.Stamp{}, m.Mtime != 0 || m.Ctime != 0
		if there && !s.on[m.Dev] || read && !s.began.Settled(m.Mtime, m.Ctime) {
			return false
		}
	}
	return true
}

// Unchanged reports whether all recorded entries are unchanged. Call it only on a Settled Seen that records nothing
// more.
func (s *Seen) Unchanged() bool {
	if s.clock().SetBackSince(s.began) {
		return false
	}
	for path, old := range s.at {
		info, err := os.Lstat(path)
		now := statcache.Stamp{}
		switch {
		case err == nil && (old.listed || !info.IsDir()):
			now = statcache.StampOf(info)
		case err == nil:
			now = passed(statcache.StampOf(info))
		case !errors.Is(err, fs.ErrNotExist):
			return false
		}
		if now != old.Stamp {
			return false
		}
	}
	return true
}
