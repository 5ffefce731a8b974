package toolcall

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/ai/permission"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/template/params"
	"github.com/rye-build/rye/exec/thread/limits"
	"github.com/rye-build/rye/manifest/jcs"
)

// schema is what thread_directive takes.
var schema = sync.OnceValues(func() (*params.Schema, error) {
	limit := object{}
	for _, name := range limits.Names() {
		limit[name] = object{"type": "number"}
	}
	return params.Compile(object{"type": "object", "required": []any{"directive_name"}, "additionalProperties": false,
		"properties": object{
			"directive_name": object{"type": "string"}, "async_exec": object{"type": "boolean"},
			"inputs": object{"type": "object"},
			"model":  object{"type": "string"}, "limit_overrides": object{"type": "object", "properties": limit,
				"additionalProperties": false},
		}})
})

// A ChildArgs is a thread that is to be started.
type ChildArgs struct {
	Directive model.Ref
	Inputs    map[string]any
	Model     string   // "" for the directive's
	Limits    []string // NAME=VALUE
	Async     bool     // it runs in a process of its own
}

// ParseChild reads the parameters.
func ParseChild(values map[string]any) (*ChildArgs, error) {
	s, err := schema()
	if err == nil {
		values, err = s.Complete(values)
	}
	if err != nil {
		return nil, fault.Wrap(err, "invalid parameters for %q: %v", "tool:"+permission.Starts, err)
	}
	name, _ := values["directive_name"].(string)
	child := &ChildArgs{}
	child.Async, _ = values["async_exec"].(bool)
	if child.Directive, err = model.ParseRef("directive:" + strings.TrimPrefix(name, "directive:")); err != nil {
		return nil, fault.Wrap(err, "invalid directive: %v", err)
	}
	child.Inputs, _ = values["inputs"].(object)
	child.Model, _ = values["model"].(string)
	overrides, _ := values["limit_overrides"].(object)
	for _, name := range slices.Sorted(maps.Keys(overrides)) {
		n, _ := jcs.Number(overrides[name])
		child.Limits = append(child.Limits, name+"="+strconv.FormatFloat(n, 'f', -1, 64))
	}
	return child, nil
}
