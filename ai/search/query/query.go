package query

import (
	"strconv"
	"strings"
)

// A Query is a parsed query. The zero Query finds everything. It doesn't change after Parse.
type Query struct{ Root *Node }

// An Op is the type of a node.
type Op uint8

// The operations. Word, Pattern, Fuzzy and Phrase are leaves; the others have Kids.

const (
	Word Op = iota
	Pattern
	Fuzzy
	Phrase // words in a row or, with a distance, near each other
	And
	Or
	Not
)

// A Node is a part of a query.
type Node struct {
	Op    Op
	Field string   // of a leaf; "" means all
	Words []string // one, except for Phrase
	N     int      // distance, of Fuzzy and Phrase
	Kids  []*Node
}

// String returns the query in its canonical form, which Parse reads as the same query.
func (q *Query) String() string {
	if q.Root == nil {
		return ""
	}
	var b strings.Builder
	q.Root.write(&b, Or)
	return b.String()
}

// write writes a node inside another one. Parentheses are necessary only for an OR inside another operator and an AND
// inside a NOT.
func (n *Node) write(text *strings.Builder, within Op) {
	paren := n.Op == Or && within != Or || n.Op == And && within == Not
	if paren {
		text.WriteByte('(')
	}
	switch n.Op {
	case Not:
		text.WriteString("NOT ")
		n.Kids[0].write(text, Not)
	case And, Or:
		for i, k := range n.Kids {
			if i > 0 && n.Op == Or {
				text.WriteString(" OR ")
			} else if i > 0 {
				text.WriteByte(' ')
			}
			k.write(text, n.Op)
		}
	default:
		n.writeLeaf(text)
	}
	if paren {
		text.WriteByte(')')
	}
}

func (n *Node) writeLeaf(text *strings.Builder) {
	if n.Field != "" {
		text.WriteString(n.Field)
		text.WriteByte(':')
	}
	if n.Op == Phrase {
		text.WriteByte('"')
		text.WriteString(strings.Join(n.Words, " "))
		text.WriteByte('"')
	} else {
		text.WriteString(n.Words[0])
	}
	if n.N > 0 {
		text.WriteByte('~')
		text.WriteString(strconv.Itoa(n.N))
	}
}

// Leaves calls f for all leaves; negated means an odd number of NOTs above the leaf.
func (n *Node) Leaves(negated bool, f func(leaf *Node, negated bool)) {
	switch {
	case n == nil:
	case n.Op < And:
		f(n, negated)
	default:
		for _, k := range n.Kids {
			k.Leaves(negated != (n.Op == Not), f)
		}
	}
}

// join makes one node of several, and flattens nodes of the same type.
func join(o Op, kids []*Node) *Node {
	if len(kids) == 1 {
		return kids[0]
	}
	n := &Node{Op: o}
	for _, k := range kids {
		if k.Op == o {
			n.Kids = append(n.Kids, k.Kids...)
		} else {
			n.Kids = append(n.Kids, k)
		}
	}
	return n
}
