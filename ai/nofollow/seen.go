package nofollow

import (
	"errors"
	"io/fs"
	"os"
	"sync"

	"github.com/rye-build/rye/cas/statcache"
)

// Seen notes what was looked at, so that work on these files needn't be done again while each looks the same, which is
// known without reading any. The rules for that are those of package statcache; where they can't be kept, as on
// systems without a ctime, nothing is ever unchanged. It is for work that is only done to warn, never for what admits
// bytes.
type Seen struct {
	clock func() statcache.Moment
	began statcache.Moment

	mu    sync.Mutex
	at    map[string]mark // by path
	on    map[uint64]bool // the devices of the directories that were opened
	blind bool            // something can't be told again
}

// A mark is how something looked before it was read. Of a directory that was only passed through it is what doesn't
// change with its entries; of what isn't there it is zero.
type mark struct {
	statcache.Stamp
	listed bool
}

// maxSeen bounds what is noted.
const maxSeen = 1 << 12

// NewSeen returns a Seen for what is looked at from now on, by a clock of package statcache.
func NewSeen(clock func() statcache.Moment) *Seen {
	return &Seen{clock: clock, began: clock(), at: map[string]mark{}, on: map[uint64]bool{}}
}

// Note has seen note what is looked at in d, which was opened at dir. It is called before d is used.
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

// Path notes whether there is something at a path that is about to be opened, and what.
func (s *Seen) Path(path string) {
	info, err := os.Lstat(path)
	s.note(path, info, err)
}

// note notes what an entry is.
func (s *Seen) note(path string, info fs.FileInfo, err error) {
	m := mark{}
	if err == nil {
		if m.Stamp = statcache.StampOf(info); info.IsDir() {
			m.Stamp = passed(m.Stamp)
		}
	}
	s.add(path, m, info, err)
}

// listed notes a directory whose entries are read.
func (s *Seen) listed(path string, info fs.FileInfo, err error) {
	m := mark{listed: true}
	if err == nil {
		m.Stamp = statcache.StampOf(info)
	}
	s.add(path, m, info, err)
}

func (s *Seen) add(path string, m mark, info fs.FileInfo, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old, again := s.at[path]
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist), err == nil && info.Mode()&fs.ModeSymlink != 0,
		len(s.at) == maxSeen:
		s.blind = true
	case !again || m.listed && !old.listed && passed(m.Stamp) == old.Stamp:
		s.at[path] = m
	case m.Stamp != old.Stamp && passed(m.Stamp) != passed(old.Stamp) || m.listed == old.listed &&
		m.Stamp != old.Stamp:
		s.blind = true // it changed meanwhile
	}
}

// passed is what stays of a directory's stamp whatever becomes of its entries.
func passed(s statcache.Stamp) statcache.Stamp {
	return statcache.Stamp{Dev: s.Dev, Ino: s.Ino, Mode: s.Mode}
}

// Settled reports whether Unchanged can tell at all: a file that was written just now may be written again without a
// trace.
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

// Unchanged reports whether everything is as it was. It is for a Seen that is Settled, and that nothing notes into any
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
