package parse

import (
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/rye-build/rye/ai/value"
	"github.com/rye-build/rye/cas/fault"
)

const (
	defaultLines = 40
	maxLines     = 400
	maxLine      = 2000 // bytes of a line that can match
	maxFields    = 50
	maxPattern   = 1000 // bytes
)

// A pattern is a Parser that an extractor describes.
type pattern struct {
	fields []patternField
	lines  int
	body   bool
}

type patternField struct {
	name string
	re   *regexp.Regexp
}

// Pattern makes a parser of a description:
//
//	fields:                            # at most 50
//	  version: '^-- version: (.*)$'    # RE2, at most 1,000 bytes, with exactly one group: the field's text
//	  title: '^-- title: (.*)$'
//	lines: 40                          # how many lines to search: at most 400, 40 by default
//	body: rest                         # Body is the text after the last matched line; without it, no Body
//
// Each field comes from the first matching line, without the space around it. Lines of more than 2,000 bytes and
// signature lines match nothing. A description with problems still makes a parser of its valid parts.
func Pattern(spec *value.Value) (Parser, []*value.Problem) {
	var report report
	pattern := &pattern{lines: defaultLines}
	if spec == nil || spec.Kind != value.Map {
		at := value.Pos{}
		if spec != nil {
			at = spec.At
		}
		report.problem(at, "", "expected a pattern, as in {fields: {version: '^# version: (.*)$'}}")
		return Parser{pattern: pattern}, report.problems
	}
	for _, entry := range spec.Map {
		switch entry.Key {
		case "fields":
			pattern.readFields(&report, entry.Value)
		case "lines":
			n, ok := entry.Value.Int()
			if !ok || n < 1 || n > maxLines {
				report.problem(entry.Value.At, "lines", "expected a number of lines from 1 to %d", maxLines)
				continue
			}
			pattern.lines = int(n)
		case "body":
			pattern.body = entry.Value.String() == "rest"
			if !pattern.body && entry.Value.String() != "none" {
				report.problem(entry.Value.At, "body", "expected rest or none")
			}
		default:
			report.problem(entry.At, clip(entry.Key), "%q is unknown in a pattern, which has fields, lines and body",
				fault.Clip(entry.Key, 60))
		}
	}
	if spec.Get("fields") == nil {
		report.problem(spec.At, "fields", "a pattern has no fields")
	}
	return Parser{pattern: pattern}, report.sorted()
}

func (p *pattern) readFields(report *report, v *value.Value) {
	if v.Kind != value.Map || len(v.Map) == 0 {
		report.problem(v.At, "fields", "expected fields, as in {version: '^# version: (.*)$'}")
		return
	}
	if len(v.Map) > maxFields {
		report.problem(v.At, "fields", "a pattern has %d fields, more than %d", len(v.Map), maxFields)
		return
	}
	for _, entry := range v.Map {
		path, at := join("fields", entry.Key), entry.Value.At
		if entry.Value.Kind != value.Text {
			report.problem(at, path, "expected a regular expression, not %s", named(entry.Value))
			continue
		}
		if len(entry.Value.Text) > maxPattern {
			report.problem(at, path, "the regular expression has %d bytes, more than %d", len(entry.Value.Text),
				maxPattern)
			continue
		}
		re, err := regexp.Compile(entry.Value.Text)
		if err != nil {
			report.problem(at, path, "%s", printed(strings.TrimPrefix(err.Error(), "error parsing regexp: ")))
			continue
		}
		if n := re.NumSubexp(); n != 1 {
			report.problem(at, path, "expected one group in parentheses, not %d; (?:…) makes none", n)
			continue
		}
		p.fields = append(p.fields, patternField{entry.Key, re})
	}
}

// read looks for the fields in the first lines.
func (p *pattern) read(file *file) {
	object := newObject(file.fields.At)
	found := make([]*value.Entry, len(p.fields))
	rest, left := 0, len(p.fields)
	for off, line := 0, 1; off < len(file.text) && line <= p.lines && left > 0; line++ {
		text, next := lineAt(file.text, off)
		off = next
		if len(text) > maxLine {
			continue
		}
		if strings.Contains(text, "rye:signed:") {
			if rest == 0 {
				rest = next
			}
			continue
		}
		for i, field := range p.fields {
			if found[i] != nil {
				continue
			}
			if e := field.match(text, line); e != nil {
				found[i] = e
				rest = next
				left--
			}
		}
	}
	for _, e := range found {
		if e != nil {
			object.put(&file.report, "", e.Key, e.At, e.Value)
		}
	}
	file.fields = object.v
	if p.body {
		file.setBody(rest)
	}
}

// match returns the field in a line.
func (p patternField) match(s string, line int) *value.Entry {
	m := p.re.FindStringSubmatchIndex(s)
	if m == nil || m[2] < 0 {
		return nil
	}
	group := s[m[2]:m[3]]
	words := strings.TrimSpace(group)
	column := func(off int) int { return utf8.RuneCountInString(s[:off]) + 1 }
	v := text(value.Pos{Line: line, Column: column(m[2] + leadingSpace(group)*min(len(words), 1))}, words)
	return &value.Entry{Key: p.name, At: value.Pos{Line: line, Column: column(m[0])}, Value: v}
}
