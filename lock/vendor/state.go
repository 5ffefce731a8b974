package vendor

import (
	"bytes"
	"errors"
	"io/fs"
	"slices"

	"github.com/rye-build/rye/cas"
)

// A state is the content found in a pack.
type state struct {
	file    []byte          // nil if it is unreadable or missing
	good    map[slot][]byte // the unmodified lines whose objects have the right digests
	damaged []*Error
}

// examine reads a pack and hashes everything in it. Damaged content isn't an error.
func (f *files) examine(name string) (*state, error) {
	data, err := f.readFile(name)
	state := &state{file: data, good: make(map[slot][]byte, bytes.Count(data, []byte("\n")))}
	if errors.Is(err, fs.ErrNotExist) {
		return state, nil
	}
	if isOurs(err) {
		state.file, state.damaged = nil, append(state.damaged, inFile(name, err))
		return state, nil
	}
	if err != nil {
		return nil, err
	}
	var buf []byte
	for line, err := range lines(name, data) {
		if err == nil && line.id.Kind != signed {
			buf, err = line.verify(name, buf)
		}
		if err != nil {
			bad, _ := errors.AsType[*Error](err)
			state.damaged = append(state.damaged, bad)
			if len(state.damaged) == maxDamaged {
				break
			}
			continue
		}
		if _, twice := state.good[line.slot()]; !twice {
			state.good[line.slot()] = line.raw
		}
	}
	return state, nil
}

// maxDamaged is how many damaged lines of a pack are reported before the rest of it is ignored.
const maxDamaged = 100

// verify hashes the object of a line. It decodes the object into buf.
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

// lines returns the wanted pack if the state has all of its lines; otherwise the missing entries, and the other lines
// found.
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
