package toolcall

import (
	"cmp"
	"context"
	"fmt"

	"github.com/rye-build/rye/ai/capability"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/agenttools"
	"github.com/rye-build/rye/exec/thread/hook"
	"github.com/rye-build/rye/exec/thread/plan"
	"github.com/rye-build/rye/exec/thread/provider"
	"github.com/rye-build/rye/exec/thread/transcript"
	"github.com/rye-build/rye/manifest/jcs"
)

// ForHook returns the call that a hook makes, as a model's, or the text that it names: those are read without a
// permission.
func (m *Maker) ForHook(ctx context.Context, hook *hook.Hook, params map[string]any) (c *provider.ToolCall, text any,
	err error) {
	switch {
	case hook.Verb == capability.Search:
		return &provider.ToolCall{Name: plan.NameSearch, Input: params}, nil, nil
	case hook.Verb != capability.Load && hook.Ref.Kind == "tool":
		return &provider.ToolCall{Name: plan.NameExecute,
				Input: object{"item_type": hook.Ref.Kind, "item_id": hook.Ref.ID, "parameters": params,
					"dry_run": hook.Dry}},
			nil,
			nil
	}
	it, err := m.session.Item(ctx, hook.Ref)
	switch {
	case err != nil:
		return nil, nil, err
	case it.Model.Directive == nil && it.Model.Knowledge == nil:
		return nil, string(it.Bytes), nil
	}
	text, err = agenttools.Text(it, params)
	return nil, text, err
}

// Said returns what a call of a hook gave, whose text is known.
func (c *Call) Said(text string) (any, error) {
	if c.Result.Status != transcript.CallOK {
		if e := c.Result.Error; e != nil {
			return nil, fault.New(fault.Code(e.Code), "%s", e.Message)
		}
		return nil, fault.New(fault.Failed, "the tool %q failed", c.Ref)
	}
	v, err := jcs.Parse([]byte(text))
	if m, ok := v.(map[string]any); ok && m["success"] == true {
		v = m["data"]
	}
	return v, err
}

// Before is what hooks know of a call before it is made.
func (c *Call) Before() map[string]any {
	data := c.Doc()
	if data["input"] = c.Input; c.Input == nil {
		data["input"] = object{}
	}
	return data
}

// After is what hooks know of a call that was made.
func (c *Call) After() map[string]any {
	data := c.Doc()
	data["status"] = c.Result.Status
	if e := c.Result.Error; e != nil {
		data["error"] = object{"code": e.Code, "message": e.Message, "type": hook.TypeOf(e.Code)}
	}
	return data
}

// Skip refuses a call that a hook skips.
func (c *Call) Skip(d *hook.Decision) {
	c.Risk = "read"
	c.Refuse(fault.New(fault.Denied, "%s", cmp.Or(d.Error,
		fmt.Sprintf("the hook %q skips this call", d.By))).On("hook", d.By))
}
