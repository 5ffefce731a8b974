package model

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/rye-build/rye/ai/model/fields"
	"github.com/rye-build/rye/ai/parse"
	"github.com/rye-build/rye/ai/value"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/portable"
	"github.com/rye-build/rye/manifest/sign"
)

// A Kind defines the place, format and schema of a kind's items. It is builtin or read from an extractor. It never
// changes and is safe for concurrent use.
type Kind struct {
	Name, Dir  string   // "tool", "tools"
	Extensions []string // in the order tried
	Weights    []Weight // of the search fields
	Builtin    bool     // without an extractor: callers warn
	From       string   // the id of the extractor

	parsers map[string]parse.Parser
	names   map[string]string // the parser of each extension, by name
	styles  map[string]sign.Style
	rules   []rule
	schema  fields.Schema
	known   map[string]bool // the fields of schema, rules and weights, which a Python file may have as __name__
}

// A Weight is how much a word in a field counts in searches.
type Weight struct {
	Field string
	Value float64
}

// The kinds that the kernel knows. Extractors add all others.
const (
	directiveKind = "directive"
	toolKind      = "tool"
	knowledgeKind = "knowledge"
	configKind    = "config"
)

// builtinDir returns the directory of a kind that the kernel knows, "" for an added one.
func builtinDir(kind string) string {
	switch kind {
	case directiveKind:
		return "directives"
	case toolKind:
		return "tools"
	case knowledgeKind:
		return "knowledge"
	case configKind:
		return "config"
	}
	return ""
}

// The names of the parsers of package parse.
const (
	xmlParser     = "markdown_xml"
	matterParser  = "markdown_frontmatter"
	pythonParser  = "python_ast"
	yamlParser    = "yaml"
	commentParser = "comment_header"
	patternParser = "pattern"
)

// kernelParser returns the fixed parser of an extension in a kind; "" if extractors may choose it.
func kernelParser(kind, ext string) string {
	isYAML := ext == ".yaml" || ext == ".yml"
	switch {
	case kind == directiveKind && ext == ".md":
		return xmlParser
	case kind == knowledgeKind && ext == ".md":
		return matterParser
	case builtinDir(kind) != "" && kind != directiveKind && isYAML:
		return yamlParser
	case kind == toolKind && ext == ".py":
		return pythonParser
	case kind == toolKind && ext != ".md" && ext != ".html" && ext != ".xml" && sign.StyleOf(ext) != sign.NoStyle:
		return commentParser
	}
	return ""
}

// Builtin returns the kinds that apply without an extractor: directive, tool, knowledge, config. Each call returns
// the same ones.
func Builtin() []*Kind { return slices.Clone(kernelKinds()) }

var kernelKinds = sync.OnceValue(func() []*Kind {
	return []*Kind{
		builtin(directiveKind, ".md"),
		builtin(toolKind, ".py", ".yaml", ".yml", ".js", ".mjs", ".cjs", ".ts", ".sh", ".rb", ".pl", ".tcl", ".lua",
			".star"),
		builtin(knowledgeKind, ".md", ".yaml", ".yml"),
		builtin(configKind, ".yaml", ".yml"),
	}
})

func builtin(name string, extensions ...string) *Kind {
	k := &Kind{
		Name: name, Dir: builtinDir(name), Extensions: extensions, Builtin: true, schema: builtinSchema(name),
		Weights: standardWeights(),
		parsers: map[string]parse.Parser{}, names: map[string]string{},
	}
	for _, ext := range extensions {
		k.names[ext] = kernelParser(name, ext)
		k.parsers[ext], _ = parse.ByName(k.names[ext])
	}
	k.index()
	return k
}

// builtinSchema returns the kernel's schema for the items of a kind.
func builtinSchema(kind string) fields.Schema {
	switch kind {
	case directiveKind:
		return fields.Directive()
	case toolKind:
		return fields.Tool()
	case knowledgeKind:
		return fields.Knowledge()
	}
	return nil
}

// standardWeights are the weights of a kind without search fields.
func standardWeights() []Weight {
	return []Weight{{"title", 3}, {"name", 3}, {"description", 2}, {"category", 1.5}, {"content", 1}}
}

// index collects the fields that the kind mentions.
func (k *Kind) index() {
	k.known = map[string]bool{"author": true, "docstring": true, "name": true}
	for _, w := range k.Weights {
		k.known[w.Field] = true
	}
	for _, name := range k.schema.Names() {
		k.known[name] = true
	}
	if k.Name == toolKind {
		for _, name := range toolFields {
			k.known[name] = true
		}
	}
}

// extension returns the extension of a path in the form of Kind.Extensions.
func extension(p string) string { return strings.ToLower(path.Ext(p)) }

// Style returns the form of signature lines in a file: the kernel's for its extension, else the extractor's, with the
// kind's rule for lines of the first format. It is sign.NoStyle for a file that can't have any.
func (k *Kind) Style(p string) sign.Style {
	style := sign.StyleOf(p)
	if style == sign.NoStyle {
		style = k.styles[extension(p)]
	}
	switch {
	case style == sign.NoStyle:
	case k.Name == directiveKind:
		style |= sign.V1Directive
	case k.Name == knowledgeKind:
		style |= sign.V1Knowledge
	case k.Name == toolKind:
		style |= sign.V1Tool
	}
	return style
}

// RefOf returns the ref of a path in a space, such as "tools/rye/bash/bash.py". It fails for an asset and for a file
// of another kind. If the path isn't a valid id, the error wraps the reason.
func (k *Kind) RefOf(p string) (Ref, error) {
	bad := func(reason string, err error) (Ref, error) {
		return Ref{}, fault.New(fault.Validation, "path %s %s", fields.Quote(p), reason).On("reason",
			"validation-failed").From(err)
	}
	rest, ok := strings.CutPrefix(p, k.Dir+"/")
	ext := path.Ext(rest)
	switch {
	case !ok:
		return bad("is not in "+k.Dir+"/", nil)
	case IsAsset(rest):
		return bad(`is an asset's: a segment begins with "_" or "."`, nil)
	case !slices.Contains(k.Extensions, strings.ToLower(ext)):
		return bad(fmt.Sprintf("is an asset's: no %s has the extension %s", k.Name, fields.Quote(ext)), nil)
	}
	id := rest[:len(rest)-len(ext)]
	if err := portable.CheckID(id); err != nil {
		return bad("has an invalid item name: "+err.Error(), err)
	}
	return Ref{k.Name, id}, nil
}

// parse parses a file with the parser of its extension.
func (k *Kind) parse(p string, file []byte) *parse.Doc {
	parser, ok := k.parsers[extension(p)]
	if !ok {
		return &parse.Doc{Fields: &value.Value{Kind: value.Map}, Problems: []*value.Problem{
			{Message: fmt.Sprintf("no %s has the extension %s", k.Name, fields.Quote(path.Ext(p)))}}}
	}
	return parser.Parse(file)
}
