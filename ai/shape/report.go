package shape

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/manifest/jcs"
)

// A Class is the effect of a change on the callers of a tool.
type Class string

// The classes, the worst first.
const (
	Breaking   Class = "breaking"
	Warning    Class = "warning"
	Compatible Class = "compatible"
	Info       Class = "info"
)

var classes = []Class{Breaking, Warning, Compatible, Info}

// An Item is one change.
type Item struct {
	Kind  string          `json:"kind"`
	Path  string          `json:"path"` // a JSON pointer; "" is the tool
	From  json.RawMessage `json:"from,omitempty"`
	To    json.RawMessage `json:"to,omitempty"`
	Class Class           `json:"class"`
	Note  string          `json:"note,omitempty"` // such as that the new risk isn't declared
}

// A Report is the changes from one state of a tool to another.
type Report struct {
	FromHash string `json:"from_hash,omitempty"` // interface hashes; "" without a tool or without a hash
	ToHash   string `json:"to_hash,omitempty"`
	Breaking bool   `json:"breaking"`
	Summary  string `json:"summary"`
	Items    []Item `json:"items"`
}

// A Shape is one state of a tool.
type Shape struct {
	Interface   Interface
	Grants      Grants
	Description string
	Tags        []string
	Examples    any
}

// Diff reports the changes from before to after. nil is a missing tool.
func Diff(before, after *Shape) Report {
	var list []Item
	switch {
	case before == nil && after == nil:
	case before == nil:
		list = []Item{{Kind: "tool_added", Class: Compatible}}
	case after == nil:
		list = []Item{{Kind: "tool_removed", Class: Breaking}}
	default:
		list = append(list, diffSchemas(input, before.Interface.Input, after.Interface.Input)...)
		list = append(list, diffSchemas(output, before.Interface.Output, after.Interface.Output)...)
		list = append(list, diffSchemas(failure, before.Interface.Error, after.Interface.Error)...)
		list = append(list, diffGrants(before.Grants, after.Grants)...)
		list = append(list, diffTexts(before, after)...)
	}
	sortItems(list)
	r := Report{FromHash: before.hash(), ToHash: after.hash(), Items: list, Summary: summary(list)}
	if r.Items == nil {
		r.Items = []Item{}
	}
	r.Breaking = len(list) > 0 && list[0].Class == Breaking
	return r
}

func (s *Shape) hash() string {
	if s == nil {
		return ""
	}
	d, err := s.Interface.Hash()
	if err != nil {
		return ""
	}
	return d.String()
}

func diffTexts(before, after *Shape) (list []Item) {
	add := func(name string, from, to any) {
		if a, b := raw(from), raw(to); !bytes.Equal(a, b) {
			list = append(list, Item{Kind: name + "_changed", Path: "/" + name, From: a, To: b, Class: Info})
		}
	}
	text := func(s string) any {
		if s == "" {
			return nil
		}
		return s
	}
	add("description", text(before.Description), text(after.Description))
	add("tags", values(sorted(before.Tags)), values(sorted(after.Tags)))
	add("examples", before.Examples, after.Examples)
	return list
}

// maxRaw is the longest value, in bytes, that a report repeats.
const maxRaw = 2000

// raw returns v for a report: nil if it is missing, and its digest if it is long or not a JSON value.
func raw(v any) json.RawMessage {
	if v == nil {
		return nil
	}
	return shorten(jcs.Append(nil, v))
}

func shorten(text []byte, err error) json.RawMessage {
	switch {
	case err != nil:
		return json.RawMessage(`"not a JSON value"`)
	case len(text) > maxRaw:
		return fmt.Appendf(nil, `"%d bytes, %s"`, len(text), cas.Sum(text))
	}
	return text
}

func sortItems(list []Item) {
	slices.SortFunc(list, func(a, b Item) int {
		return cmp.Or(
			slices.Index(classes, a.Class)-slices.Index(classes, b.Class),
			strings.Compare(a.Path, b.Path),
			strings.Compare(a.Kind, b.Kind),
			bytes.Compare(a.From, b.From),
			bytes.Compare(a.To, b.To))
	})
}

// summary counts the items of each class: "2 breaking, 1 info".
func summary(list []Item) string {
	var parts []string
	for _, class := range classes {
		n := 0
		for i := range list {
			if list[i].Class == class {
				n++
			}
		}
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, class))
		}
	}
	if len(parts) == 0 {
		return "no change"
	}
	return strings.Join(parts, ", ")
}
