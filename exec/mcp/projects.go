package mcp

//lint:file-ignore SA1019 revisions before 2026-07-28 have roots

import (
	"net/url"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/exec/host"
)

const (
	maxRoots   = 100
	rootsAsked = "roots" // the id of the question to the client
)

// place decides which project a call is about: the server's own, or one of the client's roots. Where only the client
// can say which roots it has, ask is what to ask it. Roots count for a client that the user has started alone: over
// HTTP, a client is not the user, and could name any directory.
func (s *Server) place(path string, q *mcp.CallToolRequest) (at host.Project, ask mcp.InputRequestMap, err error) {
	if s.o.Project != "" && (path == "" || within(path, s.o.Project)) {
		return host.Project{}, nil, nil
	}
	var roots []string
	if t, _ := tokenOf(q.Extra); t == nil && s.o.At != nil && hasRoots(q.Session) {
		answer, ok := q.Params.InputResponses[rootsAsked].(*mcp.ListRootsResult)
		if !ok {
			return host.Project{}, mcp.InputRequestMap{rootsAsked: &mcp.ListRootsParams{}}, nil
		}
		roots = directories(answer)
	}
	dir := ""
	switch {
	case path == "" && len(roots) == 1:
		dir = roots[0]
	case path == "":
		return host.Project{}, nil, fault.New(fault.Validation,
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
		return host.Project{}, nil, fault.New(fault.Validation, "project_path is %q, and this server serves %q", path,
			s.o.Project).
			On("roots", roots).Try("rye mcp serve -C " + fault.Quote(path))
	}
	at, err = s.o.At(dir)
	return at, nil, err
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
