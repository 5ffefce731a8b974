package model

import (
	"slices"
	"strings"

	"github.com/rye-build/rye/ai/model/fields"
	"github.com/rye-build/rye/ai/parse"
	"github.com/rye-build/rye/ai/value"
)

// toolFields are the fields of a tool that the kernel reads. A Python file has them as __name__ or NAME.
var toolFields = []string{
	"anchor", "answer", "category", "child_constraints", "config", "config_schema", "description", "effects",
	"env_config",
	"error_schema", "examples", "executor_id", "files", "input_schema", "inputs", "limits", "name", "network",
	"output_schema",
	"outputs", "packages", "permissions", "plugin", "pure", "risk", "secrets", "tags",
	"tool_type", "verify_deps", "version",
}

// A rule is an extraction rule of an extractor: the source of a standard field that a file lacks.
type rule struct {
	field    string
	filename bool   // the file's name is the source; otherwise key
	key      string // a field of the file, possibly dotted, as in "meta.title"
}

// kept reports whether extractors can't define the source of a field: it decides what is executed, what it may do, or
// what is an item.
func kept(kind, field string) bool {
	switch field {
	case "answer", "capabilities", "effects", "executor_id", "files", "limits", "network", "packages", "permissions",
		"plugin", "pure", "risk", "secrets":
		return true
	case "id", "title", "entry_type":
		return kind == knowledgeKind
	}
	return false
}

// capitals reports whether a Python tool may name a field in capitals, too, as existing tools do. Other fields can't,
// because LIMITS, TAGS or NAME may be any constant of the program.
func capitals(field string) bool {
	switch field {
	case "anchor", "child_constraints", "config", "config_schema", "env_config", "error_schema", "examples",
		"input_schema",
		"output_schema", "verify_deps":
		return true
	}
	return false
}

// standard returns the standard name of a file's field, or "".
func (k *Kind) standard(parser, key string) string {
	name := key
	if parser == pythonParser {
		if inner, ok := strings.CutPrefix(key, "__"); ok && len(inner) > 2 && strings.HasSuffix(inner, "__") {
			name = inner[:len(inner)-2]
		} else if name = strings.ToLower(key); !capitals(name) || strings.ToUpper(name) != key {
			return ""
		}
		if name != "tool_description" && !k.known[name] {
			return ""
		}
	}
	if name == "tool_description" {
		return "description"
	}
	return name
}

// fields returns the fields of a file under their standard names, and reports duplicates.
func (k *Kind) fields(report *fields.Report, ref Ref, parser string, doc *parse.Doc) *value.Value {
	out := &value.Value{Kind: value.Map, At: doc.Fields.At, Map: make([]value.Entry, 0, len(doc.Fields.Map)+2)}
	if out.At.Line == 0 {
		out.At = value.Pos{Line: 1, Column: 1}
	}
	plain := make([]bool, 0, len(doc.Fields.Map)+2) // whether an entry has the preferred name
	for _, entry := range doc.Fields.Map {
		name := k.standard(parser, entry.Key)
		if name == "" {
			continue
		}
		first := name == entry.Key || strings.HasPrefix(entry.Key, "__")
		at := -1
		// other parsers never produce duplicates, and keys may be very many
		if parser == pythonParser || name == "description" {
			at = slices.IndexFunc(out.Map, func(o value.Entry) bool { return o.Key == name })
		}
		switch {
		case at < 0:
			out.Map = append(out.Map, value.Entry{Key: name, At: entry.At, Value: entry.Value})
			plain = append(plain, first)
			continue
		case !equal(out.Map[at].Value, entry.Value):
			report.Add(entry.At, true, name, "the field %s is given twice, with different values; %s counts",
				fields.Single(name),
				map[bool]string{true: "the first", false: "the other"}[plain[at]])
		}
		if first && !plain[at] {
			out.Map[at] = value.Entry{Key: name, At: entry.At, Value: entry.Value}
			plain[at] = true
		}
	}
	k.apply(out, ref, doc)
	return out
}

// apply fills missing fields by the extractor's rules.
func (k *Kind) apply(out *value.Value, ref Ref, doc *parse.Doc) {
	for _, rule := range k.rules {
		if out.Get(rule.field) != nil {
			continue
		}
		v := dotted(doc.Fields, rule.key)
		if rule.filename {
			v = &value.Value{Kind: value.Text, Text: ref.Name(), At: out.At}
		}
		if v != nil {
			out.Map = append(out.Map, value.Entry{Key: rule.field, At: v.At, Value: v})
		}
	}
	if k.Name == toolKind && out.Get("name") == nil {
		out.Map = append(out.Map, value.Entry{Key: "name", At: out.At,
			Value: &value.Value{Kind: value.Text, Text: ref.Name(), At: out.At}})
	}
}

// dotted returns the value of a key, or of keys that are joined by dots.
func dotted(v *value.Value, key string) *value.Value {
	if found := v.Get(key); found != nil || key == "" {
		return found
	}
	for part := range strings.SplitSeq(key, ".") {
		if v = v.Get(part); v == nil {
			return nil
		}
	}
	return v
}

// equal reports whether two values are equal.
func equal(a, b *value.Value) bool {
	if a.IsNull() || b.IsNull() {
		return a.IsNull() && b.IsNull()
	}
	return a.Kind == b.Kind && a.Text == b.Text && slices.EqualFunc(a.Items, b.Items, equal) &&
		slices.EqualFunc(a.Map, b.Map, func(x, y value.Entry) bool {
			return x.Key == y.Key && equal(x.Value, y.Value)
		})
}

// moreFields are fields that rye reads outside of this package: of providers and of existing tools' metadata.
var moreFields = []string{
	"annotations", "author", "capabilities", "context_window", "docstring", "max_output", "models", "overhead_tokens",
	"pricing", "start", "tier_mapping", "title", "tool_description", "tool_use",
}

// directiveFields are the fields of a directive's metadata.
var directiveFields = []string{
	"author", "category", "description", "hooks", "inputs", "limits", "model", "name", "outputs", "permissions",
	"tags",
	"title", "tools", "version",
}

// knowledgeFields are the fields of knowledge that rye reads. The rest of its metadata is the author's.
var knowledgeFields = []string{
	"author", "body", "category", "description", "entry_type", "id", "references", "tags", "title", "version",
}

// pythonNames are names that Python gives a meaning, or that its modules have by custom.
var pythonNames = []string{"all", "date", "doc", "email", "file", "license", "name", "path", "slots", "status", "test"}

// unknown reports fields that rye doesn't read. One that resembles a known one is a mistake: a tool with "secret:"
// would run without its secrets.
func (k *Kind) unknown(report *fields.Report, parser string, doc *parse.Doc) {
	var names []string
	switch k.Name {
	case toolKind:
		if doc.Fields.Get("tool_type").String() == "extractor" {
			return // ReadExtractor knows its fields
		}
		names = slices.Concat(toolFields, moreFields)
	case directiveKind:
		names = directiveFields
	case knowledgeKind:
		names = knowledgeFields
	default:
		return // other kinds are free to name their fields
	}
	for _, entry := range doc.Fields.Map {
		name, dunder := strings.CutPrefix(entry.Key, "__")
		name = strings.TrimSuffix(name, "__")
		inPython := parser == pythonParser
		if slices.Contains(names, name) || k.known[name] ||
			inPython && (!dunder || slices.Contains(pythonNames, name)) {
			continue
		}
		near := fields.Near(name, names)
		// A Python module, and the metadata of knowledge, have names of their own.
		if near == "" && (inPython || k.Name == knowledgeKind) || report.Full() {
			continue
		}
		field := fields.Clip(entry.Key)
		if near == "" {
			report.Add(entry.At, true, field, "Field '%s' is unknown", field)
			continue
		}
		if dunder {
			near = "__" + near + "__"
		}
		report.Add(entry.At, true, field, "Field '%s' is unknown; did you mean %q?", field, near)
		report.Problems[len(report.Problems)-1].Strict = true
	}
}
