package recipe

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/manifest/policy/yamltree"
)

// A written pattern is a pattern with its place in bundle.yaml.
type written struct {
	field, text  string
	line, column int
	match        func(file string) bool
}

// wrote records a pattern and its place.
func (r *Recipe) wrote(n *yamltree.Node, field, text string, match func(file string) bool) {
	at, _ := n.Errorf("").(*yamltree.Error)
	r.patterns = append(r.patterns, written{field, text, at.Line, at.Column, match})
}

// An UnusedError is a pattern of bundle.yaml that matches no file.
type UnusedError struct {
	Field, Text  string
	Line, Column int
	Missing      bool // an include of one missing item or file; other patterns may be intended
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

// Unused returns the patterns that match no file of the bundle, in the order of bundle.yaml. left are the files
// that were left out, which most patterns may also match. Both lists are relative to the directory that holds .ai.
func (r *Recipe) Unused(bundled, left []string) (unused []*UnusedError) {
	all := slices.Concat(bundled, left)
	for _, written := range r.patterns {
		if written.field == "exclude" && precaution(written.text) {
			continue
		}
		exact := !strings.Contains(written.text, "*")
		used, directory := false, false
		for i, file := range all {
			if i >= len(bundled) && (written.field == "executable" || written.field == "allow-secret") {
				break
			}
			if used = written.match(file) && (written.field != "assets" || !inAI(file)); used {
				break
			}
			directory = directory || exact && strings.HasPrefix(file, written.text+"/")
		}
		if !used {
			unused = append(unused, &UnusedError{written.field, written.text, written.line, written.column, exact &&
				written.field == "include",
				directory})
		}
	}
	slices.SortStableFunc(unused, func(a, b *UnusedError) int { return cmp.Or(a.Line-b.Line, a.Column-b.Column) })
	return unused
}

// precaution reports whether an exclude is for files that may appear anywhere later, or for files that are never
// bundled. Such an exclude may match nothing now.
func precaution(text string) bool {
	segs := strings.Split(text, "/")
	return slices.Contains(segs[:len(segs)-1], "**") || inAI(text) && Never(segs[1])
}
