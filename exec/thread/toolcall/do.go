package toolcall

import (
	"cmp"
	"context"
	"strings"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/capability"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/ai/search/query"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec"
	"github.com/rye-build/rye/exec/agenttools"
	"github.com/rye-build/rye/exec/session"
	"github.com/rye-build/rye/exec/template/params"
	"github.com/rye-build/rye/exec/thread/control"
)

// execute runs a tool in the sandbox for strangers, as the user isn't present. If the directives that lead to the call
// are the user's own, so are their tools. name is what the record calls the call.
func (m *Maker) execute(ctx context.Context, name string, it *ai.Item, given object, dry bool) (*Answer, error) {
	ref, session := it.Ref, m.session
	call := &exec.Call{Ref: ref, Door: m.flow.Door(m.o.Approver, m.o.Thread, name, m.plan.Directive.Ref.String()),
		Params:    params.Values(given),
		Principal: m.o.Principal, Stranger: true, Declared: m.o.Own, Within: &m.plan.Caps, Dry: dry}
	if dry {
		p, err := session.Prepare(ctx, call)
		if err != nil {
			return nil, err
		}
		plan := object{"dry_run": true, "ref": ref.String()}
		if p.Asks != "" {
			plan["approval"] = "needed: " + p.Asks
		}
		return &Answer{Value: plan}, p.Close()
	}
	m.flow.Add(it.Ref, it.Model.Tags)
	r, err := session.Call(control.As(ctx, &control.Self{Thread: m.o.Thread, Allows: m.plan.Allows}), call, nil)
	if err != nil {
		return nil, err
	}
	value := object{"success": !r.Failed, "data": r.Value}
	if r.Failed {
		value["error"] = object{"code": cmp.Or(r.Code, string(fault.Failed)),
			"message": cmp.Or(r.Failure, r.Ended, "the tool failed")}
	}
	return &Answer{Value: value, Failed: r.Failed, exec: r}, nil
}

// search finds items, those that the permissions are about.
func (m *Maker) search(ctx context.Context, words, scope string, limit int) (*Answer, error) {
	found, err := agenttools.Find(ctx, m.session, words, scope, limit, func(s query.Scope) error {
		if s.Kind == "" {
			return fault.New(fault.Validation, "the scope %q names no kind of items", scope)
		}
		return m.plan.Allows(capability.Search, s.Kind, s.ID)
	})
	if err != nil {
		return nil, err
	}
	others, err := agenttools.Registries(ctx, m.session, m.reader(), words, scope, limit)
	if err != nil {
		return nil, err
	}
	hits := []any{}
	for _, h := range found.Results {
		hits = append(hits, object{"ref": h.Ref, "title": h.Title, "description": h.Description})
	}
	value := object{"total": found.Total, "results": hits}
	if others != nil {
		value["registries"] = others
	}
	return &Answer{Value: value}, nil
}

// reader names the thread for the audit log.
func (m *Maker) reader() session.Reader {
	return session.Reader{Principal: m.o.Principal, Thread: m.o.Thread}
}

// load decides about a call that reads an item's file, or what a registry of the project has under its ref.
func (m *Maker) load(ctx context.Context, call *Call, ref model.Ref) *Call {
	var missing error
	if ref.Kind == agenttools.BundleKind {
		call.Ref = ref
		missing = m.plan.Allows(capability.Load, ref.Kind, ref.ID)
		if missing != nil {
			return call.Refuse(missing)
		}
	} else {
		var it *ai.Item
		if it, missing = m.permitted(ctx, call, capability.Load, ref); missing == nil {
			call.do = func(context.Context) (*Answer, error) {
				return &Answer{Value: object{"ref": ref.String(), "text": string(it.Bytes)}}, nil
			}
			return call
		}
	}
	call.do = func(ctx context.Context) (*Answer, error) {
		text, err := agenttools.LoadOffered(ctx, m.session, m.reader(), ref, missing)
		return &Answer{Value: text}, err
	}
	return call
}

// give makes a call one that returns the outputs of the directive.
func (m *Maker) give(c *Call, values object) *Call {
	c.Inside = true
	c.do = func(context.Context) (*Answer, error) {
		if err := m.checkOutputs(values); err != nil {
			return nil, err
		}
		m.Return(values)
		return &Answer{Value: object{"success": true}}, nil
	}
	return c
}

// checkOutputs refuses what isn't the outputs that the directive declares.
func (m *Maker) checkOutputs(values object) error {
	outputs := m.plan.Says.Outputs
	var missing []string
	for _, o := range outputs {
		if values[o.Name] == nil {
			missing = append(missing, o.Name)
		}
	}
	switch {
	case len(outputs) == 0:
		return fault.New(fault.Validation, "the directive declares no outputs")
	case len(missing) > 0:
		return fault.New(fault.Validation, "outputs are missing: %s", strings.Join(missing, ", ")).On("missing",
			missing)
	}
	schema, err := params.Compile(m.plan.Directive.Model.Interface().Output)
	if err == nil {
		err = schema.Check(values)
	}
	return err
}
