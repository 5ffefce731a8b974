package model

import (
	"bytes"
	"fmt"
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
	Risk       = declared.Risk
	Reach      = declared.Reach
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
	parser    string                           // of the file
	comment   string                           // that its fields stand behind, such as "# "
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
	report := &fields.Report{At: value.Pos{Line: 1, Column: 1}, Problems: slices.Clip(doc.Problems)}
	model := &Model{Ref: ref, Body: doc.Body, BodyAt: doc.BodyAt, Marked: k.Marked(path, file) &&
		k.carries(parser, doc)}
	model.parser, model.comment = parser, before(file, doc.Fields)
	model.Fields = k.fields(report, ref, parser, doc)
	report.At = model.Fields.At
	// an unreadable file isn't reported as lacking fields
	if unread := report.Has("") && len(doc.Fields.Map) == 0; !unread {
		k.schema.Check(report, ref.Name(), ref.Category(), model.Fields)
	}
	k.unknown(report, parser, doc)
	reader := &fields.Reader{Report: report, Fields: model.Fields}
	reader.Numbers("", model.Fields)
	if k.Name != configKind {
		model.Version, model.Description = reader.Version(), reader.Text("description")
		model.Title, model.Category, model.Tags = reader.Text("title"), reader.Text("category"), reader.Words("tags")
	}
	if model.Title == "" {
		model.Title = model.Text("name")
	}
	if model.Category == "" {
		model.Category = ref.Category()
	}
	switch k.Name {
	case directiveKind:
		model.Directive = declared.ReadDirective(reader)
	case toolKind:
		model.Tool = declared.ReadTool(reader)
		if model.Fields.Get("tool_type").String() == "extractor" {
			model.extractor = sync.OnceValues(func() (*Kind, []*value.Problem) { return ReadExtractor(doc, ref.ID) })
		}
	case knowledgeKind:
		if model.Body == "" { // in a pure YAML file it is a field
			if model.Body = reader.Text("body"); model.Body != "" {
				model.BodyAt = model.Fields.Get("body").At
			}
		}
		model.Knowledge = readKnowledge(reader, model)
	}
	model.Problems = report.Sorted()
	return model
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
func flatten(text *strings.Builder, val *value.Value) {
	if val.IsNull() {
		return
	}
	for _, item := range val.Items {
		flatten(text, item)
	}
	for i := range val.Map {
		flatten(text, val.Map[i].Value)
	}
	if val.Kind != value.List && val.Kind != value.Map {
		if text.Len() > 0 {
			text.WriteByte(' ')
		}
		text.WriteString(val.Text)
	}
}

// Grants returns the grants that an item asks for. Knowledge, config and items of added kinds ask for none.
func (m *Model) Grants() shape.Grants {
	switch {
	case m.Tool != nil:
		grants := m.Tool.Grants()
		grants.RiskNote = m.RiskNote()
		return grants
	case m.Directive != nil:
		return m.Directive.Grants()
	}
	return shape.Grants{}
}

// RiskNote returns the advice for a tool that declares no risk: the risk of calls that get all it declares, and the
// line that would declare it. It returns "" for other items, and for runtimes and primitives.
func (m *Model) RiskNote() string {
	if m.Tool == nil || !m.Tool.NoRisk || m.Tool.Lends() {
		return ""
	}
	risk, why := m.Tool.DeriveRisk()
	return fmt.Sprintf("none is declared: calls count as %s, because %s; add a line such as: %s", risk, why,
		m.RiskLine(risk))
}

// RiskLine returns the line by which the item's file declares a risk.
func (m *Model) RiskLine(r Risk) string {
	switch m.parser {
	case pythonParser:
		return fmt.Sprintf("__risk__ = %q", r)
	case commentParser:
		return m.comment + "risk: " + r.String()
	}
	return "risk: " + r.String()
}

// RiskText returns a risk for people; derived is why it is that if it isn't declared, otherwise "".
func RiskText(risk, derived string) string {
	if derived == "" {
		return risk
	}
	return risk + " (derived: " + derived + ")"
}

// before returns the text of a file's line before its first field.
func before(file []byte, fields *value.Value) string {
	if len(fields.Map) == 0 {
		return ""
	}
	at := fields.Map[0].At
	for range at.Line - 1 {
		_, file, _ = bytes.Cut(file, []byte("\n"))
	}
	return string(file[:min(max(at.Column-1, 0), len(file))])
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

func readKnowledge(reader *fields.Reader, m *Model) *Knowledge {
	n := &Knowledge{ID: reader.Text("id"), Title: m.Title, Version: m.Version, EntryType: reader.Text("entry_type"),
		Category: m.Category, Tags: m.Tags}
	switch val := reader.Fields.Get("references"); {
	case val.IsNull():
	case val.Kind == value.Text:
		n.References = reader.Words("references")
	case val.Kind == value.List:
		for _, item := range val.Items {
			if item.Kind == value.Text {
				n.References = append(n.References, item.Text)
			}
		}
	default:
		reader.Once(val, "references", "Field 'references' must be an array, got %s", fields.TypeName(val))
	}
	return n
}
