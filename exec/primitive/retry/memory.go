package retry

import (
	"container/list"
	"slices"
	"sync"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/exec/primitive"
	"github.com/rye-build/rye/manifest/jcs"
)

const (
	// MaxAnswer is the largest answer that is cached, with its output.
	MaxAnswer = 1 << 20
	// MaxMemory bounds all cached answers together.
	MaxMemory = 64 << 20
)

// A memory caches answers, the least recently used last.
type memory struct {
	mu    sync.Mutex
	at    map[cas.Digest]*list.Element
	order list.List      // of *answer
	tools map[string]int // number of answers by tool
	size  int
}

type answer struct {
	id     cas.Digest
	tool   string
	result primitive.Result // its value is a private copy
	output []chunk
	size   int
	since  time.Time
}

// A chunk is a piece of output.
type chunk struct {
	stream primitive.Stream
	b      []byte
}

// get returns an answer that is not too old, or nil.
func (m *memory) get(id cas.Digest, ttl time.Duration, now time.Time) *answer {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.at[id]
	if e == nil {
		return nil
	}
	a := e.Value.(*answer)
	if age := now.Sub(a.since); age > ttl || age < 0 {
		m.drop(e)
		return nil
	}
	m.order.MoveToFront(e)
	return a
}

// put adds an answer, and drops old ones so that its tool has at most most answers.
func (m *memory) put(kept *answer, most int) {
	text, err := jcs.Append(nil, kept.result.Value)
	if err != nil {
		return
	}
	kept.size += len(text)
	if kept.size > MaxAnswer {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.at == nil {
		m.at, m.tools = map[cas.Digest]*list.Element{}, map[string]int{}
	}
	if e := m.at[kept.id]; e != nil {
		m.drop(e)
	}
	m.at[kept.id] = m.order.PushFront(kept)
	m.tools[kept.tool]++
	m.size += kept.size
	for e := m.order.Back(); e != nil && (m.tools[kept.tool] > most || m.size > MaxMemory); {
		before := e.Prev()
		if m.size > MaxMemory || e.Value.(*answer).tool == kept.tool {
			m.drop(e)
		}
		e = before
	}
}

func (m *memory) drop(e *list.Element) {
	a := m.order.Remove(e).(*answer)
	delete(m.at, a.id)
	m.size -= a.size
	if m.tools[a.tool]--; m.tools[a.tool] == 0 {
		delete(m.tools, a.tool)
	}
}

// copied returns a deep copy of a JSON value.
func copied(val any) any {
	switch v := val.(type) {
	case []any:
		list := slices.Clone(v)
		for i := range list {
			list[i] = copied(list[i])
		}
		return list
	case map[string]any:
		m := make(map[string]any, len(v))
		for name, one := range v {
			m[name] = copied(one)
		}
		return m
	}
	return val
}
