package parse

import (
	"strconv"
	"strings"

	"github.com/rye-build/rye/ai/scalar"
	"github.com/rye-build/rye/ai/value"
	"github.com/rye-build/rye/cas/fault"
)

func itoa(n int) string { return strconv.Itoa(n) }

// readDirective is the parser markdown_xml.
func readDirective(file *file) {
	top := skipProlog(file.text)
	if isStart(file.text[top:]) {
		x := file.readXML(top, len(file.text), true)
		file.setBody(top)
		file.setDirective(x, top)
		return
	}
	xml, ok := findFence(file.text, "xml")
	if !ok {
		file.problem(file.at(top), "", "no directive found: expected a line ```xml, or <directive at the beginning")
		return
	}
	if !xml.closed {
		file.problem(file.at(xml.open), "", "no line ``` closes this fence")
	}
	x := file.readXML(xml.from, xml.to, false)
	file.setDirective(x, xml.from)
	file.setBody(xml.after)
}

// skipProlog returns the offset after the comments, blank lines and XML declarations at the beginning.
func skipProlog(text string) int {
	off := 0
	for {
		off += skipComments(text[off:])
		off += leadingSpace(text[off:])
		if !strings.HasPrefix(text[off:], "<?") {
			return off
		}
		end := strings.Index(text[off:], "?>")
		if end < 0 {
			return off
		}
		off += end + len("?>")
	}
}

// isStart reports whether a text begins with the tag of a directive.
func isStart(text string) bool {
	rest, ok := strings.CutPrefix(text, "<directive")
	return ok && (rest == "" || strings.ContainsRune(" \t\n/>", rune(rest[0])))
}

// A directive collects the fields of a directive from its elements.
type directive struct {
	*file
	fields *object
	seen   *object // the elements that may appear once
}

// setDirective makes fields of the elements.
func (f *file) setDirective(xmlReader *xmlReader, from int) {
	root := xmlReader.root
	if root == nil {
		if !xmlReader.lost {
			f.problem(f.at(from), "", "expected an element <directive>")
		}
		return
	}
	directive := &directive{file: f, fields: newObject(root.at), seen: newObject(root.at)}
	f.fields = directive.fields.v
	if root.name != "directive" {
		f.problem(root.at, "", "expected an element <directive>, not <%s>", clip(root.name))
	}
	for _, a := range root.attrs {
		if a.name != "name" && a.name != "version" {
			directive.warn(a.at, "", "the attribute %s of <%s> isn't read", clip(a.name), clip(root.name))
			continue
		}
		directive.put(a.name, a.at, text(a.valueAt, a.value))
	}
	directive.top(root)
	if actions := directive.actions(root, nil); len(actions) > 0 {
		directive.put("actions", actions[0].At, &value.Value{Kind: value.List, At: actions[0].At, Items: actions})
	}
	if t := xmlReader.templates.v; len(t.Map) > 0 {
		t.At = t.Map[0].At
		directive.put("templates", t.At, t)
	}
	content := strings.TrimRight(f.text[from:xmlReader.end], " \t\n")
	from += leadingSpace(content)
	directive.put("content", f.at(from), text(f.at(from), strings.TrimSpace(content)))
}

func (d *directive) put(key string, at value.Pos, v *value.Value) {
	d.fields.put(&d.report, "", key, at, v)
}

// top reads the direct children of the directive.
func (d *directive) top(root *element) {
	for _, element := range root.kids {
		switch element.name {
		case "description":
			d.put("description", element.at, d.leaf(element, "description"))
		case "metadata":
			if d.once(element) {
				d.metadata(element, root.kid("description") != nil)
			}
		case "inputs":
			if d.once(element) {
				d.declared(element, "input")
			}
		case "outputs":
			if d.once(element) {
				d.declared(element, "output")
			}
		case "hooks":
			d.hooks(element)
		case "tools":
			if d.once(element) {
				d.tools(element)
			}
		case "limits", "permissions", "model", "model_class":
			d.problem(element.at, element.name, "<%s> belongs into <metadata> and isn't read here", element.name)
		}
	}
}

// once reports whether an element is the first of its name in the directive.
func (d *directive) once(e *element) bool {
	if first, ok := d.seen.find(e.name); ok {
		d.problem(e.at, e.name, "a second <%s> isn't read, after line %d", e.name, first.Line)
		return false
	}
	d.seen.put(&d.report, "", e.name, e.at, nil)
	return true
}

// metadata reads the elements of <metadata>. A description outside metadata wins over one inside.
func (d *directive) metadata(up *element, described bool) {
	for _, element := range up.kids {
		switch element.name {
		case "model", "model_class":
			d.put("model", element.at, d.settings(element, "model", func(at value.Pos, s string) *value.Value {
				return text(at, s)
			}))
		case "limits":
			d.put("limits", element.at, d.settings(element, "limits", number))
		case "permissions":
			d.put("permissions", element.at, d.permissions(element))
		case "hooks":
			d.hooks(element)
		case "tools":
			if d.once(element) {
				d.tools(element)
			}
		case "category":
			d.put(element.name, element.at, d.leaf(element, element.name))
		default:
			if element.name == "description" && described {
				d.warn(element.at, element.name, "the <description> outside <metadata> is read instead of this one")
				continue
			}
			if v := d.leaf(element, element.name); v.Text != "" || len(element.kids) > 0 {
				d.put(element.name, element.at, v)
			}
		}
	}
}

// leaf returns the text of an element that should contain only text.
func (d *directive) leaf(e *element, field string) *value.Value {
	if len(e.kids) > 0 {
		kid := e.kids[0]
		d.warn(kid.at, field, "<%s> in <%s> isn't read", clip(kid.name), clip(e.name))
	}
	return e.words()
}

// settings reads the attributes and child elements of an element as one object.
func (d *directive) settings(e *element, field string, read func(value.Pos, string) *value.Value) *value.Value {
	object := newObject(e.at)
	for _, a := range e.attrs {
		object.put(&d.report, field, a.name, a.at, read(a.valueAt, a.value))
	}
	for _, kid := range e.kids {
		words := d.leaf(kid, field)
		object.put(&d.report, field, kid.name, kid.at, read(words.At, words.Text))
	}
	if words := e.words(); words.Text != "" {
		d.warn(words.At, field, "text in <%s> isn't read", e.name)
	}
	return object.v
}

// number returns s as a number if it is one.
func number(at value.Pos, s string) *value.Value {
	s = strings.TrimSpace(s)
	if kind, number, ok := scalar.Decimal(s); ok && (kind == value.Int || strings.Contains(s, ".")) {
		return &value.Value{Kind: kind, At: at, Text: number}
	}
	return text(at, s)
}

// permissions turns <permissions> into capabilities.
func (d *directive) permissions(up *element) *value.Value {
	list := &value.Value{Kind: value.List, At: up.at}
	grant := func(at value.Pos, capability string) { list.Items = append(list.Items, text(at, capability)) }
	switch words := up.words(); {
	case len(up.kids) == 0 && words.Text == "*":
		grant(words.At, "rye.*")
	case words.Text != "":
		d.problem(words.At, "permissions", "the text %q in <permissions> grants nothing", fault.Clip(words.Text, 60))
	}
	for _, verb := range up.kids {
		switch verb.name {
		case "search", "sign", "load", "execute":
		default:
			d.warn(verb.at, "permissions", "<%s> grants nothing: expected search, sign, load or execute",
				clip(verb.name))
			continue
		}
		words := verb.words()
		switch {
		case len(verb.kids) > 0 && words.Text != "":
			d.problem(words.At, "permissions", "the text %q stands beside the elements of <%s>",
				fault.Clip(words.Text, 60), verb.name)
		case len(verb.kids) == 0 && words.Text == "":
			d.warn(verb.at, "permissions", "<%s> is empty and grants nothing", verb.name)
		case len(verb.kids) == 0:
			grant(words.At, "rye."+verb.name+"."+words.Text)
		}
		for _, kind := range verb.kids {
			words := d.leaf(kind, "permissions")
			if words.Text == "" {
				d.warn(kind.at, "permissions", "<%s> is empty and grants nothing", clip(kind.name))
				continue
			}
			if verb.name == "search" && kind.name == "type" { // <search><type>tool</type></search>
				grant(words.At, "rye.search."+words.Text+".*")
				continue
			}
			grant(words.At, "rye."+verb.name+"."+kind.name+"."+words.Text)
		}
	}
	return list
}

// tools reads the ids of the tools that the model gets by name.
func (d *directive) tools(up *element) {
	list := &value.Value{Kind: value.List, At: up.at}
	if words := up.words(); words.Text != "" {
		d.problem(words.At, "tools", "the text %q in <tools> names nothing: expected <tool>ID</tool>",
			fault.Clip(words.Text, 60))
	}
	for _, e := range up.kids {
		if e.name != "tool" {
			d.warn(e.at, "tools", "<%s> in <tools> isn't read", clip(e.name))
			continue
		}
		list.Items = append(list.Items, d.leaf(e, "tools"))
	}
	if len(list.Items) > 0 {
		d.put("tools", up.at, list)
	}
}

// declared reads inputs or outputs.
func (d *directive) declared(up *element, tag string) {
	list := &value.Value{Kind: value.List, At: up.at}
	for _, e := range up.kids {
		if e.name != tag {
			d.warn(e.at, up.name, "<%s> in <%s> isn't read", clip(e.name), up.name)
			continue
		}
		field := up.name + "[" + itoa(len(list.Items)) + "]"
		list.Items = append(list.Items, d.parameter(e, field))
	}
	if len(list.Items) > 0 {
		d.put(up.name, up.at, list)
	}
}

// parameter reads one input or output.
func (d *directive) parameter(element *element, field string) *value.Value {
	object := newObject(element.at)
	for _, a := range element.attrs {
		v := text(a.valueAt, a.value)
		if a.name == "required" {
			v = d.truth(a, field)
		}
		object.put(&d.report, field, a.name, a.at, v)
	}
	if element.name == "input" {
		if element.attr("type") == nil {
			object.put(&d.report, field, "type", element.at, text(element.at, "string"))
		}
		if element.attr("required") == nil {
			object.put(&d.report, field, "required", element.at,
				&value.Value{Kind: value.Bool, At: element.at, Text: "false"})
		}
	}
	if words := d.leaf(element, field); words.Text != "" {
		object.put(&d.report, field, "description", words.At, words)
	}
	return object.v
}

func (d *directive) truth(a attribute, field string) *value.Value {
	v := &value.Value{Kind: value.Bool, At: a.valueAt, Text: strings.ToLower(strings.TrimSpace(a.value))}
	if v.Text != "true" && v.Text != "false" {
		d.problem(a.valueAt, field+"."+a.name, "expected true or false, not %q", fault.Clip(a.value, 60))
		v.Text = "false"
	}
	return v
}

// hooks reads a list of hooks.
func (d *directive) hooks(up *element) {
	list := &value.Value{Kind: value.List, At: up.at}
	for _, e := range up.kids {
		field := "hooks[" + itoa(len(list.Items)) + "]"
		list.Items = append(list.Items, d.open(e, field, "", false))
	}
	d.put("hooks", up.at, list)
}

// tree reads any element: its text, or an object if it has attributes or children.
func (d *directive) tree(e *element, field, skip string) *value.Value {
	if len(e.kids) == 0 && (len(e.attrs) == 0 || len(e.attrs) == 1 && e.attrs[0].name == skip) {
		return e.words()
	}
	return d.open(e, field, skip, e.name == "params" || e.name == "inputs")
}

// open reads the attributes and child elements of an element as one object. In a named one, a child's attribute name
// is its key, and its value may be in an attribute.
func (d *directive) open(element *element, field, skip string, named bool) *value.Value {
	object := newObject(element.at)
	for _, a := range element.attrs {
		if a.name != skip {
			object.put(&d.report, field, a.name, a.at, text(a.valueAt, a.value))
		}
	}
	for _, kid := range element.kids {
		key, without := kid.name, ""
		if name := kid.attr("name"); named && name != nil {
			key, without = name.value, "name"
		}
		var v *value.Value
		if given := kid.attr("value"); named && given != nil && len(kid.kids) == 0 && kid.words().Text == "" {
			v = text(given.valueAt, given.value)
		} else {
			v = d.tree(kid, join(field, key), without)
		}
		object.put(&d.report, field, key, kid.at, v)
	}
	if words := element.words(); words.Text != "" {
		object.put(&d.report, field, "content", words.At, words)
	}
	return object.v
}

// actions collects the elements outside metadata that are calls.
func (d *directive) actions(up *element, found []*value.Value) []*value.Value {
	for _, e := range up.kids {
		switch e.name {
		case "metadata", "hooks":
			continue
		case "search", "sign", "load", "execute":
			found = append(found, d.action(e, "actions["+itoa(len(found))+"]"))
		}
		found = d.actions(e, found)
	}
	return found
}

func (d *directive) action(e *element, field string) *value.Value {
	object := newObject(e.at)
	object.put(&d.report, field, "primary", e.at, text(e.at, e.name))
	for _, a := range e.attrs {
		object.put(&d.report, field, a.name, a.at, text(a.valueAt, a.value))
	}
	params := newObject(e.at)
	for _, kid := range e.kids {
		name := kid.attr("name")
		if kid.name != "param" || name == nil {
			continue
		}
		v := kid.words()
		if given := kid.attr("value"); given != nil && given.value != "" {
			v = text(given.valueAt, given.value)
		}
		params.put(&d.report, field+".params", name.value, kid.at, v)
	}
	if len(params.v.Map) > 0 {
		params.v.At = params.v.Map[0].At
		object.put(&d.report, field, "params", params.v.At, params.v)
	}
	return object.v
}
