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
func call(id string, action *graph.Call, params map[string]any) provider.ToolCall {
	wanted := provider.ToolCall{ID: id, Input: object{"item_type": action.Ref.Kind, "item_id": action.Ref.ID}}
	switch action.Verb {
	case capability.Search:
		wanted.Name, wanted.Input = plan.NameSearch, params
		if params["scope"] == nil {
			wanted.Input = maps.Clone(params)
			wanted.Input["scope"] = action.Ref.Kind
		}
	case capability.Load:
		wanted.Name = plan.NameLoad
	case capability.Sign:
		wanted.Name = plan.NameSign
	default:
		wanted.Name, wanted.Input["parameters"] = plan.NameExecute, params
	}
	return wanted
}

// filled returns the parameters of an action.
func filled(action *graph.Call, doc object) (map[string]any, error) {
	value, err := action.Params.Fill(doc)
	if err != nil {
		return nil, tooMuch(err)
	}
	params, _ := value.(object)
	if params == nil {
		params = object{}
	}
	return params, tooDeep("what the call is given", params)
}

// act does the action of a node, again as long as hooks want it.
func (w *walk) act(ctx context.Context, node *graph.Node) (*outcome, error) {
	ending := &outcome{}
	params, err := filled(node.Call, w.doc())
	if err != nil {
		ending.failed = fault.Of(err)
		return ending, w.failed(ctx, node, ending, nil)
	}
	for attempt := int64(1); ; attempt++ {
		wanted := call(fmt.Sprintf("%d.%d", w.step, attempt), node.Call, params)
		made, err := w.Make(ctx, []provider.ToolCall{wanted}, 1, false)
		if err != nil {
			return nil, err
		}
		ending.calls++
		value, failed := unwrap(&made[0])
		if ending.failed = failed; failed == nil {
			w.result = value
			break
		}
		again := false
		if err := w.failed(ctx, node, ending, func() { again = true }, made[0]); err != nil {
			return nil, err
		}
		if !again {
			return ending, nil
		}
		retries, _ := w.state[graph.Retries].(object)
		retries = maps.Clone(retries)
		if retries == nil {
			retries = object{}
		}
		retries[node.Name] = float64(attempt)
		ending.noted = object{graph.Retries: retries}
		if err := w.Record(false, transcript.NodeStarted{Step: w.step, Node: node.Name, Kind: node.Type,
			Attempt: attempt + 1}); err != nil {
			return nil, err
		}
	}
	ending.assign = object{}
	doc := w.doc()
	for _, a := range node.Assign {
		v, err := a.Value.Fill(doc)
		if err != nil {
			ending.failed = fault.Of(tooMuch(err))
			break
		}
		ending.assign[a.Name] = v
	}
	return ending, nil
}

// failed asks the hooks about a node that failed. again is called if its call is to be made again; nil if it can't be.
func (w *walk) failed(ctx context.Context, node *graph.Node, ending *outcome, again func(), made ...Made) error {
	data := object{"node": node.Name, "state": w.state, "attempt": max(ending.calls, 1),
		"error": object{"code": string(ending.failed.Code), "message": clip(ending.failed.Text)}}
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
	if ending.goesOn = action == "continue"; action == "retry" && mayRepeat {
		again()
	}
	return nil
}

// unwrap returns the data of a call's result, or why the call failed.
func unwrap(made *Made) (any, *fault.Error) {
	value, _ := made.Value.(object)
	if made.Status != transcript.CallOK {
		failure, _ := value["error"].(object)
		code, _ := failure["code"].(string)
		message, _ := failure["message"].(string)
		if code == "" {
			code = string(fault.Failed)
		}
		if message == "" {
			message = "the call ended as " + made.Status
		}
		return nil, fault.New(fault.Code(code), "%s", message)
	}
	if data, wrapped := value["data"]; wrapped && value["success"] == true && len(value) == 2 {
		return data, nil
	}
	return made.Value, nil
}

// signedEvery is after how many calls of a foreach the record is signed.
const signedEvery = 100

// each does the action of a foreach for each element.
func (w *walk) each(ctx context.Context, node *graph.Node) (*outcome, error) {
	ending := &outcome{}
	fail := func(err error) (*outcome, error) {
		ending.failed = fault.Of(err)
		return ending, w.failed(ctx, node, ending, nil)
	}
	over, err := node.Over.Fill(w.doc())
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
	target, goesOn := w.On(node)
	keep := goesOn && target == ""
	results, left := make([]any, 0, len(list)), MaxState
	var first *Made
	for len(results) < len(list) && ending.failed == nil {
		group := list[len(results):min(len(results)+node.AtOnce, len(list))]
		calls, err := w.calls(node, group, int64(len(results)))
		if err != nil {
			return fail(err)
		}
		made, err := w.Make(ctx, calls, node.AtOnce, !keep)
		if err != nil {
			return nil, err
		}
		if before := ending.calls; before/signedEvery < (before+int64(len(made)))/signedEvery {
			if err := w.Record(false, transcript.Checkpoint{Turn: w.step}); err != nil {
				return nil, err
			}
		}
		ending.calls += int64(len(made))
		for i := range made {
			value, failed := unwrap(&made[i])
			if failed != nil {
				if ending.failed == nil && !keep && made[i].Status != transcript.CallCancelled {
					ending.failed, first = failed, &made[i]
				}
				value = object{"status": "error", "error": object{"code": string(failed.Code),
					"message": clip(failed.Text)}}
			}
			results = append(results, value)
			b, err := jcs.Append(nil, value)
			if left -= len(b); (err != nil || left < 0) && ending.failed == nil && node.Collect != "" {
				ending.failed = fault.New(fault.Resource, "the results have more than %d bytes", MaxState).On("limit",
					MaxState)
			}
		}
	}
	if ending.failed != nil {
		if first == nil {
			return ending, w.failed(ctx, node, ending, nil)
		}
		return ending, w.failed(ctx, node, ending, nil, *first)
	}
	if w.result = results; node.Collect != "" {
		ending.assign = object{node.Collect: results}
	}
	return ending, nil
}

// calls returns the calls of some elements.
func (w *walk) calls(node *graph.Node, elements []any, at int64) ([]provider.ToolCall, error) {
	all := make([]provider.ToolCall, len(elements))
	for i, element := range elements {
		doc := w.doc()
		doc[node.As] = element
		params, err := filled(node.Call, doc)
		if err != nil {
			return nil, err
		}
		all[i] = call(fmt.Sprintf("%d.%d", w.step, at+int64(i)+1), node.Call, params)
	}
	return all, nil
}
