// Package agenttools is the three tools of an agent: search, load and execute, for the items that a session sees.
//
// MCP clients reach them through package exec/mcp, tools through rye/primary/rye_search, rye_load and rye_execute
// (Functions), and the models of threads through package exec/thread/toolcall, which checks the thread's permissions
// first.
//
// # How a call goes through here
//
// Search finds items, and asks the registries of the project where rye.yaml says so (Registries). Load returns an
// item's file, or, marked as not locked, that of a registry's bundle (LoadOffered): text to read, and the command by
// which a person would add it.
//
// Execute returns the text of knowledge or of a directive by Item and Text, which fills in the inputs. A tool goes to
// session.Prepare if the call is dry, else to session.Call.
package agenttools

import (
	"cmp"
	"context"
	"strings"

	"github.com/rye-build/rye/ai/find"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/ai/permission"
	"github.com/rye-build/rye/ai/search"
	"github.com/rye-build/rye/ai/search/query"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec"
	"github.com/rye-build/rye/exec/primitive"
	"github.com/rye-build/rye/exec/session"
	"github.com/rye-build/rye/exec/template/params"
)

type object = map[string]any

// maxAbout is the longest line about an item, in bytes, that Search returns.
const maxAbout = 120

// DefaultHits and MaxHits say how many items a search returns by default, and at most.
const (
	DefaultHits = 10
	MaxHits     = 20
)

// Find finds items by words, in a scope that allowed accepts; a nil allowed accepts every scope.
func Find(ctx context.Context, session *session.Session, words, scope string, limit int,
	allowed func(query.Scope) error) (*find.Found, error) {
	in, err := query.ParseScope(scope)
	if err == nil && allowed != nil {
		err = allowed(in)
	}
	if err != nil {
		return nil, err
	}
	q, err := query.Parse(words)
	if err != nil {
		return nil, err
	}
	return session.Search(ctx, search.Request{Query: q, Scope: in, Limit: limit})
}

// Search finds items by words, and returns their refs with a line about each, and what registries have.
func Search(ctx context.Context, s *session.Session, by session.Reader, words, scope string, limit int) (
	map[string]any, error) {
	found, err := Find(ctx, s, words, scope, limit, nil)
	if err != nil {
		return nil, err
	}
	others, err := Registries(ctx, s, by, words, scope, limit)
	if err != nil {
		return nil, err
	}
	hits := []any{}
	for _, h := range found.Results {
		about, _, _ := strings.Cut(cmp.Or(h.Description, h.Title), "\n")
		hits = append(hits, object{"ref": h.Ref, "about": fault.Clip(about, maxAbout)})
	}
	answer := object{"total": found.Total, "results": hits}
	if others != nil {
		answer["registries"] = others
	}
	return answer, nil
}

// Load returns the file of an item, or what a registry has under its ref.
func Load(ctx context.Context, s *session.Session, by session.Reader, ref model.Ref) (map[string]any, error) {
	if ref.Kind == BundleKind {
		return LoadOffered(ctx, s, by, ref, nil)
	}
	it, err := s.Item(ctx, ref)
	if err != nil {
		return LoadOffered(ctx, s, by, ref, err)
	}
	return object{"ref": ref.String(), "digest": it.Raw.String(), "text": string(it.Bytes)}, nil
}

// Execute runs a tool, or returns the text of knowledge or of a directive with its inputs. caller names the item and
// the caller, and says whether the call is dry; given are the parameters. A tool's output goes to the sink while it
// runs; a nil sink drops it. A tool that fails is an error, whose detail "data" is the tool's result.
func Execute(ctx context.Context, session *session.Session, caller *exec.Call, given map[string]any,
	to primitive.Sink) (map[string]any, error) {
	ref := caller.Ref.String()
	if caller.Ref.Kind != "tool" {
		it, err := session.Item(ctx, caller.Ref)
		if err != nil {
			return nil, err
		}
		return Text(it, given)
	}
	if permission.IsThreads(caller.Ref.ID) {
		return nil, fault.New(fault.Validation, "%q is for threads", ref).On("ref", ref)
	}
	call := *caller
	call.Params = params.Values(given)
	if call.Dry {
		p, err := session.Prepare(ctx, &call)
		if err != nil {
			return nil, err
		}
		return object{"dry_run": true, "ref": ref, "success": true}, p.Close()
	}
	r, err := session.Call(ctx, &call, to)
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
