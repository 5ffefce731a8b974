package recipe

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/manifest/policy/yamltree"
)

// A written pattern is one as it stands in bundle.yaml.
type written struct {
	field, text  string
	line, column int
	match        func(file string) bool
}

// wrote remembers where a pattern stands.
func (r *Recipe) wrote(n *yamltree.Node, field, text string, match func(file string) bool) {
	at, _ := n.Errorf("").(*yamltree.Error)
	r.patterns = append(r.patterns, written{field, text, at.Line, at.Column, match})
}

// An UnusedError says that a pattern of bundle.yaml covers no file.
type UnusedError struct {
	Field, Text  string
	Line, Column int
	Missing      bool // it includes one item or one file, which isn't there: else it may be meant so
	directory    bool
}

func (e *UnusedError) Error() string {
	switch {
	case e.directory:
		return fmt.Sprintf("%+q is a directory: expected %+q", fault.Clip(e.Text, 100), fault.Clip(e.Text, 100)+"/**")
	case e.Missing:
		return fmt.Sprintf("include: %+q not found", fault.Clip(e.Text, 100))
	case e.Field == "executable" || e.Field == "allow-secret":
		return fmt.Sprintf("%+q matches no file of the bundle", fault.Clip(e.Text, 100))
	}
	return fmt.Sprintf("%+q matches no file", fault.Clip(e.Text, 100))
}

// Unused returns the patterns that cover none of the files of the bundle, nor of those that were left out where it
// matters, in the order of bundle.yaml. Both are relative to the directory that holds .ai.
func (r *Recipe) Unused(bundled, left []string) (unused []*UnusedError) {
	all := slices.Concat(bundled, left)
	for _, p := range r.patterns {
		if p.field == "exclude" && precaution(p.text) {
			continue
		}
		exact := !strings.Contains(p.text, "*")
		used, directory := false, false
		for i, file := range all {
			if i >= len(bundled) && (p.field == "executable" || p.field == "allow-secret") {
				break
			}
			if used = p.match(file) && (p.field != "assets" || !inAI(file)); used {
				break
			}
			directory = directory || exact && strings.HasPrefix(file, p.text+"/")
		}
		if !used {
			unused = append(unused, &UnusedError{p.field, p.text, p.line, p.column, exact && p.field == "include",
				directory})
		}
	}
	slices.SortStableFunc(unused, func(a, b *UnusedError) int { return cmp.Or(a.Line-b.Line, a.Column-b.Column) })
	return unused
}

// precaution reports whether an exclude is for what may come to be anywhere, or for what is never bundled: that there
// is none now says nothing.
func precaution(text string) bool {
	segs := strings.Split(text, "/")
	return slices.Contains(segs[:len(segs)-1], "**") || inAI(text) && Never(segs[1])
}
