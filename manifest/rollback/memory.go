package rollback

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A memory is the content of a journal.
type memory struct {
	names map[subject]*history
	last  sum // of the last record
}

type subject struct{ source, name string }

type history struct {
	pins []Step         // in the order of arrival
	by   map[string]int // from a position to its pin
	at   int            // the name's current pin, or -1
}

func newMemory() *memory {
	return &memory{names: map[subject]*history{}, last: sumOf([]byte(journalHeader))}
}

// apply checks the steps, adds the new ones to m, and returns their records.
func (m *memory) apply(steps []Step) (added []byte, err error) {
	for _, s := range steps {
		s.At = s.At.UTC().Truncate(time.Second)
		if err := s.check(); err != nil {
			return nil, err
		}
		if added, err = m.step(added, s); err != nil {
			return nil, err
		}
	}
	return added, nil
}

func (m *memory) step(added []byte, s Step) ([]byte, error) {
	h := m.names[subject{s.Source, s.Name}]
	op := opSeen
	if s.ByName {
		op = opMove
	}
	if h == nil {
		return m.add(added, record{op: op, Step: s})
	}
	if i, ok := h.by[s.Position]; ok && h.pins[i].ID != s.ID {
		return nil, &Error{s, h.pins[i]}
	} else if ok && (!s.ByName || h.at == i) {
		return added, nil
	}
	if s.ByName && h.at >= 0 {
		if order, ok := comparePositions(s.Position, h.pins[h.at].Position); !ok || order < 0 {
			return nil, &Error{s, h.pins[h.at]}
		}
	}
	return m.add(added, record{op: op, Step: s})
}

// once sets the position of a step, or returns an error if it was applied before.
func (m *memory) once(s Step) (Step, error) {
	s.Position, s.ByName = "1", false
	if h := m.names[subject{s.Source, s.Name}]; h != nil {
		for _, seen := range h.pins {
			if seen.ID == s.ID {
				return s, &Error{s, seen}
			}
		}
		s.Position = strconv.Itoa(len(h.pins) + 1)
	}
	return s, nil
}

// add appends a record to added, and applies it to m.
func (m *memory) add(added []byte, r record) ([]byte, error) {
	r.prev = m.last
	added, m.last = r.append(added)
	m.take(r)
	return added, nil
}

// take applies a record to m.
func (m *memory) take(r record) {
	key := subject{r.Source, r.Name}
	if r.op == opForget {
		delete(m.names, key)
		return
	}
	h := m.names[key]
	if h == nil {
		h = &history{by: map[string]int{}, at: -1}
		m.names[key] = h
	}
	if _, ok := counter(r.Position); ok && r.op == opMove {
		// A counter that a name has left behind is always refused, so its id need not be remembered.
		h.pins = slices.DeleteFunc(h.pins, func(s Step) bool {
			order, ok := comparePositions(s.Position, r.Position)
			return ok && order < 0
		})
		clear(h.by)
		for i, s := range h.pins {
			h.by[s.Position] = i
		}
	}
	i, ok := h.by[r.Position]
	if !ok {
		i = len(h.pins)
		h.by[r.Position] = i
		h.pins = append(h.pins, r.Step)
	}
	if r.op == opMove {
		h.at = i
	}
}

// steps returns the remembered steps, as Seen does.
func (m *memory) steps() []Step {
	var out []Step
	keys := slices.SortedFunc(maps.Keys(m.names), func(a, b subject) int {
		return cmp.Or(strings.Compare(a.source, b.source), strings.Compare(a.name, b.name))
	})
	for _, key := range keys {
		h := m.names[key]
		for i, s := range h.pins {
			s.ByName = i == h.at
			out = append(out, s)
		}
	}
	return out
}

// write returns the shortest journal with the content of m.
func (m *memory) write() []byte {
	b := []byte(journalHeader)
	prev := sumOf(b)
	for _, s := range m.steps() {
		op := opSeen
		if s.ByName {
			op = opMove
		}
		b, prev = record{op: op, prev: prev, Step: s}.append(b)
	}
	return b
}
