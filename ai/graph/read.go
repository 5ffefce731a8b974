package graph

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rye-build/rye/ai/capability"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/ai/value"
	"github.com/rye-build/rye/cas/portable"
	"github.com/rye-build/rye/manifest/condition"
)

// A reader reads one graph and records all problems.
type reader struct {
	*Graph
	problems []*value.Problem
	inputs   map[string]bool // nil: anything
	state    map[string]bool
}

// Read reads the graph of a tool. It returns either a graph or problems.
func Read(t *model.Tool) (*Graph, []*value.Problem) {
	reader := &reader{Graph: &Graph{Steps: steps, named: map[string]*Node{}},
		state: map[string]bool{LastError: true, Retries: true}}
	reader.declared(t)
	if t.Config == nil {
		reader.bad(value.Pos{}, "config", "a graph needs config.start and config.nodes")
		return nil, reader.problems
	}
	reader.config(t.Config)
	if len(reader.problems) == 0 {
		reader.flow(t.Config)
	}
	slices.SortStableFunc(reader.problems, func(a, b *value.Problem) int { return a.At.Compare(b.At) })
	if len(reader.problems) > 0 {
		return nil, reader.problems
	}
	return reader.Graph, nil
}

func (r *reader) bad(at value.Pos, field, format string, args ...any) {
	r.problems = append(r.problems, &value.Problem{At: at, Field: field, Message: fmt.Sprintf(format, args...)})
}

// declared records the inputs that the tool declares.
func (r *reader) declared(t *model.Tool) {
	schema := t.Input
	if schema == nil {
		schema = t.ConfigSchema
	}
	r.inputs = map[string]bool{}
	if properties := schema.Get("properties"); properties != nil {
		for _, e := range properties.Map {
			r.inputs[e.Key] = true
		}
	}
}

// keys refuses keys of a map that aren't among names.
func (r *reader) keys(v *value.Value, field string, names ...string) bool {
	if v.Kind != value.Map {
		r.bad(v.At, field, "expected an object")
		return false
	}
	for _, e := range v.Map {
		if !slices.Contains(names, e.Key) {
			r.bad(e.At, field+"."+clip(e.Key), "unknown key %q: expected one of %s", clip(e.Key),
				strings.Join(names, ", "))
		}
	}
	return true
}

// text returns the text of a key, or "".
func (r *reader) text(v *value.Value, field, key string) string {
	t := v.Get(key)
	if t.IsNull() {
		return ""
	}
	if t.Kind != value.Text || t.Text == "" {
		r.bad(t.At, field+"."+key, "expected a text")
		return ""
	}
	return t.Text
}

// whole returns the whole number of a key, or otherwise if it is missing.
func (r *reader) whole(v *value.Value, field, key string, otherwise, most int64) int64 {
	n := v.Get(key)
	if n.IsNull() {
		return otherwise
	}
	i, ok := n.Int()
	if !ok || i < 1 || i > most {
		r.bad(n.At, field+"."+key, "expected a whole number from 1 to %d", most)
		return otherwise
	}
	return i
}

func isName(s string) bool {
	return portable.Spelled(s, portable.Letters+portable.Digits+"_", "-.", maxName)
}

func isVariable(s string) bool {
	return portable.Spelled(s, portable.Letters, portable.Digits+"_-", maxName)
}

func (r *reader) config(val *value.Value) {
	r.keys(val, "config", "start", "nodes", "max_steps", "on_error", "hooks", "state")
	r.Steps = r.whole(val, "config", "max_steps", steps, 1_000_000)
	switch mode := r.text(val, "config", "on_error"); mode {
	case "", Fail:
	case Continue:
		r.Continue = true
	default:
		r.bad(val.Get("on_error").At, "config.on_error", "expected fail or continue")
	}
	if hooks := val.Get("hooks"); !hooks.IsNull() {
		if hooks.Kind != value.List {
			r.bad(hooks.At, "config.hooks", "expected a list")
		}
		r.Hooks = hooks.Items
	}
	nodes := val.Get("nodes")
	switch {
	case nodes.IsNull() || nodes.Kind != value.Map || len(nodes.Map) == 0:
		r.bad(at(nodes, val), "config.nodes", "nodes are missing: expected an object of nodes by name")
		return
	case len(nodes.Map) > MaxNodes:
		r.bad(nodes.At, "config.nodes", "%d nodes; at most %d are allowed", len(nodes.Map), MaxNodes)
		return
	}
	r.names(val, nodes)
	if state := val.Get("state"); !state.IsNull() {
		r.State = r.assign(state, "config.state", func(path string) string { return r.known(path, "inputs") })
	}
	for i := range nodes.Map {
		r.node(&nodes.Map[i])
	}
}

// names records the names of nodes and state variables before anything refers to them.
func (r *reader) names(config, nodes *value.Value) {
	note := func(v *value.Value) {
		if v != nil {
			for _, e := range v.Map {
				r.state[e.Key] = true
			}
		}
	}
	note(config.Get("state"))
	for _, e := range nodes.Map {
		if !isName(e.Key) || e.Key == Fail || e.Key == Continue {
			r.bad(e.At, "config.nodes",
				"invalid node name %q: expected letters, digits, _ - . and neither fail nor continue",
				clip(e.Key))
		}
		n := &Node{Name: e.Key, At: e.At}
		r.Nodes, r.named[e.Key] = append(r.Nodes, n), n
		note(e.Value.Get("assign"))
		if name := e.Value.Get("collect").String(); name != "" {
			r.state[name] = true
		}
	}
}

// known returns the reason why a path is invalid, or "". Its first name must be one of roots.
func (r *reader) known(path string, roots ...string) string {
	root, rest, _ := strings.Cut(path, ".")
	if !slices.Contains(roots, root) {
		return fmt.Sprintf("unknown variable: here there are %s", strings.Join(roots, ", "))
	}
	name, _, _ := strings.Cut(rest, ".")
	switch {
	case root == "state" && name != "" && !r.state[name]:
		return fmt.Sprintf("unknown variable: no node assigns state.%s", clip(name))
	case root == "inputs" && name != "" && !r.inputs[name]:
		return fmt.Sprintf("unknown variable: the graph declares no input %s", clip(name))
	}
	return ""
}

func (r *reader) node(e *value.Entry) {
	n, val, field := r.named[e.Key], e.Value, "config.nodes."+clip(e.Key)
	if val.Kind != value.Map {
		r.bad(at(val, &value.Value{At: e.At}), field, "expected an object")
		return
	}
	if n.Type = r.text(val, field, "type"); n.Type == "" {
		n.Type = Action
	}
	doc := []string{"state", "inputs"}
	switch n.Type {
	case Action:
		r.keys(val, field, "type", "description", "action", "assign", "next", "on_error")
		r.action(n, val, field, doc)
		if assign := val.Get("assign"); !assign.IsNull() {
			n.Assign = r.assign(assign, field+".assign", func(path string) string {
				return r.known(path, "state", "inputs", "result")
			})
		}
	case Foreach:
		r.keys(val, field, "type", "description", "over", "as", "action", "collect", "next", "max_parallel",
			"on_error")
		r.foreach(n, val, field, doc)
	case Gate:
		r.keys(val, field, "type", "description", "when", "ask", "next", "otherwise", "timeout")
		r.gate(n, val, field)
	case Return:
		r.keys(val, field, "type", "description")
	default:
		r.bad(val.Get("type").At, field+".type", "unknown type %q: expected action, foreach, gate or return",
			clip(n.Type))
	}
	r.next(n, val.Get("next"), field)
	if n.OnError = r.text(val, field, "on_error"); n.OnError != "" && n.OnError != Fail && n.OnError != Continue {
		r.leads(n.OnError, val.Get("on_error").At, field+".on_error")
	}
}

// verbs are the verbs of actions.
var verbs = []string{capability.Execute, capability.Load, capability.Search, capability.Sign}

func (r *reader) action(n *Node, v *value.Value, field string, doc []string) {
	val := v.Get("action")
	field += ".action"
	if val.IsNull() {
		r.bad(at(val, v), field, "the action is missing")
		return
	}
	if !r.keys(val, field, "primary", "item_type", "item_id", "params") {
		return
	}
	call := &Call{Verb: r.text(val, field, "primary"), At: val.At}
	if call.Verb == "" {
		call.Verb = capability.Execute
	}
	if !slices.Contains(verbs, call.Verb) {
		r.bad(val.Get("primary").At, field+".primary", "unknown primary %q: expected one of %s", clip(call.Verb),
			strings.Join(verbs, ", "))
	}
	kind, id := r.text(val, field, "item_type"), r.text(val, field, "item_id")
	if kind == "" {
		kind = "tool"
	}
	switch ref, err := model.ParseRef(kind + ":" + id); {
	case call.Verb == capability.Search:
		call.Ref.Kind = kind
	case id == "":
		r.bad(at(val.Get("item_id"), val), field+".item_id", "item_id is missing")
	case err != nil:
		r.bad(val.Get("item_id").At, field+".item_id", "invalid item id %q: item_id can't contain variables", clip(id))
	default:
		call.Ref = ref
	}
	p := val.Get("params")
	if !p.IsNull() && p.Kind != value.Map {
		r.bad(p.At, field+".params", "expected an object")
	}
	call.Params = template(p, func(path string) string {
		return r.known(path, doc...)
	}, func(at value.Pos, format string, args ...any) {
		r.bad(at, field+".params", format, args...)
	})
	n.Call = call
}

func (r *reader) foreach(n *Node, val *value.Value, field string, doc []string) {
	over := val.Get("over")
	n.Over = template(over, func(path string) string {
		return r.known(path, doc...)
	}, func(at value.Pos, format string, args ...any) {
		r.bad(at, field+".over", format, args...)
	})
	if over.IsNull() || n.Over.kind != isPath && n.Over.kind != isList && over.Kind != value.List {
		r.bad(at(over, val), field+".over", "expected a list, or ${PATH} that leads to one")
	}
	if n.As = r.text(val, field, "as"); n.As == "" {
		n.As = "item"
	}
	if !isVariable(n.As) || slices.Contains([]string{"state", "inputs", "result"}, n.As) {
		r.bad(val.Get("as").At, field+".as",
			"invalid name %q: expected letters, digits, _ and -, and neither state, inputs nor result", clip(n.As))
	}
	if n.Collect = r.text(val, field, "collect"); n.Collect != "" && !isVariable(n.Collect) {
		r.bad(val.Get("collect").At, field+".collect",
			"invalid name %q: expected a letter, then letters, digits, _ and -", clip(n.Collect))
	}
	n.AtOnce = int(r.whole(val, field, "max_parallel", DefaultAt, MaxParallel))
	r.action(n, val, field, append(slices.Clone(doc), n.As))
}

func (r *reader) gate(n *Node, val *value.Value, field string) {
	n.When = r.condition(val.Get("when"), field+".when", "state", "inputs", "result")
	ask := val.Get("ask")
	if text := r.text(val, field, "ask"); text != "" {
		if len(text) > maxAsk {
			r.bad(ask.At, field+".ask", "more than %d bytes", maxAsk)
		}
		n.Ask = template(ask, func(path string) string {
			return r.known(path, "state", "inputs", "result")
		}, func(at value.Pos, format string, args ...any) {
			r.bad(at, field+".ask", format, args...)
		})
	}
	if n.When == nil && n.Ask == nil && val.Get("when").IsNull() && ask.IsNull() {
		r.bad(n.At, field, "a gate needs when, ask or both")
	}
	if n.Otherwise = r.text(val, field, "otherwise"); n.Otherwise != "" {
		r.leads(n.Otherwise, val.Get("otherwise").At, field+".otherwise")
	}
	if t := val.Get("timeout"); !t.IsNull() {
		n.Timeout = time.Duration(r.whole(val, field, "timeout", 1, 30*24*3600)) * time.Second
		if ask.IsNull() {
			r.bad(t.At, field+".timeout", "only a gate that asks has a timeout")
		}
	}
}

// assign reads a map of templates.
func (r *reader) assign(v *value.Value, field string, known func(string) string) (all []Assignment) {
	if v.Kind != value.Map {
		r.bad(v.At, field, "expected an object")
		return nil
	}
	for _, e := range v.Map {
		if !isVariable(e.Key) {
			r.bad(e.At, field, "invalid name %q: expected a letter, then letters, digits, _ and -", clip(e.Key))
		}
		t := template(e.Value, known, func(at value.Pos, format string, args ...any) {
			r.bad(at, field+"."+clip(e.Key), format, args...)
		})
		all = append(all, Assignment{e.Key, t})
	}
	return all
}

func (r *reader) condition(val *value.Value, field string, roots ...string) *condition.Condition {
	if val.IsNull() {
		return nil
	}
	j, err := val.JSON()
	if err != nil {
		r.bad(val.At, field, "%v", err)
		return nil
	}
	condition, problems := condition.Read(j)
	for _, p := range problems {
		r.bad(val.At, field, "%s", p)
	}
	if condition == nil {
		return nil
	}
	for _, path := range condition.Paths() {
		if wrong := r.known(path, roots...); wrong != "" {
			r.bad(val.At, field, "%s: %s", clip(path), wrong)
		}
	}
	return condition
}

// next reads the successors of a node: a name, or a list of {to, when}.
func (r *reader) next(n *Node, val *value.Value, field string) {
	field += ".next"
	switch {
	case val.IsNull():
	case val.Kind == value.Text:
		r.leads(val.Text, val.At, field)
		n.Next = []Edge{{To: val.Text, at: val.At}}
	case val.Kind == value.List:
		for i, item := range val.Items {
			at := fmt.Sprintf("%s[%d]", field, i)
			if !r.keys(item, at, "to", "when") {
				continue
			}
			edge := Edge{To: r.text(item, at, "to"), at: item.At}
			if edge.To == "" {
				r.bad(item.At, at+".to", "expected the name of a node")
			} else {
				r.leads(edge.To, item.Get("to").At, at+".to")
			}
			if when := item.Get("when"); !when.IsNull() {
				edge.When, edge.text = r.condition(when, at+".when", "state", "inputs", "result"), shown(when)
			}
			if i > 0 && n.Next[len(n.Next)-1].When == nil {
				r.bad(item.At, at, "the edge before it has no condition, so this one is never taken")
				return
			}
			n.Next = append(n.Next, edge)
		}
	default:
		r.bad(val.At, field, "expected the name of a node, or a list of {to, when}")
	}
}

// leads refuses the name of an unknown node.
func (r *reader) leads(name string, at value.Pos, field string) {
	if r.named[name] != nil {
		return
	}
	var near []string
	for _, n := range r.Nodes {
		near = append(near, n.Name)
	}
	r.bad(at, field, "unknown node %q: expected one of %s", clip(name), clip(strings.Join(near, ", ")))
}

// at returns the place of a value, or of the value around it if it is missing.
func at(v, around *value.Value) value.Pos {
	if v == nil {
		return around.At
	}
	return v.At
}

// shown returns a condition in a readable form.
func shown(v *value.Value) string {
	if v.Kind == value.Text {
		return v.Text
	}
	j, _ := v.JSON()
	if leaf, ok := j.(map[string]any); ok && leaf["path"] != nil {
		op, _ := leaf["op"].(string)
		text := strings.TrimSpace(fmt.Sprintf("%v %s", leaf["path"], op))
		if with, has := leaf["value"]; has {
			text += " " + (&Template{plain: with}).String()
		}
		return text
	}
	return (&Template{plain: j}).String()
}
