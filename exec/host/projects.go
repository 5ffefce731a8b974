package host

import (
	"context"
	"sync"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/session"
)

// A Project is another one than the host's own, which its Root names.
type Project struct {
	Root string
	Open Open
}

// maxProjects is how many projects beside the own one are open at once.
const maxProjects = 8

// projects are the others, opened when a call needs them.
type projects struct {
	warn func(error)

	mu    sync.Mutex
	all   map[string]*entry // by root
	clock int64
}

// An entry is in use while calls have it.
type entry struct {
	sets  sets
	calls int
	used  int64
}

// take returns the session of a project for a call, which calls done at its end.
func (p *projects) take(ctx context.Context, of Project) (*session.Session, func(), error) {
	e, err := p.entry(of)
	if err != nil {
		return nil, nil, err
	}
	leave := func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		e.calls--
	}
	s, done, err := e.sets.take(ctx)
	if err != nil {
		leave()
		return nil, nil, err
	}
	return s, func() { done(); leave() }, nil
}

// entry returns a project's entry, in whose place the one goes that was used longest ago.
func (p *projects) entry(of Project) (*entry, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clock++
	found := p.all[of.Root]
	if found == nil {
		if len(p.all) >= maxProjects && !p.evict() {
			return nil, fault.New(fault.Busy, "calls of %d other projects run already", maxProjects)
		}
		if p.all == nil {
			p.all = map[string]*entry{}
		}
		found = &entry{sets: sets{open: of.Open, warn: p.warn}}
		p.all[of.Root] = found
	}
	found.calls++
	found.used = p.clock
	return found, nil
}

// evict closes the project that was used longest ago and that no call has.
func (p *projects) evict() bool {
	oldest := ""
	for root, e := range p.all {
		if e.calls == 0 && (oldest == "" || e.used < p.all[oldest].used) {
			oldest = root
		}
	}
	if oldest == "" {
		return false
	}
	p.all[oldest].sets.close()
	delete(p.all, oldest)
	return true
}

func (p *projects) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range p.all {
		e.sets.close()
	}
	p.all = nil
}
