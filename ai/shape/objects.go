package shape

// members are a schema's rules about the members of objects.
type members struct {
	self     node
	named    map[string]any
	patterns map[string]any
	others   node // for members that are neither named nor match a pattern
	open     bool // others allows anything
	required map[string]bool
}

// membersOf reads the keywords; ok is false if it doesn't understand them.
func membersOf(n node, m map[string]any) (s members, ok bool) {
	s = members{self: n, others: n.anything(), open: true, required: map[string]bool{}}
	if s.named, ok = object(m, "properties"); !ok {
		return s, false
	}
	if s.patterns, ok = object(m, "patternProperties"); !ok {
		return s, false
	}
	if v, has := m["additionalProperties"]; has {
		s.others, s.open = n.child(v), anything(v)
	}
	v, has := m["required"]
	list, ok := v.([]any)
	for _, e := range list {
		name, isText := e.(string)
		ok = ok && isText
		s.required[name] = true
	}
	return s, ok || !has
}

func object(m map[string]any, name string) (map[string]any, bool) {
	v, has := m[name]
	o, ok := v.(map[string]any)
	return o, ok || !has
}

// objects compares the keywords about objects, except "propertyNames" and "dependent…".
func (c *comparer) objects(path string, l, r node, from, to map[string]any) effect {
	e := c.bounds(path, "minProperties", "maxProperties", from, to)
	a, ok := membersOf(l, from)
	b, ok2 := membersOf(r, to)
	if !ok || !ok2 {
		for _, name := range []string{"properties", "patternProperties", "additionalProperties", "required"} {
			e |= c.opaque(path, name, from, to)
		}
		return e
	}
	if c.spend(len(a.named) + len(b.named) + len(a.required) + len(b.required)) {
		return changed
	}
	for _, pattern := range names(a.patterns, b.patterns) {
		v, ok := a.patterns[pattern]
		w, ok2 := b.patterns[pattern]
		if ok != ok2 {
			// Without a name, the members that it removes from additionalProperties are unknown.
			e |= c.keyword(path, "patternProperties", from, to, changed)
			break
		}
		e |= c.inside(path+"/patternProperties/"+escape(pattern), l.child(v), r.child(w))
	}
	for _, name := range names(a.named, b.named) {
		v, ok := a.named[name]
		w, ok2 := b.named[name]
		at := path + "/properties/" + escape(name)
		switch {
		case !ok:
			e |= c.propertyAdded(at, r.child(w), &a)
		case !ok2:
			e |= c.propertyRemoved(at, l.child(v), &a, &b)
		default:
			e |= c.inside(at, l.child(v), r.child(w))
		}
	}
	return e | c.required(path, &a, &b) | c.additional(path, &a, &b, from, to)
}

// outside returns the effect of a member whose schema changes from l to r, when one of them is the schema of
// additional members. It ignores patterns that the name may match.
func (c *comparer) outside(l, r node, patterns map[string]any) effect {
	if len(patterns) > 0 {
		return changed
	}
	c.quiet++
	defer func() { c.quiet-- }()
	return c.inside("", l, r)
}

func (c *comparer) propertyAdded(path string, added node, old *members) effect {
	e := c.outside(old.others, added, old.patterns)
	class := Compatible
	switch {
	case c.section == input && old.open && len(old.patterns) == 0:
		// Callers don't send undeclared properties.
	case c.section == input && e&narrowed != 0:
		class = Breaking
	case c.section != input && old.others.v == false && len(old.patterns) == 0:
		class = Warning
	case c.section != input && e&widened != 0:
		class = Breaking
	}
	c.add("property_added", path, nil, added.v, class)
	return e
}

func (c *comparer) propertyRemoved(path string, removed node, old, now *members) effect {
	e := c.outside(removed, now.others, old.patterns)
	class := Compatible
	switch {
	case c.section == output, c.section == input && e&narrowed != 0:
		class = Breaking
	case c.section == failure:
		class = Warning
	}
	c.add("property_removed", path, removed.v, nil, class)
	return e
}

// required compares the lists of required members.
func (c *comparer) required(path string, old, now *members) (e effect) {
	path += "/required"
	for _, name := range names(old.required, now.required) {
		_, gone := old.named[name]
		if _, stays := now.named[name]; stays {
			gone = false
		}
		switch was, is := old.required[name], now.required[name]; {
		case was && is:
		case is:
			e |= narrowed
			c.add("required_added", path, nil, name, c.section.class(narrowed))
		default:
			e |= widened
			if !gone { // otherwise the removed property is reported already
				c.add("required_removed", path, name, nil, c.section.class(widened))
			}
		}
	}
	return e
}

// additional compares the rules about members that aren't named.
func (c *comparer) additional(path string, old, now *members, from, to map[string]any) effect {
	const name = "additionalProperties"
	_, isObject := old.others.v.(map[string]any)
	_, isObject2 := now.others.v.(map[string]any)
	if isObject && isObject2 {
		return c.inside(path+"/"+name, old.others, now.others)
	}
	return c.keyword(path, name, from, to, c.outside(old.others, now.others, nil))
}
