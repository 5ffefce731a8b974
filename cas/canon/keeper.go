package canon

import "strings"

// A Keeper copies bytes into strings, many of them in one allocation.
type Keeper struct{ text strings.Builder }

// Keep returns b as a string of its own.
func (s *Keeper) Keep(b []byte) string {
	const chunk = 64 << 10
	if s.text.Len()+len(b) > s.text.Cap() {
		s.text = strings.Builder{}
		s.text.Grow(max(chunk, len(b)))
	}
	from := s.text.Len()
	s.text.Write(b)
	return s.text.String()[from:]
}
