package vendor

import (
	"bytes"
	"errors"
	"io/fs"
	"slices"

	"github.com/rye-build/rye/cas"
)

// A state is what a pack is found to hold.
type state struct {
	file    []byte          // nil if it can't be read, or isn't there
	good    map[slot][]byte // the lines whose objects have the right digests, as they stand there
	damaged []*Error
}

// examine reads a pack and hashes everything in it. An error is not about what it says.
func (f *files) examine(name string) (*state, error) {
	b, err := f.readFile(name)
	s := &state{file: b, good: make(map[slot][]byte, bytes.Count(b, []byte("\n")))}
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if isOurs(err) {
		s.file, s.damaged = nil, append(s.damaged, inFile(name, err))
		return s, nil
	}
	if err != nil {
		return nil, err
	}
	var buf []byte
	for l, err := range lines(name, b) {
		if err == nil && l.id.Kind != signed {
			buf, err = l.verify(name, buf)
		}
		if err != nil {
			bad, _ := errors.AsType[*Error](err)
			s.damaged = append(s.damaged, bad)
			if len(s.damaged) == maxDamaged {
				break
			}
			continue
		}
		if _, twice := s.good[l.slot()]; !twice {
			s.good[l.slot()] = l.raw
		}
	}
	return s, nil
}

// maxDamaged is how many lines of a pack are found wrong before the rest of it isn't looked at.
const maxDamaged = 100

// verify hashes the object of a line, which is decoded into buf.
func (l *line) verify(name string, buf []byte) ([]byte, error) {
	b, column, err := l.decode(buf[:0])
	if err == nil && (int64(len(b)) != l.size || cas.Sum(b) != l.id.Digest) {
		err = &cas.DamagedError{ID: l.id, Found: cas.Sum(b)}
	}
	if err != nil {
		return b, &Error{name, l.no, column, err}
	}
	return b, nil
}

// lines returns the pack that is to be, if all of it is there, and what else there is.
func (s *state) lines(want []entry) (whole []byte, missing []entry, rest [][]byte) {
	whole = append(make([]byte, 0, max(len(s.file), len(head))), head...)
	for i := range want {
		e := &want[i]
		raw, ok := s.good[e.slot()]
		if !ok {
			missing = append(missing, *e)
			continue
		}
		whole = append(whole, raw...)
	}
	if len(want)-len(missing) == len(s.good) {
		return whole, missing, nil
	}
	wanted := make(map[slot]bool, len(want))
	for i := range want {
		wanted[want[i].slot()] = true
	}
	for k, raw := range s.good {
		if !wanted[k] {
			rest = append(rest, raw)
		}
	}
	slices.SortFunc(rest, bytes.Compare)
	return whole, missing, rest
}
