package yamltree

import (
	"slices"
	"strings"
)

// Edits of a tree. What they make is to be formatted and read again like any other file.

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

// Entry returns the entry of a mapping, which it makes when there is none: last, or before the first that comes
// later in order, when an order is given. A new entry is an empty mapping.
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

// Set makes n this text.
func (n *Node) Set(text string) *Node {
	n.Shape, n.Text, n.Plain, n.Kids = Scalar, text, false, nil
	return n
}

// SetText makes a field this text, or takes it away if that is empty.
func (n *Node) SetText(field, text string) {
	if n.Drop(field, text == "") {
		n.Entry(field).Set(text)
	}
}

// SetList makes n say words. Items that stay keep their comments.
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

// Drop takes an entry out of a mapping if it is to be gone, and returns whether it is to stay.
func (n *Node) Drop(key string, gone bool) (stays bool) {
	if gone && n.Shape == Mapping {
		n.dropIf(func(kid *Node) bool { return kid.Key == key })
	}
	return !gone
}

// DropItem takes an item out of a list.
func (n *Node) DropItem(text string) {
	if n.Shape == List {
		n.dropIf(func(kid *Node) bool { return kid.Text == text })
	}
}

// dropIf takes entries out, with the comments that stand directly above them; those behind a blank line stay.
func (n *Node) dropIf(gone func(*Node) bool) {
	var kept []*Node
	var loose []string
	for _, kid := range n.Kids {
		if !gone(kid) {
			kid.head = append(loose, kid.head...)
			loose = nil
			kept = append(kept, kid)
			continue
		}
		for i, c := range slices.Backward(kid.head) {
			if c == "" {
				loose = append(loose, kid.head[:i+1]...)
				break
			}
		}
	}
	n.Kids = kept
	n.tail = append(loose, n.tail...)
	if strings.Join(n.tail, "") == "" {
		n.tail = nil
	}
	if len(kept) == 0 {
		// Nothing is left that comments could stand under.
		n.head = append(n.head, n.tail...)
		n.tail = nil
	}
}
