package graph

import (
	"fmt"
	"io"
	"strings"
)

// Forms are the formats of drawings.
var Forms = []string{"text", "dot", "mermaid"}

// Draw draws the graph. It marks the node named mark; "" marks none.
func (g *Graph) Draw(w io.Writer, form, mark string) error {
	d := &drawing{Graph: g, w: w, mark: mark}
	switch form {
	case "dot":
		d.dot()
	case "mermaid":
		d.mermaid()
	default:
		d.text()
	}
	return d.err
}

// A drawing is a drawing in progress. It keeps the first error.
type drawing struct {
	*Graph
	w    io.Writer
	mark string
	err  error
}

func (d *drawing) printf(format string, args ...any) {
	if d.err == nil {
		_, d.err = fmt.Fprintf(d.w, format, args...)
	}
}

// An arrow leads from a node to another one.
type arrow struct{ to, label string }

// end is the name of the end in drawings.
const end = "(end)"

// arrows returns the arrows of a node, including one to the end.
func (d *drawing) arrows(n *Node) (all []arrow) {
	add := func(to, label string) {
		if to == "" {
			to = end
		}
		all = append(all, arrow{to, label})
	}
	if n.Type == Return {
		return nil
	}
	always := false
	for i, e := range n.Next {
		label := e.text
		if always = always || e.When == nil; e.When == nil && i > 0 {
			label = "else"
		}
		if n.Type == Gate && label == "" {
			label = "yes"
		}
		add(e.To, label)
	}
	if !always {
		label := ""
		if len(n.Next) > 0 {
			label = "else"
		}
		add("", label)
	}
	if n.Type == Gate {
		add(n.Otherwise, "otherwise")
	}
	if to, _ := d.On(n); to != "" && n.Call != nil {
		add(to, "error")
	}
	return all
}

// does describes in a few words what a node does.
func (n *Node) does() string {
	switch n.Type {
	case Return:
		return "return"
	case Gate:
		if n.Ask != nil {
			return "ask " + n.Ask.String()
		}
		return "gate"
	}
	what := n.Call.Ref.String()
	if n.Call.Ref.ID == "" {
		what = n.Call.Ref.Kind
	}
	if n.Call.Verb != "execute" {
		what = n.Call.Verb + " " + what
	}
	if n.Type == Foreach {
		return fmt.Sprintf("foreach %s in %s: %s", n.As, n.Over, what)
	}
	return what
}

func (d *drawing) text() {
	for _, n := range d.Nodes {
		begin := "  "
		switch {
		case n.Name == d.mark:
			begin = "* "
		case n.Name == d.Start:
			begin = "> "
		}
		d.printf("%s%s  %s\n", begin, n.Name, n.does())
		for _, a := range d.arrows(n) {
			label := ""
			if a.label != "" {
				label = "  [" + a.label + "]"
			}
			d.printf("      -> %s%s\n", a.to, label)
		}
	}
}

// quoted returns a text in DOT's quotes.
func quoted(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\r", "").Replace(s) + `"`
}

func (d *drawing) dot() {
	d.printf("digraph {\n  node [shape=box];\n")
	ends := false
	for _, n := range d.Nodes {
		shape := map[string]string{Gate: ", shape=diamond", Return: ", shape=doublecircle",
			Foreach: ", shape=box3d"}[n.Type]
		if n.Name == d.mark {
			shape += ", style=filled"
		}
		d.printf("  %s [label=%s%s];\n", quoted(n.Name), quoted(n.Name+"\n"+n.does()), shape)
		for _, a := range d.arrows(n) {
			ends = ends || a.to == end
			d.printf("  %s -> %s [label=%s];\n", quoted(n.Name), quoted(a.to), quoted(a.label))
		}
	}
	if ends {
		d.printf("  %s [shape=point];\n", quoted(end))
	}
	d.printf("}\n")
}

// escaped returns a text for Mermaid, with punctuation as entities.
func escaped(s string) string {
	var text strings.Builder
	for _, c := range s {
		switch {
		case c == '\n':
			text.WriteString("<br>")
		case strings.ContainsRune("\"#<>&|[]{}()`;", c) || c < ' ':
			fmt.Fprintf(&text, "#%d;", c)
		default:
			text.WriteRune(c)
		}
	}
	return `"` + text.String() + `"`
}

func (d *drawing) mermaid() {
	d.printf("flowchart TD\n")
	names := map[string]string{end: "e"}
	for i, n := range d.Nodes {
		names[n.Name] = fmt.Sprint("n", i)
	}
	ends := false
	for _, n := range d.Nodes {
		open, shut := "[", "]"
		switch n.Type {
		case Gate:
			open, shut = "{", "}"
		case Return:
			open, shut = "([", "])"
		case Foreach:
			open, shut = "[[", "]]"
		}
		d.printf("  %s%s%s%s\n", names[n.Name], open, escaped(n.Name+"\n"+n.does()), shut)
		for _, a := range d.arrows(n) {
			ends = ends || a.to == end
			label := ""
			if a.label != "" {
				label = "|" + escaped(a.label) + "|"
			}
			d.printf("  %s -->%s %s\n", names[n.Name], label, names[a.to])
		}
	}
	if ends {
		d.printf("  e((%s))\n", escaped("end"))
	}
	if n := names[d.mark]; n != "" && d.mark != end {
		d.printf("  style %s stroke-width:4px\n", n)
	}
}
