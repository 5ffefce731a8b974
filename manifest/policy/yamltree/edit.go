package yamltree

import (
	"slices"
	"strings"
)

// The methods below edit a tree. Callers must format the result and parse it again, like any other file.

// Copy copies a tree with everything in it.
func (t Tree) Copy() Tree { return Tree{Root: t.Root.copy(nil), marker: t.marker} }

func (n *Node) copy(up *Node) *Node {
	c := *n
	c.up = up
	c.head, c.tail = slices.Clone(n.head), slices.Clone(n.tail)
	c.Kids = make([]*Node, len(n.Kids))
	for i, kid := range n.Kids {
		c.Kids[i] = kid.copy(&c)
	}
	return &c
}

// Entry returns the entry of a mapping. If it is missing, Entry inserts an empty mapping at the end, or before the
// entries that come later in order.
func (n *Node) Entry(key string, order ...string) *Node {
	if kid := n.Get(key); kid != nil {
		return kid
	}
	at := len(n.Kids)
	for at > 0 && slices.Index(order, n.Kids[at-1].Key) > slices.Index(order, key) {
		at--
	}
	kid := &Node{Key: key, Shape: Mapping, up: n}
	n.Kids = slices.Insert(n.Kids, at, kid)
	return kid
}

// Set turns n into a scalar with this text.
func (n *Node) Set(text string) *Node {
	n.Shape, n.Text, n.Plain, n.Kids = Scalar, text, false, nil
	return n
}

// SetText sets a field to this text, or removes the field if the text is empty.
func (n *Node) SetText(field, text string) {
	if n.Drop(field, text == "") {
		n.Entry(field).Set(text)
	}
}

// SetList turns n into the list of words. Remaining items keep their comments.
func (n *Node) SetList(words []string) {
	n.Shape = List
	var kids []*Node
	for _, w := range words {
		i := slices.IndexFunc(n.Kids, func(kid *Node) bool { return kid.Text == w })
		if i < 0 {
			kids = append(kids, &Node{Text: w, up: n})
		} else {
			kids = append(kids, n.Kids[i])
		}
	}
	n.Kids = kids
}

// HasItem reports whether n is a list with this item.
func (n *Node) HasItem(text string) bool {
	return n.Shape == List && slices.ContainsFunc(n.Kids, func(kid *Node) bool { return kid.Text == text })
}

// Drop removes an entry from a mapping if gone is true, and returns !gone.
func (n *Node) Drop(key string, gone bool) (stays bool) {
	if gone && n.Shape == Mapping {
		n.dropIf(func(kid *Node) bool { return kid.Key == key })
	}
	return !gone
}

// DropItem removes an item from a list.
func (n *Node) DropItem(text string) {
	if n.Shape == List {
		n.dropIf(func(kid *Node) bool { return kid.Text == text })
	}
}

// dropIf removes entries with the comments directly above them. Comments that a blank line separates from the entry
// stay.
func (n *Node) dropIf(gone func(*Node) bool) {
	var remaining []*Node
	var loose []string
	for _, kid := range n.Kids {
		if !gone(kid) {
			kid.head = append(loose, kid.head...)
			loose = nil
			remaining = append(remaining, kid)
			continue
		}
		for i, c := range slices.Backward(kid.head) {
			if c == "" {
				loose = append(loose, kid.head[:i+1]...)
				break
			}
		}
	}
	n.Kids = remaining
	n.tail = append(loose, n.tail...)
	if strings.Join(n.tail, "") == "" {
		n.tail = nil
	}
	if len(remaining) == 0 {
		// No entry is left above the comments.
		n.head = append(n.head, n.tail...)
		n.tail = nil
	}
}
