package closure

import (
	"cmp"
	"errors"
	"strconv"
	"strings"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/capability"
	"github.com/rye-build/rye/ai/graph"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/ai/permission"
	"github.com/rye-build/rye/ai/value"
	"github.com/rye-build/rye/cas/fault"
)

// uses adds the edges of an item, except for its executor.
func (c *closer) uses(n *node, it *ai.Item, admitted bool) {
	parsed := it.Model
	if from := it.Kind.From; from != "" && (model.Ref{Kind: "tool", ID: from}) != it.Ref {
		// Kinds come from the highest extractor, whatever the item's space.
		n.edges = append(n.edges, edge{why: AsExtractor, to: want{ref: model.Ref{Kind: "tool", ID: from}}})
	}
	switch {
	case parsed.Directive != nil:
		for i, h := range parsed.Directive.Hooks {
			c.hook(n, "hooks["+strconv.Itoa(i)+"]", h.Value)
		}
		for i, o := range parsed.Directive.Tools {
			c.literal(n, AsOffer, "tools["+strconv.Itoa(i)+"]", "tool",
				&value.Value{Kind: value.Text, At: o.At, Text: o.ID})
		}
		if list := parsed.Fields.Get("actions"); list != nil {
			for i, v := range list.Items {
				if call(v.Get("primary").String()) {
					c.object(n, AsAction, "actions["+strconv.Itoa(i)+"]", v)
				}
			}
		}
		c.provider(n, parsed.Directive.Model)
		c.permissions(n, parsed, admitted)
	case parsed.Tool != nil:
		c.permissions(n, parsed, admitted)
		c.graph(n, parsed.Tool)
	case parsed.Knowledge != nil:
		c.references(n, parsed.Fields.Get("references"))
	}
}

// graph adds edges for the nodes and hooks of a state graph. Other errors in the graph are not the lock's concern.
func (c *closer) graph(n *node, tool *model.Tool) {
	if !graph.Is(tool) {
		return
	}
	if nodes := tool.Config.Get("nodes"); nodes != nil {
		for _, e := range nodes.Map {
			if a := e.Value.Get("action"); call(cmp.Or(a.Get("primary").String(), capability.Execute)) {
				c.object(n, AsAction, "config.nodes."+e.Key+".action", a)
				if id := a.Get("params").Get("directive_name"); a.Get("item_id").String() == permission.Starts &&
					id != nil {
					c.literal(n, AsAction, "config.nodes."+e.Key+".action.params.directive_name", "directive", id)
				}
			}
		}
	}
	if hooks := tool.Config.Get("hooks"); hooks != nil {
		for i, h := range hooks.Items {
			c.hook(n, "config.hooks["+strconv.Itoa(i)+"]", h)
		}
	}
}

// call reports whether a verb of an action or hook needs an item.
func call(verb string) bool { return verb == capability.Execute || verb == capability.Load }

// named returns the ids of the items that an id in a permission covers.
func (c *closer) named(kind, id string) []string {
	if kind == "tool" && permission.IsThreads(id) {
		return nil
	}
	if library, err := permission.Library(); err == nil && kind == "tool" && library.Tools(id) != nil {
		return library.Tools(id)
	}
	return []string{id}
}

// hook adds the edges of a hook.
func (c *closer) hook(n *node, field string, v *value.Value) {
	if tool := v.Get("tool"); !tool.IsNull() {
		c.tool(n, field, tool, v)
	}
	if action := v.Get("action"); call(cmp.Or(action.Get("primary").String(), capability.Execute)) {
		c.object(n, AsHook, field+".action", action)
	}
	for _, verb := range []string{capability.Execute, capability.Load} {
		switch given := v.Get(verb); {
		case given.IsNull():
		case given.Kind == value.Text:
			c.literal(n, AsHook, field+"."+verb, "", given)
		default:
			c.object(n, AsHook, field+"."+verb, given)
		}
	}
}

// tool adds the edge of a hook's tool: either the tool that it runs, or for rye.primary.VERB the item in params.
func (c *closer) tool(n *node, field string, tool, v *value.Value) {
	verb, isVerb := strings.CutPrefix(strings.ReplaceAll(tool.String(), "/", "."), "rye.primary.")
	params := v.Get("params")
	if params.IsNull() {
		params = v.Get("inputs")
	}
	switch {
	case isVerb && call(strings.TrimPrefix(verb, "rye_")):
		c.object(n, AsHook, field+".params", params)
	case !isVerb:
		id := *tool
		if !strings.Contains(id.Text, "/") {
			id.Text = strings.ReplaceAll(id.Text, ".", "/")
		}
		c.literal(n, AsHook, field+".tool", "", &id)
	}
}

// object adds the edge of an object {item_type, item_id}. The text of an element is its content.
func (c *closer) object(n *node, why Why, field string, v *value.Value) {
	id := v.Get("item_id")
	if id.String() == "" {
		id = v.Get("content")
	}
	c.literal(n, why, field, v.Get("item_type").String(), id)
}

// inside is the prefix of ids for actions that threads do themselves, without an item.
const inside = "rye/agent/threads/internal/"

// literal adds an edge for a kind and an id written in a file.
func (c *closer) literal(n *node, why Why, field, kind string, id *value.Value) {
	text := id.String()
	if text == "" || strings.ContainsAny(kind+text, "{}$") || strings.HasPrefix(text, inside) {
		return
	}
	if kind == "" {
		kind = "tool"
	}
	if kind == "tool" && permission.IsThreads(text) {
		return
	}
	ref, err := model.ParseRef(kind + ":" + text)
	if err == nil {
		n.edges = append(n.edges, edge{why: why, to: want{ref: ref, from: c.from(n)}, at: id.At, field: field})
		return
	}
	c.unnamed(n, why, id.At, field, kind+":"+text, err)
}

// unnamed reports a text that should name an item but doesn't.
func (c *closer) unnamed(n *node, why Why, at value.Pos, field, text string, err error) {
	if cause := errors.Unwrap(err); cause != nil {
		err = cause
	}
	p := n.about(at, field, fault.New(fault.Validation, "%+q is not an item: %v", clip(text), err).From(err))
	if why.needed() {
		n.problems = append(n.problems, p)
	} else {
		n.warnings = append(n.warnings, p)
	}
}

// from returns the space from which an item names others. An item of the highest space sees the same as the project,
// so both share one search (nil).
func (c *closer) from(n *node) *ai.Space {
	if n.space.Level == ai.Project {
		return nil
	}
	return n.space
}

// provider adds edges for the items that a directive's model names. Most words there are names of models.
func (c *closer) provider(n *node, m *value.Value) {
	for _, key := range []string{"id", "tier", "fallback", "provider"} {
		v := m.Get(key)
		text := v.String()
		if key == "provider" && text != "" && !strings.Contains(text, ":") {
			text = "tool:" + text
		}
		ref, err := model.ParseRef(text)
		if err != nil {
			continue
		}
		if _, ok := c.View.Kind(ref.Kind); ok {
			n.edges = append(n.edges, edge{why: AsProvider, to: want{ref: ref, from: c.from(n)}, at: v.At,
				field: "model." + key})
		}
	}
}

// permissions adds edges for the items that an item may use. Permissions of an item that isn't admitted are not
// followed, so a stranger can't cause work.
func (c *closer) permissions(n *node, m *model.Model, admitted bool) {
	list := m.Fields.Get("permissions")
	if list == nil {
		return
	}
	for i, val := range list.Items {
		capability, err := capability.Parse(val.String())
		if err != nil {
			continue // the model has reported it
		}
		field := "permissions[" + strconv.Itoa(i) + "]"
		_, kind, id := parts(capability)
		switch {
		case id == "" || strings.HasPrefix(id, "*"):
		case kind != "*" && !strings.Contains(id, "*"):
			for _, id := range c.named(kind, id) {
				c.literal(n, AsPermission, field, kind, &value.Value{Kind: value.Text, At: val.At, Text: id})
			}
		case admitted:
			n.edges = append(n.edges, edge{why: AsPermission, pattern: capability.String(), at: val.At, field: field})
			n.patterns = append(n.patterns, pattern{capability, c.from(n)})
		}
	}
}

// references adds edges for the items that knowledge refers to.
func (c *closer) references(n *node, list *value.Value) {
	switch {
	case list.IsNull():
	case list.Kind == value.Text:
		for word := range strings.SplitSeq(list.Text, ",") {
			c.reference(n, "references", list.At, strings.TrimSpace(word))
		}
	default:
		for i, v := range list.Items {
			c.reference(n, "references["+strconv.Itoa(i)+"]", v.At, strings.TrimSpace(v.String()))
		}
	}
}

func (c *closer) reference(n *node, field string, at value.Pos, text string) {
	if text == "" || strings.Contains(text, "://") {
		return
	}
	if !strings.Contains(text, ":") {
		text = "knowledge:" + text
	}
	ref, err := model.ParseRef(text)
	if err != nil {
		c.unnamed(n, AsReference, at, field, text, err)
		return
	}
	n.edges = append(n.edges, edge{why: AsReference, to: want{ref: ref, from: c.from(n)}, at: at, field: field})
}
