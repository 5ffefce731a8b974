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

func (m *memory) step(added []byte, step Step) ([]byte, error) {
	history := m.names[subject{step.Source, step.Name}]
	op := opSeen
	if step.ByName {
		op = opMove
	}
	if history == nil {
		return m.add(added, record{op: op, Step: step})
	}
	if i, ok := history.by[step.Position]; ok && history.pins[i].ID != step.ID {
		return nil, &Error{step, history.pins[i]}
	} else if ok && (!step.ByName || history.at == i) {
		return added, nil
	}
	if step.ByName && history.at >= 0 {
		if order, ok := comparePositions(step.Position, history.pins[history.at].Position); !ok || order < 0 {
			return nil, &Error{step, history.pins[history.at]}
		}
	}
	return m.add(added, record{op: op, Step: step})
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
func (m *memory) take(record record) {
	key := subject{record.Source, record.Name}
	if record.op == opForget {
		delete(m.names, key)
		return
	}
	known := m.names[key]
	if known == nil {
		known = &history{by: map[string]int{}, at: -1}
		m.names[key] = known
	}
	if _, ok := counter(record.Position); ok && record.op == opMove {
		// A counter that a name has left behind is always refused, so its id need not be remembered.
		known.pins = slices.DeleteFunc(known.pins, func(s Step) bool {
			order, ok := comparePositions(s.Position, record.Position)
			return ok && order < 0
		})
		clear(known.by)
		for i, s := range known.pins {
			known.by[s.Position] = i
		}
	}
	i, ok := known.by[record.Position]
	if !ok {
		i = len(known.pins)
		known.by[record.Position] = i
		known.pins = append(known.pins, record.Step)
	}
	if record.op == opMove {
		known.at = i
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
