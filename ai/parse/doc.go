// Package parse parses item files. Each parser turns a format into one form: fields under the file's own names,
// prose, and problems, each with its place. Callers interpret the fields.
//
// A parser never fails: it returns the readable parts and the problems. Places count from 1, columns in characters;
// a byte order mark has no column. In malformed YAML only the line is known: the column is 0, and the parser reads
// the text before that line, or before the last fields before it.
//
// # How a call goes through here
//
// ByName or Pattern returns a Parser. Parse makes a file with newFile, which checks the size, UTF-8 and line ends.
// The parser's function (readDirective, readKnowledge, readYAML, readHeader, readPython or pattern.read) finds the
// metadata. xmlReader or yamlReader turns it into values with places, and the report collects problems for the Doc.
//
// # All formats
//
// Files are UTF-8 of at most 8 MiB (MaxFile) without NUL; a byte order mark may come first. CR LF and CR end lines
// like LF, and values have LF. Signature lines are comments. Metadata in YAML or XML has at most 1 MiB, 100 levels
// and 100,000 elements. At most 100 problems of a file are reported.
//
// # markdown_xml
//
// A directive. The first line ```xml begins the metadata, the next line ``` ends it, and the rest is the prompt, the
// Body. A fence of four or more backticks hides its content. A file that begins with <directive, after space,
// comments and an XML declaration, is metadata and prompt in one: Body is everything from there on.
//
//	```xml
//	<directive name="scrape" version="1.0.0">
//	  <metadata>
//	    <description>Scrape a page</description>
//	    <category>web</category>                             any other element here is a text field as well
//	    <model tier="fast"/>
//	    <limits max_turns="8"><tokens>5000</tokens></limits> attributes and elements, with numbers as numbers
//	    <permissions>                                        <permissions>*</permissions> is rye.*
//	      <execute><tool>rye/web/*</tool></execute>          rye.execute.tool.rye/web/*
//	      <search>*</search>                                 rye.search.*
//	    </permissions>
//	    <tools><tool>rye/web/fetch</tool></tools>            here or below <directive>
//	    <hooks>
//	      <hook event="error"><action>retry</action><params><delay>5</delay></params></hook>
//	    </hooks>
//	  </metadata>
//	  <inputs><input name="url" type="string" required="true">Where</input></inputs>
//	  <outputs><output name="text" type="string">What</output></outputs>
//	</directive>
//	```
//	Fetch {input:url}, then …
//
// Fields: name, version, description, model, limits (objects), permissions, tools (arrays of texts), hooks, inputs,
// outputs (arrays of objects), every other element of metadata, actions (the elements search, sign, load and execute
// outside metadata, with primary, their attributes and params), templates, and content, the text of the XML. In a
// hook an element with attributes or elements is an object, with its text under content; the elements in params and
// inputs may have their key in the attribute name. The content of <template>, <example> and <raw> is any text up to
// the first end tag; the field templates has it under __opaque_TAG_N__.
//
// The XML is XML 1.0 with the five entities of XML and without a document type. After malformed XML the reader
// continues at the next tag. Elements without a meaning are warnings. Duplicates, limits or permissions outside
// metadata, and text between the elements of a permission or in tools are problems.
//
// # markdown_frontmatter
//
// Knowledge. Fields are the YAML between a first line --- and the next one, or else of the first fence ```yaml, found
// as above; below <!-- comments --> in both cases. Body is the rest. A file without both that is one YAML mapping,
// beginning with a lower-case key, has only fields; any other file is Body without fields.
//
// # yaml
//
// One document, a mapping of fields. Keys are texts as they are written, each once. Anchors, aliases, tags, merge
// keys, infinities and NaN are refused. Unquoted integers may be in any base (0x1F, 0o17, 0b11, 1_000); unquoted
// dates and yes, no, on, off, y, n are texts, the latter with a warning because for other readers they are truth
// values; 017, octal here and for some readers, and the text 12:30, 750 for some readers, are warnings too. A comment
// <!-- … --> may be in the first lines.
//
// # comment_header
//
// Any language: YAML in the first comment, between two lines ---, even below other comments.
//
//	#!/usr/bin/env bash         // ---                  /* ---               /**                <!-- ---
//	# ---                       // version: 1.0.0       version: 1.0.0        * ---             version: 1.0.0
//	# version: 1.0.0            // ---                  --- */                * version: 1.0.0  --- -->
//	# ---                                                                     * ---
//	                            -- --- in the same way                        */
//
// A file without such a header has no fields.
//
// # python_ast
//
// The literals that a Python file assigns to module names (package python), and __docstring__.
//
// # Patterns
//
// An extractor may describe a format by patterns instead: see Pattern.
package parse

import (
	"slices"

	"github.com/rye-build/rye/ai/value"
)

// MaxFile is the size of the largest file that Parse reads. A larger one is one problem.
const MaxFile = 8 << 20

// A Doc is the parsed content of a file.
type Doc struct {
	// a Map of fields under the file's own names, such as "version", "__version__", "CONFIG_SCHEMA"
	Fields   *value.Value
	Body     string           // prose: the prompt of a directive, the text of knowledge; "" without prose
	BodyAt   value.Pos        // of its first character
	Problems []*value.Problem // sorted by place; Fields has the readable fields nevertheless
}

// A Parser reads one format. Parsers are comparable values and safe for concurrent use; the zero one reads nothing.
type Parser struct {
	name    string
	pattern *pattern // instead of a name
}

// Names returns the names of the builtin parsers.
func Names() []string {
	return []string{"comment_header", "markdown_frontmatter", "markdown_xml", "python_ast", "yaml"}
}

// ByName returns a builtin parser.
func ByName(name string) (Parser, bool) {
	if !slices.Contains(Names(), name) {
		return Parser{}, false
	}
	return Parser{name: name}, true
}

// Parse reads a file.
func (p Parser) Parse(content []byte) *Doc {
	file := newFile(content, p.name != "python_ast")
	if !file.ok {
		return file.doc()
	}
	switch p.name {
	case "comment_header":
		readHeader(file)
	case "markdown_frontmatter":
		readKnowledge(file)
	case "markdown_xml":
		readDirective(file)
	case "python_ast":
		readPython(file)
	case "yaml":
		readYAML(file)
	}
	if p.pattern != nil {
		p.pattern.read(file)
	}
	return file.doc()
}
