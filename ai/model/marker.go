package model

import (
	"bytes"
	"path"
	"strings"
	"unicode/utf8"

	"github.com/rye-build/rye/ai/parse"
)

// Marked reports whether a file may have the marker of the kind, without parsing it. A file without it is no item;
// for the others, Model.Marked is the answer.
func (k *Kind) Marked(path string, file []byte) bool {
	name := k.names[extension(path)]
	switch {
	case name == "":
		return false
	case k.Name == configKind:
		return true
	case k.Name == directiveKind:
		return hasElement(file)
	case k.Name == toolKind:
		return hasName(file, name, "executor_id")
	case k.Name == knowledgeKind && name != patternParser:
		return hasName(file, name, "id") || hasName(file, name, "title") || hasName(file, name, "entry_type")
	}
	return len(k.parse(path, file).Fields.Map) > 0
}

// carries reports whether a file that may have the marker has it, judged by the parsed file. A malformed file counts
// as an item, so that the author of half a tool gets its problems.
func (k *Kind) carries(parser string, doc *parse.Doc) bool {
	if k.Name == configKind || k.Name == directiveKind {
		return true
	}
	for i := range doc.Fields.Map {
		name := k.standard(parser, doc.Fields.Map[i].Key)
		switch k.Name {
		case toolKind:
			if name == "executor_id" {
				return true
			}
		case knowledgeKind:
			if name == "id" || name == "title" || name == "entry_type" {
				return true
			}
		default:
			return true
		}
	}
	return len(doc.Problems) > 0 && builtinDir(k.Name) != ""
}

// hasElement reports whether a line of a file begins with the start of an element "directive".
func hasElement(file []byte) bool {
	for rest := file; ; {
		i := bytes.Index(rest, []byte("<directive"))
		if i < 0 {
			return false
		}
		before := bytes.TrimRight(file[:len(file)-len(rest)+i], " \t\ufeff")
		rest = rest[i+len("<directive"):]
		// A comment may end on the element's line, if the file is only the element.
		begins := len(before) == 0 || before[len(before)-1] == '\n' || before[len(before)-1] == '\r' ||
			before[len(before)-1] == '>'
		if begins && (len(rest) == 0 || bytes.IndexByte([]byte(" \t\r\n>/"), rest[0]) >= 0) {
			return true
		}
	}
}

// hasName reports whether a line of a file seems to set a field of the file.
func hasName(file []byte, parser, name string) bool {
	return hasWord(file, []byte(name), parser)
}

// hasWord looks for a line that begins with a word, after permitted characters, and has a colon or an equals sign
// after it. It takes one pass, because the characters skipped before a word are never part of another word.
func hasWord(file, word []byte, parser string) bool {
	lead, before, tail, sign := " \t\"'", "\n\r{,?\ufeff", " \t\"'", ":"
	switch parser {
	case commentParser:
		lead = " \t\"'#/*-<!;"
	case pythonParser:
		lead, before, tail, sign = "_ \t\f(", "\n\r;\ufeff", "_ \t)", "=:"
	}
	for at := 0; ; {
		i := bytes.Index(file[at:], word)
		if i < 0 {
			return false
		}
		i += at
		at = i + len(word)
		after := bytes.TrimLeft(file[at:], tail)
		if len(after) == 0 || bytes.IndexByte([]byte(sign), after[0]) < 0 {
			continue
		}
		start := bytes.TrimRight(file[:i], lead)
		if r, _ := utf8.DecodeLastRune(start); len(start) == 0 || strings.ContainsRune(before, r) {
			return true
		}
	}
}

// MissingMarker describes the marker that a file lacks to be an item of a kind.
func MissingMarker(kind, p string) string {
	switch ext := path.Ext(p); {
	case kind == directiveKind:
		return "no element <directive"
	case kind == knowledgeKind:
		return "no metadata: id, title or entry_type"
	case kind != toolKind:
		return "no metadata"
	case ext == ".py":
		return "no __executor_id__ at the top level"
	case ext == ".yaml" || ext == ".yml":
		return "no executor_id"
	}
	return "no executor_id in a header between --- lines"
}

// FormatTopic returns the documentation page about the format of a kind's items.
func FormatTopic(kind string) string {
	if builtinDir(kind) == "" || kind == configKind {
		return "extractors"
	}
	return kind + "-format"
}
