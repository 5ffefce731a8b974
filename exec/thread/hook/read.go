package hook

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rye-build/rye/ai/capability"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/ai/model/declared"
	"github.com/rye-build/rye/ai/value"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/manifest/condition"
)

// maxHooks bounds the hooks of a thread.
const maxHooks = 256

// controlItem is the id that denotes control actions.
const controlItem = "rye/agent/threads/internal/control"

// primary is the prefix of verbs as tools.
const primary = "rye.primary."

// Sources are the sources of a thread's hooks.
type Sources struct {
	Config *value.Value // config:hook_conditions
	Events *value.Value // config:events
	Own    []declared.Hook
	Ref    model.Ref // the directive
}

// lists are the lists of hooks in config, by layer.
var lists = []struct {
	name  string
	layer int64
}{{"hooks", Hooks}, {"context_hooks", Context}, {"builtin_hooks", Builtin}, {"infra_hooks", Infra}}

// Read reads the hooks of a thread.
func Read(from Sources) (*Set, error) {
	set := new(Set)
	if types := from.Events.Get("event_types"); types != nil && types.Kind == value.Map {
		for _, e := range types.Map {
			set.events = append(set.events, e.Key)
		}
	}
	for i, h := range from.Own {
		if err := set.add(h.Value, Directive, fmt.Sprintf("hooks[%d]", i)); err != nil {
			return nil, fault.New(fault.Validation, "invalid hooks in %q: %v", from.Ref, err).On("ref",
				from.Ref.String()).Try("rye docs hooks")
		}
	}
	if err := set.config(from.Config); err != nil {
		return nil, fault.New(fault.Config, "invalid config:%s: %v", Config, err).Try("rye docs hooks")
	}
	if len(set.hooks) > maxHooks {
		return nil, fault.New(fault.Config, "%q has %d hooks with those of config:%s; at most %d are allowed",
			from.Ref, len(set.hooks), Config, maxHooks)
	}
	return set, nil
}

// config adds the hooks of config:hook_conditions.
func (s *Set) config(val *value.Value) error {
	known := []string{"schema_version", "name", "version", "category", "description", "action_primaries",
		"action_item_types"}
	for _, source := range lists {
		known = append(known, source.name)
		list := val.Get(source.name)
		if list.IsNull() {
			continue
		}
		if list.Kind != value.List {
			return fmt.Errorf("%s: expected a list", source.name)
		}
		for i, h := range list.Items {
			at := fmt.Sprintf("%s[%d]", source.name, i)
			if h.Get("id").String() == "" {
				return fmt.Errorf("%s: a hook in config needs an id", at)
			}
			if err := s.add(h, source.layer, at); err != nil {
				return err
			}
		}
	}
	if val != nil {
		for _, e := range val.Map {
			if !slices.Contains(known, e.Key) {
				return fmt.Errorf("unknown key %q: expected one of %s", e.Key, strings.Join(known, ", "))
			}
		}
	}
	return nil
}

// keys are the keys of a hook.
var keys = []string{"id", "name", "event", "condition", "when", "action", "tool", "execute", "load", "params",
	"inputs", "delay", "error", "enabled", "description"}

// add reads a hook and adds it unless it is disabled.
func (s *Set) add(v *value.Value, layer int64, at string) error {
	j, err := v.JSON()
	doc, ok := j.(map[string]any)
	if err != nil || !ok {
		return fmt.Errorf("%s: expected an object", at)
	}
	for key := range doc {
		if !slices.Contains(keys, key) {
			return fmt.Errorf("%s: unknown key %q: expected one of %s", at, key, strings.Join(keys, ", "))
		}
	}
	r := &reader{doc: doc}
	hook := r.hook(layer)
	if hook.ID == "" {
		hook.ID = at
	}
	r.events(s, hook)
	if r.err != nil {
		return fmt.Errorf("%s: %w", at, r.err)
	}
	if on, ok := doc["enabled"]; ok && (on == false || on == "false") {
		return nil
	}
	s.hooks = append(s.hooks, hook)
	return nil
}

// A reader reads one hook and keeps the first error.
type reader struct {
	doc   map[string]any
	roots []string // of the condition
	err   error
}

func (r *reader) bad(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf(format, args...)
	}
}

// text returns a text. Any other value is an error.
func (r *reader) text(in map[string]any, name string) string {
	s, ok := in[name].(string)
	if !ok && in[name] != nil {
		r.bad("%s: expected a string", name)
	}
	return strings.TrimSpace(s)
}

func (r *reader) hook(layer int64) *Hook {
	hook := &Hook{Layer: layer, ID: r.text(r.doc, "id"), text: r.text(r.doc, "error"),
		condition: new(condition.Condition)}
	if hook.ID == "" {
		hook.ID = r.text(r.doc, "name")
	}
	for _, name := range []string{"condition", "when"} {
		given := r.doc[name]
		if given == nil || given == "" {
			continue
		}
		c, problems := condition.Read(given)
		if len(problems) > 0 {
			r.bad("%s: %v", name, problems[0])
			continue
		}
		hook.condition, r.roots = c, c.Roots()
	}
	var err error
	if hook.delay, err = seconds(r.doc["delay"]); err != nil {
		r.bad("delay: %v", err)
	}
	r.action(hook)
	return hook
}

// events determines the events of a hook.
func (r *reader) events(set *Set, hook *Hook) {
	event := r.text(r.doc, "event")
	switch {
	case event != "":
		hook.events = []string{event}
	case len(r.roots) == 0:
		r.bad("event: required")
	case slices.Contains(r.roots, "error"):
		hook.events = []string{Failure, CallResult}
	default:
		hook.events = []string{AfterStep}
	}
	for _, e := range hook.events {
		if !set.Knows(e) {
			r.bad("unknown event %q: expected one of %s", e, strings.Join(set.events, ", "))
		}
	}
}

// object returns the parameters of an item. An empty XML element has "" instead of an object.
func (r *reader) object(in map[string]any, names ...string) map[string]any {
	for _, name := range names {
		switch v := in[name].(type) {
		case nil:
		case map[string]any:
			return v
		default:
			if v != "" {
				r.bad("%s: expected an object", name)
			}
		}
	}
	return map[string]any{}
}

// action reads the action of a hook.
func (r *reader) action(hook *Hook) {
	actions := 0
	for _, name := range []string{"action", "tool", "execute", "load"} {
		if r.doc[name] != nil {
			actions++
		}
	}
	if actions != 1 {
		r.bad("expected one of action, tool, execute and load")
		return
	}
	hook.params = r.object(r.doc, "params", "inputs")
	switch {
	case r.doc["tool"] != nil:
		r.tool(hook, r.text(r.doc, "tool"))
	case r.doc["execute"] != nil:
		r.named(hook, capability.Execute, r.doc["execute"])
	case r.doc["load"] != nil:
		r.named(hook, capability.Load, r.doc["load"])
	default:
		action, ok := r.doc["action"].(map[string]any)
		if !ok {
			r.control(hook, r.text(r.doc, "action"))
			return
		}
		if more := r.object(action, "params", "inputs"); len(more) > 0 {
			hook.params = more
		}
		hook.Dry = action["dry_run"] == true || action["dry_run"] == "true"
		r.item(hook, r.text(action, "primary"), r.text(action, "item_type"), r.text(action, "item_id"))
	}
}

func (r *reader) control(h *Hook, name string) {
	if !slices.Contains(controls, name) {
		r.bad("unknown action %q: expected one of %s, or an object", name, strings.Join(controls, ", "))
	}
	h.Control = name
}

// tool reads a tool: a verb's, or a tool to execute.
func (r *reader) tool(hook *Hook, id string) {
	verb, isVerb := strings.CutPrefix(strings.ReplaceAll(id, "/", "."), primary)
	if !isVerb {
		if !strings.Contains(id, "/") {
			id = strings.ReplaceAll(id, ".", "/")
		}
		r.item(hook, capability.Execute, "tool", id)
		return
	}
	params := hook.params
	hook.params = r.object(params, "parameters", "params", "inputs")
	if verb = strings.TrimPrefix(verb, "rye_"); verb == capability.Search {
		hook.params = params
	}
	r.item(hook, verb, r.text(params, "item_type"), r.text(params, "item_id"))
}

// named reads an object with item_type and item_id, or an id.
func (r *reader) named(hook *Hook, verb string, v any) {
	if id, ok := v.(string); ok {
		r.item(hook, verb, "", strings.TrimSpace(id))
		return
	}
	object, ok := v.(map[string]any)
	if !ok {
		r.bad("%s: expected an id or an object", verb)
		return
	}
	id := r.text(object, "item_id")
	if id == "" {
		id = r.text(object, "content")
	}
	if more := r.object(object, "params", "inputs"); len(more) > 0 {
		hook.params = more
	}
	r.item(hook, verb, r.text(object, "item_type"), id)
}

// item sets the item of a hook, or the control action that it denotes.
func (r *reader) item(hook *Hook, verb, kind, id string) {
	if verb == "" {
		verb = capability.Execute
	}
	if kind == "" {
		kind = "tool"
	}
	if verb == capability.Execute && kind == "tool" && strings.TrimPrefix(id, "tool:") == controlItem {
		if text := r.text(hook.params, "error"); text != "" {
			hook.text = text
		}
		r.control(hook, r.text(hook.params, "action"))
		return
	}
	hook.Verb = verb
	switch verb {
	case capability.Search:
		hook.Ref = model.Ref{Kind: kind}
		return
	case capability.Execute, capability.Load:
	default:
		r.bad("a hook can't %s: expected execute, load or search", verb)
		return
	}
	var err error
	if hook.Ref, err = model.ParseRef(kind + ":" + id); err != nil {
		r.bad("invalid item %q", kind+":"+id)
	}
}
