// Package primary is what an agent does with items, whatever door it comes through: it searches, reads and runs what
// is pinned. The server of package mcp calls these functions, and so do the tools rye/primary/rye_search, rye_load and
// rye_execute.
package primary

import (
	"cmp"
	"context"
	"strings"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/ai/permission"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec"
	"github.com/rye-build/rye/exec/primitive"
	"github.com/rye-build/rye/exec/session"
	"github.com/rye-build/rye/exec/template/params"
	"github.com/rye-build/rye/exec/thread/toolcall"
)

type object = map[string]any

// maxAbout is how long the line about an item may be that Search returns.
const maxAbout = 120

// DefaultHits is how many items a search returns if nothing else is asked for.
const DefaultHits = 10

// Search returns items by words: their refs, with a line about each.
func Search(ctx context.Context, s *session.Session, words, scope string, limit int) (map[string]any, error) {
	found, err := toolcall.Search(ctx, s, words, scope, limit, nil)
	if err != nil {
		return nil, err
	}
	hits := []any{}
	for _, h := range found.Results {
		about, _, _ := strings.Cut(cmp.Or(h.Description, h.Title), "\n")
		hits = append(hits, object{"ref": h.Ref, "about": fault.Clip(about, maxAbout)})
	}
	return object{"total": found.Total, "results": hits}, nil
}

// Load returns the file of an item.
func Load(ctx context.Context, s *session.Session, ref model.Ref) (map[string]any, error) {
	it, err := s.Item(ctx, ref)
	if err != nil {
		return nil, err
	}
	return object{"ref": ref.String(), "digest": it.Raw.String(), "text": string(it.Bytes)}, nil
}

// Execute runs a tool, or returns the text of a directive, its inputs filled in, or of knowledge. The call says which
// item, who calls, and whether it is dry; given is what the item takes. What a tool writes meanwhile goes to the sink,
// nil for nowhere. A tool that fails is an error, with what it returned.
func Execute(ctx context.Context, s *session.Session, c *exec.Call, given map[string]any,
	to primitive.Sink) (map[string]any, error) {
	ref := c.Ref.String()
	if c.Ref.Kind != "tool" {
		it, err := s.Item(ctx, c.Ref)
		if err != nil {
			return nil, err
		}
		return toolcall.Text(it, given)
	}
	if permission.IsThreads(c.Ref.ID) {
		return nil, fault.New(fault.Validation, "%q is for threads", ref).On("ref", ref)
	}
	call := *c
	call.Params = params.Values(given)
	if call.Dry {
		p, err := s.Prepare(ctx, &call)
		if err != nil {
			return nil, err
		}
		return object{"dry_run": true, "ref": ref, "success": true}, p.Close()
	}
	r, err := s.Call(ctx, &call, to)
	if err != nil {
		return nil, err
	}
	if r.Failed {
		return nil, fault.New(fault.Code(cmp.Or(r.Code, string(fault.Failed))), "%q: %s", ref,
			cmp.Or(r.Failure, r.Ended, "the tool failed")).
			On("ref", ref).On("receipt", r.Digest.String()).On("data", r.Value)
	}
	return object{"ref": ref, "success": true, "data": r.Value, "receipt": r.Digest.String()}, nil
}
