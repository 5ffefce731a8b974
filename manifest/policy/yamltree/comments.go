package yamltree

import "slices"

// This file finds the comments itself, because the YAML reader drops some and moves others. It needs no second YAML
// parser: no text continues on the next line, so only brackets and a comment can follow the last scalar of a line.

// comments attaches every comment and blank line to the node that it belongs to. A text that continues on the next
// line is an error.
func (r *treeReader) comments(root *Node, lines [][]rune) error {
	placer := placer{root: root, units: r.units}
	for i, line := range lines {
		row := i + 1
		col, err := r.hash(row, line)
		if err != nil {
			return err
		}
		first := placer.enter(row)
		comment := ""
		if col > 0 {
			comment = string(trimRight(line[col-1:]))
		}
		switch {
		case len(trimRight(line)) == 0:
			placer.blank = true
		case first == nil && col > 0:
			placer.place(comment, col)
		case first != nil:
			if placer.blank {
				first.head = append(first.head, "")
			}
			placer.blank, placer.low = false, nil
			first.line = comment
		}
	}
	return nil
}

func trimRight(line []rune) []rune {
	for len(line) > 0 && line[len(line)-1] == ' ' {
		line = line[:len(line)-1]
	}
	return line
}

// hash returns the column of the comment in a line, or 0.
func (r *treeReader) hash(row int, line []rune) (int, error) {
	from := 0
	if y := r.ends[row]; y != nil {
		from = y.Column - 1
		if c := line[from]; y.Style != 0 {
			end := closing(line, from+1, c)
			if end < 0 {
				return 0, at(row, y.Column, "a text ends in the line in which it begins")
			}
			from = end
		}
		from++
	}
	for i := from; i < len(line); i++ {
		if line[i] == '#' && (i == 0 || line[i-1] == ' ') {
			return i + 1, nil
		}
		if r.ends[row] == nil && !slices.Contains([]rune(" -[]{},:?"), line[i]) {
			return 0, at(row, i+1, "a text ends in the line in which it begins")
		}
	}
	return 0, nil
}

// closing returns the index of the quote that ends a text, or -1.
func closing(line []rune, i int, quote rune) int {
	for ; i < len(line); i++ {
		switch {
		case quote == '"' && line[i] == '\\':
			i++
		case quote == '\'' && line[i] == quote && i+1 < len(line) && line[i+1] == quote:
			i++
		case line[i] == quote:
			return i
		}
	}
	return -1
}

// A placer walks the lines of a file and keeps its position among the units.
type placer struct {
	root  *Node
	units []*Node // the units that follow
	last  *Node   // the unit before them
	blank bool    // a blank line precedes the next comment or unit
	low   *Node   // the node of the last comment after last: later comments go no deeper
}

// enter skips the units that begin in a row, and returns the first of them.
func (p *placer) enter(row int) *Node {
	var first *Node
	for len(p.units) > 0 && p.units[0].row == row {
		if p.last = p.units[0]; first == nil {
			first = p.last
		}
		p.units = p.units[1:]
	}
	return first
}

// place attaches a comment on its own line to the next unit. If it is indented like the entries of a mapping or
// list that ends here, it belongs to the end of that instead.
func (p *placer) place(comment string, col int) {
	var next *Node
	if len(p.units) > 0 {
		next = p.units[0]
	}
	home := p.home(next, col)
	to := &home.tail
	if next != nil && isAbove(home, next) {
		home, to = next.up, &next.head
	}
	p.low = home
	if p.blank {
		*to = append(*to, "")
	}
	p.blank = false
	*to = append(*to, comment)
}

// home returns the deepest mapping or list around the last unit whose entries are not indented more than col.
func (p *placer) home(next *Node, col int) *Node {
	if p.last == nil || next != nil && col <= next.col {
		return p.root
	}
	n := p.last
	if p.low != nil {
		n = p.low
	}
	for ; n != p.root; n = n.up {
		if len(n.Kids) > 0 && !n.flow && n.Kids[0].col <= col {
			return n
		}
	}
	return p.root
}

// isAbove reports whether n holds u, at any depth.
func isAbove(n, u *Node) bool {
	for ; u != nil; u = u.up {
		if u == n {
			return true
		}
	}
	return false
}
