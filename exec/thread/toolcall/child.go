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
func ParseChild(given map[string]any) (*ChildArgs, error) {
	s, err := schema()
	if err == nil {
		given, err = s.Complete(given)
	}
	if err != nil {
		return nil, fault.Wrap(err, "invalid parameters for %q: %v", "tool:"+permission.Starts, err)
	}
	name, _ := given["directive_name"].(string)
	c := &ChildArgs{}
	c.Async, _ = given["async_exec"].(bool)
	if c.Directive, err = model.ParseRef("directive:" + strings.TrimPrefix(name, "directive:")); err != nil {
		return nil, fault.Wrap(err, "invalid directive: %v", err)
	}
	c.Inputs, _ = given["inputs"].(object)
	c.Model, _ = given["model"].(string)
	overrides, _ := given["limit_overrides"].(object)
	for _, name := range slices.Sorted(maps.Keys(overrides)) {
		n, _ := jcs.Number(overrides[name])
		c.Limits = append(c.Limits, name+"="+strconv.FormatFloat(n, 'f', -1, 64))
	}
	return c, nil
}
