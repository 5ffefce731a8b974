package session

import (
	"time"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas/statcache"
)

// Ahead has a session tell the age of files by a clock that is ahead, so that whatever is written now was written long
// ago.
func Ahead(s *Session, by time.Duration) {
	clock := statcache.NewClock()
	s.clock = func() statcache.Moment {
		m := clock()
		m.Wall, m.Up = m.Wall+int64(by), m.Up+int64(by)
		return m
	}
}

// Remembers reports whether a session would answer about the working tree by the stamps of its files.
func Remembers(s *Session, ref model.Ref) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.known != nil && s.known.unchanged(ref)
}
