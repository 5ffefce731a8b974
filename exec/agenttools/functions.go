package agenttools

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/rye-build/rye/ai/capability"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/ai/model/fields"
	"github.com/rye-build/rye/ai/search/query"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/portable"
	"github.com/rye-build/rye/exec"
	"github.com/rye-build/rye/exec/primitive"
	"github.com/rye-build/rye/exec/primitive/function"
	"github.com/rye-build/rye/exec/session"
	"github.com/rye-build/rye/manifest/jcs"
)

// Functions returns the functions of the tools rye/primary/rye_search, rye_load and rye_execute, for calls of a
// session. Each needs the permission for its item. A tool that execute runs gets the grants of execute's caller;
// rye_execute itself declares none.
func Functions(session *session.Session) function.Functions {
	return function.Functions{
		"search": function.Of(searching.needs, func(ctx context.Context, _ *function.Call, p searching) (any, error) {
			found, err := Search(ctx, session, readerOf(ctx), p.Query, p.Scope, p.Limit)
			return answer(ctx, found, err)
		}),
		"load": function.Of(item.loads, func(ctx context.Context, _ *function.Call, p item) (any, error) {
			ref, err := p.ref()
			if err != nil {
				return function.No(ctx, err)
			}
			file, err := Load(ctx, session, readerOf(ctx), ref)
			return answer(ctx, file, err)
		}),
		"execute": function.Of(execution.needs, func(ctx context.Context, c *function.Call, p execution) (any, error) {
			done, err := p.run(ctx, session, c)
			return answer(ctx, done, err)
		}),
	}
}

// readerOf names the caller of a function for the audit log.
func readerOf(ctx context.Context) session.Reader {
	_, call := exec.CallerOf(ctx).Pass(ctx, model.Ref{})
	by := session.Reader{Principal: call.Principal, Tenant: call.Tenant}
	if call.Door != nil {
		by.Thread = call.Door.Thread
	}
	return by
}

// answer is what a function returns.
func answer(ctx context.Context, value map[string]any, err error) (any, error) {
	if err != nil {
		return function.No(ctx, err)
	}
	return function.Yes(value)
}

// need returns one permission. Invalid words need the permission for everything; the call refuses them later.
func need(verb, kind, id string) function.Need {
	c, err := capability.For(verb, kind, id)
	if err != nil {
		c, _ = capability.Parse(verb + ":*:*")
	}
	return function.Need{Permissions: []capability.Capability{c}}
}

type searching struct {
	Query string `json:"query"`
	Scope string `json:"scope"`
	Limit int    `json:"limit"`
}

func (p searching) needs() function.Need {
	if s, err := query.ParseScope(p.Scope); err == nil && s.Kind != "" {
		return need(capability.Search, s.Kind, s.ID)
	}
	return need(capability.Search, "*", "*")
}

type item struct {
	Kind string `json:"item_type"`
	ID   string `json:"item_id"`
}

// BareID returns the id of an item of a kind. A ref of that kind, as a search answers it, is taken too.
func BareID(kind, id string) string { return strings.TrimPrefix(id, kind+":") }

func (p item) ref() (model.Ref, error) {
	id := BareID(p.Kind, p.ID)
	if p.Kind == BundleKind && portable.CheckID(id) == nil {
		return model.Ref{Kind: BundleKind, ID: id}, nil // of a registry, which load alone takes
	}
	ref, err := model.ParseRef(p.Kind + ":" + id)
	if other, _, is := strings.Cut(id, ":"); is {
		return ref, fault.New(fault.Validation, "item_id %s is of the kind %q, and item_type is %q",
			fields.Quote(p.ID), fields.Clip(other), fields.Clip(p.Kind)).
			Because("item_type is the part of a ref before the colon, and item_id the part behind it")
	}
	if err != nil {
		return ref, fault.Wrap(err, "invalid item: %v", err)
	}
	return ref, nil
}

func (p item) loads() function.Need { return need(capability.Load, p.Kind, BareID(p.Kind, p.ID)) }

type execution struct {
	Kind       string          `json:"item_type"`
	ID         string          `json:"item_id"`
	Parameters json.RawMessage `json:"parameters"`
	Dry        bool            `json:"dry_run"`
}

func (p execution) needs() function.Need {
	return need(capability.Execute, p.Kind, BareID(p.Kind, p.ID))
}

// run runs the item in the name of the tool's caller.
func (p execution) run(ctx context.Context, session *session.Session, caller *function.Call) (map[string]any, error) {
	ref, err := item{p.Kind, p.ID}.ref()
	if err != nil {
		return nil, err
	}
	given, err := Parameters(p.Parameters)
	if err != nil {
		return nil, err
	}
	ctx, call := exec.CallerOf(ctx).Pass(ctx, ref)
	call.Dry = p.Dry
	return Execute(ctx, session, call, given, spoken{caller})
}

// Parameters reads an item's parameters: a JSON object, or a string that contains one.
func Parameters(text []byte) (map[string]any, error) {
	if len(text) == 0 {
		return object{}, nil
	}
	v, err := jcs.Parse(text)
	if s, ok := v.(string); err == nil && ok {
		v, err = jcs.Parse([]byte(s))
	}
	given, ok := v.(object)
	if err == nil && v == nil {
		given, ok = object{}, true
	}
	if err != nil || !ok {
		return nil, fault.New(fault.Validation, "parameters must be an object")
	}
	return given, nil
}

// spoken sends a tool's output to standard error: standard output is for the answer.
type spoken struct{ *function.Call }

func (s spoken) Emit(_ primitive.Stream, b []byte) error {
	_, err := s.Errs.Write(b)
	return err
}
