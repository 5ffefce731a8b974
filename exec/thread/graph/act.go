package graph

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/rye-build/rye/ai/capability"
	"github.com/rye-build/rye/ai/graph"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/thread/plan"
	"github.com/rye-build/rye/exec/thread/provider"
	"github.com/rye-build/rye/exec/thread/transcript"
	"github.com/rye-build/rye/manifest/jcs"
)

// call is the call of an action with these parameters, as a model would make it.
func call(id string, c *graph.Call, params map[string]any) provider.ToolCall {
	w := provider.ToolCall{ID: id, Input: object{"item_type": c.Ref.Kind, "item_id": c.Ref.ID}}
	switch c.Verb {
	case capability.Search:
		w.Name, w.Input = plan.NameSearch, params
		if params["scope"] == nil {
			w.Input = maps.Clone(params)
			w.Input["scope"] = c.Ref.Kind
		}
	case capability.Load:
		w.Name = plan.NameLoad
	case capability.Sign:
		w.Name = plan.NameSign
	default:
		w.Name, w.Input["parameters"] = plan.NameExecute, params
	}
	return w
}

// filled returns the parameters of an action.
func filled(c *graph.Call, doc object) (map[string]any, error) {
	v, err := c.Params.Fill(doc)
	if err != nil {
		return nil, tooMuch(err)
	}
	params, _ := v.(object)
	if params == nil {
		params = object{}
	}
	return params, tooDeep("what the call is given", params)
}

// act does the action of a node, again as long as hooks want it.
func (w *walk) act(ctx context.Context, n *graph.Node) (*outcome, error) {
	o := &outcome{}
	params, err := filled(n.Call, w.doc())
	if err != nil {
		o.failed = fault.Of(err)
		return o, w.failed(ctx, n, o, nil)
	}
	for attempt := int64(1); ; attempt++ {
		made, err := w.Make(ctx, []provider.ToolCall{call(fmt.Sprintf("%d.%d", w.step, attempt), n.Call, params)}, 1,
			false)
		if err != nil {
			return nil, err
		}
		o.calls++
		value, failed := unwrap(&made[0])
		if o.failed = failed; failed == nil {
			w.result = value
			break
		}
		again := false
		if err := w.failed(ctx, n, o, func() { again = true }, made[0]); err != nil {
			return nil, err
		}
		if !again {
			return o, nil
		}
		retries, _ := w.state[graph.Retries].(object)
		retries = maps.Clone(retries)
		if retries == nil {
			retries = object{}
		}
		retries[n.Name] = float64(attempt)
		o.noted = object{graph.Retries: retries}
		if err := w.Record(false, transcript.NodeStarted{Step: w.step, Node: n.Name, Kind: n.Type,
			Attempt: attempt + 1}); err != nil {
			return nil, err
		}
	}
	o.assign = object{}
	doc := w.doc()
	for _, a := range n.Assign {
		v, err := a.Value.Fill(doc)
		if err != nil {
			o.failed = fault.Of(tooMuch(err))
			break
		}
		o.assign[a.Name] = v
	}
	return o, nil
}

// failed asks the hooks about a node that failed. again is called if its call is to be made again; nil if it can't be.
func (w *walk) failed(ctx context.Context, n *graph.Node, o *outcome, again func(), made ...Made) error {
	data := object{"node": n.Name, "state": w.state, "attempt": max(o.calls, 1),
		"error": object{"code": string(o.failed.Code), "message": clip(o.failed.Text)}}
	mayRepeat := again != nil
	for _, m := range made {
		data["status"], data["risk"] = m.Status, m.Risk
		lost := slices.Contains([]string{transcript.CallUnknown, transcript.CallTimeout, transcript.CallCancelled},
			m.Status)
		mayRepeat = mayRepeat && (m.Risk == "read" || !lost)
	}
	data["repeatable"] = mayRepeat
	action, err := w.Decide(ctx, "error", data)
	if err != nil {
		return err
	}
	if o.goesOn = action == "continue"; action == "retry" && mayRepeat {
		again()
	}
	return nil
}

// unwrap returns the data of a call's result, or why the call failed.
func unwrap(m *Made) (any, *fault.Error) {
	v, _ := m.Value.(object)
	if m.Status != transcript.CallOK {
		failure, _ := v["error"].(object)
		code, _ := failure["code"].(string)
		message, _ := failure["message"].(string)
		if code == "" {
			code = string(fault.Failed)
		}
		if message == "" {
			message = "the call ended as " + m.Status
		}
		return nil, fault.New(fault.Code(code), "%s", message)
	}
	if data, wrapped := v["data"]; wrapped && v["success"] == true && len(v) == 2 {
		return data, nil
	}
	return m.Value, nil
}

// signedEvery is after how many calls of a foreach the record is signed.
const signedEvery = 100

// each does the action of a foreach for each element.
func (w *walk) each(ctx context.Context, n *graph.Node) (*outcome, error) {
	o := &outcome{}
	fail := func(err error) (*outcome, error) {
		o.failed = fault.Of(err)
		return o, w.failed(ctx, n, o, nil)
	}
	over, err := n.Over.Fill(w.doc())
	if err != nil {
		return fail(tooMuch(err))
	}
	list, isList := over.([]any)
	switch {
	case over == nil:
		return fail(fault.New(fault.Validation, "over gives nothing: expected a list"))
	case !isList:
		return fail(fault.New(fault.Validation, "over gives no list"))
	case len(list) > MaxElements:
		return fail(fault.New(fault.Resource, "the list has %d elements; at most %d are allowed", len(list),
			MaxElements).On("limit", MaxElements))
	}
	to, goesOn := w.On(n)
	keep := goesOn && to == ""
	results, left := make([]any, 0, len(list)), MaxState
	var first *Made
	for len(results) < len(list) && o.failed == nil {
		group := list[len(results):min(len(results)+n.AtOnce, len(list))]
		calls, err := w.calls(n, group, int64(len(results)))
		if err != nil {
			return fail(err)
		}
		made, err := w.Make(ctx, calls, n.AtOnce, !keep)
		if err != nil {
			return nil, err
		}
		if before := o.calls; before/signedEvery < (before+int64(len(made)))/signedEvery {
			if err := w.Record(false, transcript.Checkpoint{Turn: w.step}); err != nil {
				return nil, err
			}
		}
		o.calls += int64(len(made))
		for i := range made {
			value, failed := unwrap(&made[i])
			if failed != nil {
				if o.failed == nil && !keep && made[i].Status != transcript.CallCancelled {
					o.failed, first = failed, &made[i]
				}
				value = object{"status": "error", "error": object{"code": string(failed.Code),
					"message": clip(failed.Text)}}
			}
			results = append(results, value)
			b, err := jcs.Append(nil, value)
			if left -= len(b); (err != nil || left < 0) && o.failed == nil && n.Collect != "" {
				o.failed = fault.New(fault.Resource, "the results have more than %d bytes", MaxState).On("limit",
					MaxState)
			}
		}
	}
	if o.failed != nil {
		if first == nil {
			return o, w.failed(ctx, n, o, nil)
		}
		return o, w.failed(ctx, n, o, nil, *first)
	}
	if w.result = results; n.Collect != "" {
		o.assign = object{n.Collect: results}
	}
	return o, nil
}

// calls returns the calls of some elements.
func (w *walk) calls(n *graph.Node, elements []any, at int64) ([]provider.ToolCall, error) {
	all := make([]provider.ToolCall, len(elements))
	for i, element := range elements {
		doc := w.doc()
		doc[n.As] = element
		params, err := filled(n.Call, doc)
		if err != nil {
			return nil, err
		}
		all[i] = call(fmt.Sprintf("%d.%d", w.step, at+int64(i)+1), n.Call, params)
	}
	return all, nil
}
