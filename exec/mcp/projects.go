package mcp

//lint:file-ignore SA1019 revisions before 2026-07-28 have roots

import (
	"context"
	"net/url"
	"path/filepath"
	"runtime"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/exec/session"
)

// A Project is one that a client's root lies in.
type Project struct {
	Root string
	Open Open
}

const (
	// maxProjects is how many projects of roots are open at once.
	maxProjects = 8
	maxRoots    = 100
	rootsAsked  = "roots" // the id of the question to the client
)

// projects are those of roots, opened when a call needs them.
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

// A place is the project that a call is about; its Root is "" for the server's own.
type place struct{ Project }

// take returns the session for a call.
func (s *Server) take(ctx context.Context, at place) (*session.Session, func(), error) {
	if at.Root == "" {
		return s.sets.take(ctx)
	}
	return s.others.take(ctx, at.Project)
}

// place decides which project a call is about: the server's own, or one of the client's roots. Where only the client
// can say which roots it has, ask is what to ask it. Roots count for a client that the user has started alone: over
// HTTP, a client is not the user, and could name any directory.
func (s *Server) place(path string, q *mcp.CallToolRequest) (at place, ask mcp.InputRequestMap, err error) {
	if s.o.Project != "" && (path == "" || within(path, s.o.Project)) {
		return place{}, nil, nil
	}
	var roots []string
	if t, _ := tokenOf(q.Extra); t == nil && s.o.At != nil && hasRoots(q.Session) {
		answer, ok := q.Params.InputResponses[rootsAsked].(*mcp.ListRootsResult)
		if !ok {
			return place{}, mcp.InputRequestMap{rootsAsked: &mcp.ListRootsParams{}}, nil
		}
		roots = directories(answer)
	}
	dir := ""
	switch {
	case path == "" && len(roots) == 1:
		dir = roots[0]
	case path == "":
		return place{}, nil, fault.New(fault.Validation,
			"this server was started outside of any project, and the client has %s: pass project_path",
			fault.Count(int64(len(roots)), "root")).On("roots", roots).Try("rye mcp serve -C DIR")
	default:
		for _, root := range roots {
			if within(path, root) {
				dir = filepath.Clean(path)
			}
		}
	}
	if dir == "" {
		return place{}, nil, fault.New(fault.Validation, "project_path is %q, and this server serves %q", path,
			s.o.Project).
			On("roots", roots).Try("rye mcp serve -C " + fault.Quote(path))
	}
	p, err := s.o.At(dir)
	return place{p}, nil, err
}

// within reports whether an absolute path lies in a directory.
func within(path, dir string) bool {
	rel, err := filepath.Rel(osfile.Unlinked(dir), osfile.Unlinked(filepath.Clean(path)))
	return filepath.IsAbs(path) && err == nil && filepath.IsLocal(rel)
}

func hasRoots(s *mcp.ServerSession) bool {
	p := s.InitializeParams()
	return p != nil && p.Capabilities != nil && p.Capabilities.RootsV2 != nil
}

// directories are the roots that are directories here.
func directories(answer *mcp.ListRootsResult) []string {
	dirs := []string{}
	for _, r := range answer.Roots {
		if r == nil || len(dirs) == maxRoots {
			continue
		}
		u, err := url.Parse(r.URI)
		if err != nil || u.Scheme != "file" || u.Host != "" && u.Host != "localhost" {
			continue
		}
		path := u.Path
		if runtime.GOOS == "windows" {
			path = strings.TrimPrefix(path, "/")
		}
		if path = filepath.FromSlash(path); filepath.IsAbs(path) {
			dirs = append(dirs, filepath.Clean(path))
		}
	}
	return dirs
}
