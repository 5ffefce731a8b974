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
func membersOf(n node, fields map[string]any) (found members, ok bool) {
	found = members{self: n, others: n.anything(), open: true, required: map[string]bool{}}
	if found.named, ok = object(fields, "properties"); !ok {
		return found, false
	}
	if found.patterns, ok = object(fields, "patternProperties"); !ok {
		return found, false
	}
	if v, has := fields["additionalProperties"]; has {
		found.others, found.open = n.child(v), anything(v)
	}
	v, has := fields["required"]
	list, ok := v.([]any)
	for _, e := range list {
		name, isText := e.(string)
		ok = ok && isText
		found.required[name] = true
	}
	return found, ok || !has
}

func object(m map[string]any, name string) (map[string]any, bool) {
	v, has := m[name]
	o, ok := v.(map[string]any)
	return o, ok || !has
}

// objects compares the keywords about objects, except "propertyNames" and "dependent…".
func (c *comparer) objects(path string, left, right node, from, to map[string]any) effect {
	effect := c.bounds(path, "minProperties", "maxProperties", from, to)
	before, ok := membersOf(left, from)
	after, ok2 := membersOf(right, to)
	if !ok || !ok2 {
		for _, name := range []string{"properties", "patternProperties", "additionalProperties", "required"} {
			effect |= c.opaque(path, name, from, to)
		}
		return effect
	}
	if c.spend(len(before.named) + len(after.named) + len(before.required) + len(after.required)) {
		return changed
	}
	for _, pattern := range names(before.patterns, after.patterns) {
		v, ok := before.patterns[pattern]
		w, ok2 := after.patterns[pattern]
		if ok != ok2 {
			// Without a name, the members that it removes from additionalProperties are unknown.
			effect |= c.keyword(path, "patternProperties", from, to, changed)
			break
		}
		effect |= c.inside(path+"/patternProperties/"+escape(pattern), left.child(v), right.child(w))
	}
	for _, name := range names(before.named, after.named) {
		v, ok := before.named[name]
		w, ok2 := after.named[name]
		at := path + "/properties/" + escape(name)
		switch {
		case !ok:
			effect |= c.propertyAdded(at, right.child(w), &before)
		case !ok2:
			effect |= c.propertyRemoved(at, left.child(v), &before, &after)
		default:
			effect |= c.inside(at, left.child(v), right.child(w))
		}
	}
	return effect | c.required(path, &before, &after) | c.additional(path, &before, &after, from, to)
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
	effect := c.outside(old.others, added, old.patterns)
	class := Compatible
	switch {
	case c.section == input && old.open && len(old.patterns) == 0:
		// Callers don't send undeclared properties.
	case c.section == input && effect&narrowed != 0:
		class = Breaking
	case c.section != input && old.others.v == false && len(old.patterns) == 0:
		class = Warning
	case c.section != input && effect&widened != 0:
		class = Breaking
	}
	c.add("property_added", path, nil, added.v, class)
	return effect
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
func (c *comparer) required(path string, old, now *members) (effect effect) {
	path += "/required"
	for _, name := range names(old.required, now.required) {
		_, gone := old.named[name]
		if _, stays := now.named[name]; stays {
			gone = false
		}
		switch was, is := old.required[name], now.required[name]; {
		case was && is:
		case is:
			effect |= narrowed
			c.add("required_added", path, nil, name, c.section.class(narrowed))
		default:
			effect |= widened
			if !gone { // otherwise the removed property is reported already
				c.add("required_removed", path, name, nil, c.section.class(widened))
			}
		}
	}
	return effect
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
