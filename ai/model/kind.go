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

// A Kind says where the items of a kind are, how their files are read, and what they must say. It is one of the
// built-in ones or read from an extractor; either way it is never changed, and safe for use by many goroutines.
type Kind struct {
	Name, Dir  string   // "tool", "tools"
	Extensions []string // in the order tried
	Weights    []Weight // of the fields that are searched
	Builtin    bool     // not from an extractor: callers warn
	From       string   // the id of the extractor

	parsers map[string]parse.Parser
	names   map[string]string // which parser an extension has, for the marker
	styles  map[string]sign.Style
	rules   []rule
	schema  fields.Schema
	known   map[string]bool // the fields of schema, rules and weights: those a file of Python may have under __name__
}

// A Weight says how much it counts that a word stands in a field.
type Weight struct {
	Field string
	Value float64
}

// Kinds that the kernel knows by name. All others are added by extractors.
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

// The parsers that package parse has, by name.
const (
	xmlParser     = "markdown_xml"
	matterParser  = "markdown_frontmatter"
	pythonParser  = "python_ast"
	yamlParser    = "yaml"
	commentParser = "comment_header"
	patternParser = "pattern"
)

// kernelParser returns the parser that files of an extension have in a kind whatever an extractor says; "" if that
// is for the extractor to say.
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

// Builtin returns the kinds as they are where no extractor counts: directive, tool, knowledge, config. Each call
// returns the same ones.
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

// builtinSchema returns what the kernel asks of the items of a kind.
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

// standardWeights are those of a kind that says nothing about search.
func standardWeights() []Weight {
	return []Weight{{"title", 3}, {"name", 3}, {"description", 2}, {"category", 1.5}, {"content", 1}}
}

// index notes which fields the kind speaks of.
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

// extension returns the extension of a path as kinds have it.
func extension(p string) string { return strings.ToLower(path.Ext(p)) }

// Style returns how signature lines stand in a file: the kernel's way for its extension, else the extractor's,
// together with the rule of the kind for lines of the first format. It is sign.NoStyle for a file that can't carry
// any.
func (k *Kind) Style(p string) sign.Style {
	s := sign.StyleOf(p)
	if s == sign.NoStyle {
		s = k.styles[extension(p)]
	}
	switch {
	case s == sign.NoStyle:
	case k.Name == directiveKind:
		s |= sign.V1Directive
	case k.Name == knowledgeKind:
		s |= sign.V1Knowledge
	case k.Name == toolKind:
		s |= sign.V1Tool
	}
	return s
}

// RefOf returns which item of the kind a path in a space is, as in "tools/rye/bash/bash.py". It fails if the file is
// an asset or belongs to another kind, or if its path is no id, which the error then unwraps to.
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

// parse reads a file by the parser of its extension.
func (k *Kind) parse(p string, file []byte) *parse.Doc {
	parser, ok := k.parsers[extension(p)]
	if !ok {
		return &parse.Doc{Fields: &value.Value{Kind: value.Map}, Problems: []*value.Problem{
			{Message: fmt.Sprintf("no %s has the extension %s", k.Name, fields.Quote(path.Ext(p)))}}}
	}
	return parser.Parse(file)
}
