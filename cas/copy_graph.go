package cas

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rye-build/rye/cas/portable"
)

// A graph is everything that some roots reach, each object once. It keeps how the trees are nested, because every
// path in a tree that two paths lead to has two lengths. Of other objects it keeps only the ID, the size and the
// first parent.
type graph struct {
	nodes []node // the trees; a parent comes before the trees first reached through it
	index map[Digest]int32
	leafs []leaf // all other objects
	known map[ID]int32
}

func newGraph() graph { return graph{index: make(map[Digest]int32), known: make(map[ID]int32)} }

// A node is a tree.
type node struct {
	digest Digest
	parent int32  // the node through which it was first reached
	name   string // in its parent
	before int    // bytes of the path before its entries
	dirs   []edge
	file   string // its longest file name

	measured bool
	longest  int // bytes of the longest path in it
}

// An edge is a directory in a tree.
type edge struct {
	name string
	node int32
}

// A leaf is an object that refers to no others.
type leaf struct {
	id     ID
	parent int32
	size   int64
}

const (
	noParent = -1
	anySize  = -1
)

func (g *graph) addNode(digest Digest, parent int32, name string) (int32, error) {
	if n, ok := g.index[digest]; ok {
		return n, nil
	}
	if err := g.room(parent); err != nil {
		return 0, err
	}
	n := int32(len(g.nodes))
	g.index[digest] = n
	before := 0
	if parent != noParent {
		before = g.nodes[parent].before + len(name) + 1
	}
	g.nodes = append(g.nodes, node{digest: digest, parent: parent, name: name, before: before})
	return n, nil
}

func (g *graph) addLeaf(id ID, parent int32, size int64) error {
	if n, ok := g.known[id]; ok {
		switch l := &g.leafs[n]; {
		case l.size == anySize:
			l.size = size
		case size != anySize && size != l.size:
			return &DamagedError{ID: id, Err: fmt.Errorf("one tree lists it with %d bytes, another with %d", l.size,
				size)}
		}
		return nil
	}
	if err := g.room(parent); err != nil {
		return err
	}
	g.known[id] = int32(len(g.leafs))
	g.leafs = append(g.leafs, leaf{id, parent, size})
	return nil
}

// room returns an error, about the root above parent, if the graph is full.
func (g *graph) room(parent int32) error {
	if len(g.nodes)+len(g.leafs) < MaxWalk {
		return nil
	}
	if parent == noParent {
		return fmt.Errorf("more than %d roots", MaxWalk)
	}
	for g.nodes[parent].parent != noParent {
		parent = g.nodes[parent].parent
	}
	return TooLarge(ID{TreeKind, g.nodes[parent].digest})
}

// addTree adds the entries of node n's tree.
func (g *graph) addTree(n int32, entries []Entry) error {
	var dirs []edge
	file := ""
	for i := range entries {
		entry := &entries[i]
		if g.nodes[n].before+len(entry.Name) > portable.MaxPath {
			return portable.Check(join(g.path(n), entry.Name)) // now, so that a copy of any depth ends
		}
		if entry.Mode != Dir {
			if len(entry.Name) > len(file) {
				file = entry.Name
			}
			if err := g.addLeaf(entry.ID(), n, entry.Size); err != nil {
				return err
			}
			continue
		}
		name := strings.Clone(entry.Name) // a substring would keep all names of the tree in memory
		child, err := g.addNode(entry.Digest, n, name)
		if err != nil {
			return err
		}
		dirs = append(dirs, edge{name, child})
	}
	g.nodes[n].dirs, g.nodes[n].file = dirs, strings.Clone(file)
	return nil
}

// path returns a path of node n.
func (g *graph) path(n int32) string {
	var names []string
	for ; g.nodes[n].parent != noParent; n = g.nodes[n].parent {
		names = append(names, g.nodes[n].name)
	}
	slices.Reverse(names)
	return strings.Join(names, "/")
}

// checkPaths returns an error for a path that is too long: addTree knows only one path of each tree.
func (g *graph) checkPaths() error {
	for n := range g.nodes {
		if g.nodes[n].parent != noParent {
			continue
		}
		if p := g.measure(int32(n), 0); p != "" {
			return fmt.Errorf("%s: %w", ID{TreeKind, g.nodes[n].digest}, portable.Check(p))
		}
	}
	return nil
}

// measure finds the longest path in node n. It returns a path that is too long with before bytes in front of it.
// The trees form no circle, because none can contain its own digest, and measure descends no deeper than a path
// can.
func (g *graph) measure(n int32, before int) (tooLong string) {
	node := &g.nodes[n]
	if !node.measured {
		node.longest = len(node.file)
		for _, d := range node.dirs {
			end := before + len(d.name)
			if end > portable.MaxPath {
				return d.name
			}
			if p := g.measure(d.node, end+1); p != "" {
				return d.name + "/" + p
			}
			child := &g.nodes[d.node]
			node.longest = max(node.longest, len(d.name)+1+child.longest)
		}
		node.measured = true
	}
	if before+node.longest > portable.MaxPath {
		return g.longestPath(n)
	}
	return ""
}

// longestPath returns the longest path in a measured node.
func (g *graph) longestPath(n int32) string {
	node := &g.nodes[n]
	for _, d := range node.dirs {
		if len(d.name)+1+g.nodes[d.node].longest == node.longest {
			return d.name + "/" + g.longestPath(d.node)
		}
	}
	return node.file
}
