// Package parse reads what the file of an item says, whatever the file's shape, into one form: fields by the names
// that the file gives them, prose, and what is malformed, each with its place. What the fields mean is decided by
// who asks.
//
// A parser never fails and never stops others: it returns what could be read and the problems. Places count from 1,
// columns in characters; a byte order mark has no column. Of YAML that is malformed only the line is known: the
// column is 0, and what stands before that line, or before the last fields before it, is read.
//
// # Every shape
//
// Files are UTF-8 of at most 8 MiB (MaxFile) without NUL; a byte order mark may stand first. CR LF and CR end lines
// as LF does, and values have LF. Signature lines are comments and nothing else. Metadata in YAML or XML has at most
// 1 MiB, 100 levels and 100,000 elements. At most 100 problems of a file are told.
//
// # markdown_xml
//
// A directive. The first line that is ```xml begins the metadata, the next line that is ``` ends it, and what
// follows is the prompt, the Body. A fence of four or more backticks hides what is in it. A file that begins with
// <directive, but for space, comments and an XML declaration, is metadata and prompt in one: Body is everything from
// there on.
//
//	```xml
//	<directive name="scrape" version="1.0.0">
//	  <metadata>
//	    <description>Scrape a page</description>
//	    <category>web</category>                             any other element here is a text field as well
//	    <model tier="fast"/>
//	    <limits max_turns="8"><tokens>5000</tokens></limits> attributes and elements, numbers where they are numbers
//	    <permissions>                                        <permissions>*</permissions> is rye.*
//	      <execute><tool>rye/web/*</tool></execute>          rye.execute.tool.rye/web/*
//	      <search>*</search>                                 rye.search.*
//	    </permissions>
//	    <tools><tool>rye/web/fetch</tool></tools>            stands here or below <directive>
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
// outside metadata, with primary, their attributes and params), templates, and content, the text of the XML. In a hook
// an element with attributes or elements is an object, with its text under content; the elements in params and inputs
// may have their key in the attribute name. What stands in <template>, <example> and <raw> is no XML but any text, to
// the first end tag; it is in templates, under __opaque_TAG_N__.
//
// The XML is XML 1.0 with the five entities of XML and without a document type. After something malformed the reader
// goes on at the next tag. What has no meaning is warned about; what stands twice, limits or permissions outside
// metadata, and text beside the elements of a permission or in tools are problems.
//
// # markdown_frontmatter
//
// Knowledge. Fields are the YAML between a first line --- and the next one, or else of the first fence ```yaml,
// found as above; below <!-- comments --> in both cases. Body is what follows. A file with neither that is one
// YAML mapping altogether, beginning with a lower-case key, is its fields; any other is Body without fields.
//
// # yaml
//
// One document, a mapping of fields. Keys are texts as they are written, each once. Anchors, aliases, tags, merge
// keys, infinities and NaN are refused. Unquoted integers may be in any base (0x1F, 0o17, 0b11, 1_000); unquoted dates
// and yes, no, on, off, y, n are texts, the latter with a warning because for other readers they are truth values;
// 017, octal here and to some, and the text 12:30, 750 to some, are warned about too. A comment <!-- … --> may stand
// in the first lines.
//
// # comment_header
//
// Any language: YAML in the first comment, between two lines that are ---, perhaps below other comments.
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
// The literals that a Python file assigns to names of its module, see package python, and __docstring__.
//
// # Patterns
//
// An extractor may describe a shape by patterns instead, see Pattern.
package parse

import (
	"slices"

	"github.com/rye-build/rye/ai/value"
)

// MaxFile is the size of the largest file that is read. A larger one is one problem.
const MaxFile = 8 << 20

// A Doc is what a file says.
type Doc struct {
	// a Map, of the names that the file has, such as "version", "__version__", "CONFIG_SCHEMA"
	Fields   *value.Value
	Body     string           // prose: the prompt of a directive, the text of knowledge; "" where there is none
	BodyAt   value.Pos        // of its first character
	Problems []*value.Problem // by their places; Fields has what could be read all the same
}

// A Parser reads one shape of file. Parsers are comparable values, safe for many goroutines; the zero one reads
// nothing.
type Parser struct {
	name    string
	pattern *pattern // instead of a name
}

// Names returns the names of the parsers that are built in.
func Names() []string {
	return []string{"comment_header", "markdown_frontmatter", "markdown_xml", "python_ast", "yaml"}
}

// ByName returns a parser that is built in.
func ByName(name string) (Parser, bool) {
	if !slices.Contains(Names(), name) {
		return Parser{}, false
	}
	return Parser{name: name}, true
}

// Parse reads a file.
func (p Parser) Parse(content []byte) *Doc {
	f := newFile(content, p.name != "python_ast")
	if !f.ok {
		return f.doc()
	}
	switch p.name {
	case "comment_header":
		readHeader(f)
	case "markdown_frontmatter":
		readKnowledge(f)
	case "markdown_xml":
		readDirective(f)
	case "python_ast":
		readPython(f)
	case "yaml":
		readYAML(f)
	}
	if p.pattern != nil {
		p.pattern.read(f)
	}
	return f.doc()
}
