package model

import (
	"slices"
	"strings"
	"sync"

	"github.com/rye-build/rye/ai/model/declared"
	"github.com/rye-build/rye/ai/model/fields"
	"github.com/rye-build/rye/ai/shape"
	"github.com/rye-build/rye/ai/value"
)

// Package declared reads what tools and directives declare. An item has the results under these names.
type (
	Tool       = declared.Tool
	Directive  = declared.Directive
	Constraint = declared.Constraint
	Example    = declared.Example
	Offer      = declared.Offer
)

// A Model is the content of an item. It doesn't change after Read and is safe for concurrent use.
type Model struct {
	Ref    Ref
	Fields *value.Value // by standard names, in the order of the file
	Body   string       // prose: the prompt of a directive, the text of knowledge
	BodyAt value.Pos
	Marked bool // has the marker of its kind; otherwise the file is an asset, and the rest is meaningless

	Version, Title, Description, Category string
	Tags                                  []string

	// The parts of the kernel's own kinds; at most one is set.
	Directive *Directive
	Tool      *Tool
	Knowledge *Knowledge

	Problems []*value.Problem // all of them, by place

	extractor func() (*Kind, []*value.Problem) // for a tool of type extractor
}

// Knowledge is the metadata of a knowledge item.
type Knowledge struct {
	ID, Title, Version, EntryType, Category string
	Tags, References                        []string
}

// Read interprets a file as an item and reports all its problems. It needs no file system: the path's extension
// selects the parser, and name and category must match the ref.
func (k *Kind) Read(ref Ref, path string, file []byte) *Model {
	doc := k.parse(path, file)
	parser := k.names[extension(path)]
	r := &fields.Report{At: value.Pos{Line: 1, Column: 1}, Problems: slices.Clip(doc.Problems)}
	m := &Model{Ref: ref, Body: doc.Body, BodyAt: doc.BodyAt, Marked: k.Marked(path, file) && k.carries(parser, doc)}
	m.Fields = k.fields(r, ref, parser, doc)
	r.At = m.Fields.At
	// an unreadable file isn't reported as lacking fields
	if unread := r.Has("") && len(doc.Fields.Map) == 0; !unread {
		k.schema.Check(r, ref.Name(), ref.Category(), m.Fields)
	}
	k.unknown(r, parser, doc)
	d := &fields.Reader{Report: r, Fields: m.Fields}
	d.Numbers("", m.Fields)
	if k.Name != configKind {
		m.Version, m.Description = d.Version(), d.Text("description")
		m.Title, m.Category, m.Tags = d.Text("title"), d.Text("category"), d.Words("tags")
	}
	if m.Title == "" {
		m.Title = m.Text("name")
	}
	if m.Category == "" {
		m.Category = ref.Category()
	}
	switch k.Name {
	case directiveKind:
		m.Directive = declared.ReadDirective(d)
	case toolKind:
		m.Tool = declared.ReadTool(d)
		if m.Fields.Get("tool_type").String() == "extractor" {
			m.extractor = sync.OnceValues(func() (*Kind, []*value.Problem) { return ReadExtractor(doc, ref.ID) })
		}
	case knowledgeKind:
		if m.Body == "" { // in a pure YAML file it is a field
			if m.Body = d.Text("body"); m.Body != "" {
				m.BodyAt = m.Fields.Get("body").At
			}
		}
		m.Knowledge = readKnowledge(d, m)
	}
	m.Problems = r.Sorted()
	return m
}

// IsProvider reports whether the item answers threads as a model (package exec/thread/provider), valid or not.
func (m *Model) IsProvider() bool { return m.Tool != nil && m.Fields.Get("tier_mapping") != nil }

// IsExtractor reports whether the item is a tool of the type extractor: Extractor may be called.
func (m *Model) IsExtractor() bool { return m.extractor != nil }

// Extractor is ReadExtractor for the parsed file. It always returns the same kind.
func (m *Model) Extractor() (*Kind, []*value.Problem) { return m.extractor() }

// Invalid reports whether check, sign and a new pin refuse the item.
func (m *Model) Invalid() bool { return slices.ContainsFunc(m.Problems, (*value.Problem).Refused) }

// Text returns the text that searches see under a field's name: "name" defaults to the last segment of the id,
// "title" is the title or the name, "content" the prose, "docstring" that of Python.
func (m *Model) Text(field string) string {
	switch field {
	case "title":
		return m.Title
	case "category":
		return m.Category
	case "description":
		return m.Description
	case "tags":
		return strings.Join(m.Tags, " ")
	case "body", "content":
		if m.Body != "" {
			return m.Body
		}
		return m.Fields.Get("docstring").String()
	case "name":
		if name := m.Fields.Get("name").String(); name != "" {
			return name
		}
		return m.Ref.Name()
	}
	var b strings.Builder
	flatten(&b, m.Fields.Get(field))
	return b.String()
}

// flatten writes the scalars of a value, with spaces between them.
func flatten(b *strings.Builder, v *value.Value) {
	if v.IsNull() {
		return
	}
	for _, item := range v.Items {
		flatten(b, item)
	}
	for i := range v.Map {
		flatten(b, v.Map[i].Value)
	}
	if v.Kind != value.List && v.Kind != value.Map {
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(v.Text)
	}
}

// Grants returns the grants that an item asks for. Knowledge, config and items of added kinds ask for none.
func (m *Model) Grants() shape.Grants {
	switch {
	case m.Tool != nil:
		return m.Tool.Grants()
	case m.Directive != nil:
		return m.Directive.Grants()
	}
	return shape.Grants{}
}

// Interface returns an item's interface; a directive's follows from its inputs and outputs. It is empty for items
// that aren't run.
func (m *Model) Interface() shape.Interface {
	switch {
	case m.Tool != nil:
		return m.Tool.Interface()
	case m.Directive != nil:
		return m.Directive.Interface()
	}
	return shape.Interface{}
}

func readKnowledge(d *fields.Reader, m *Model) *Knowledge {
	n := &Knowledge{ID: d.Text("id"), Title: m.Title, Version: m.Version, EntryType: d.Text("entry_type"),
		Category: m.Category, Tags: m.Tags}
	switch v := d.Fields.Get("references"); {
	case v.IsNull():
	case v.Kind == value.Text:
		n.References = d.Words("references")
	case v.Kind == value.List:
		for _, item := range v.Items {
			if item.Kind == value.Text {
				n.References = append(n.References, item.Text)
			}
		}
	default:
		d.Once(v, "references", "Field 'references' must be an array, got %s", fields.TypeName(v))
	}
	return n
}
