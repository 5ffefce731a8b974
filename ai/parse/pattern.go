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
	var r report
	p := &pattern{lines: defaultLines}
	if spec == nil || spec.Kind != value.Map {
		at := value.Pos{}
		if spec != nil {
			at = spec.At
		}
		r.problem(at, "", "expected a pattern, as in {fields: {version: '^# version: (.*)$'}}")
		return Parser{pattern: p}, r.problems
	}
	for _, e := range spec.Map {
		switch e.Key {
		case "fields":
			p.readFields(&r, e.Value)
		case "lines":
			n, ok := e.Value.Int()
			if !ok || n < 1 || n > maxLines {
				r.problem(e.Value.At, "lines", "expected a number of lines from 1 to %d", maxLines)
				continue
			}
			p.lines = int(n)
		case "body":
			p.body = e.Value.String() == "rest"
			if !p.body && e.Value.String() != "none" {
				r.problem(e.Value.At, "body", "expected rest or none")
			}
		default:
			r.problem(e.At, clip(e.Key), "%q is unknown in a pattern, which has fields, lines and body",
				fault.Clip(e.Key, 60))
		}
	}
	if spec.Get("fields") == nil {
		r.problem(spec.At, "fields", "a pattern has no fields")
	}
	return Parser{pattern: p}, r.sorted()
}

func (p *pattern) readFields(r *report, v *value.Value) {
	if v.Kind != value.Map || len(v.Map) == 0 {
		r.problem(v.At, "fields", "expected fields, as in {version: '^# version: (.*)$'}")
		return
	}
	if len(v.Map) > maxFields {
		r.problem(v.At, "fields", "a pattern has %d fields, more than %d", len(v.Map), maxFields)
		return
	}
	for _, e := range v.Map {
		path, at := join("fields", e.Key), e.Value.At
		if e.Value.Kind != value.Text {
			r.problem(at, path, "expected a regular expression, not %s", named(e.Value))
			continue
		}
		if len(e.Value.Text) > maxPattern {
			r.problem(at, path, "the regular expression has %d bytes, more than %d", len(e.Value.Text), maxPattern)
			continue
		}
		re, err := regexp.Compile(e.Value.Text)
		if err != nil {
			r.problem(at, path, "%s", printed(strings.TrimPrefix(err.Error(), "error parsing regexp: ")))
			continue
		}
		if n := re.NumSubexp(); n != 1 {
			r.problem(at, path, "expected one group in parentheses, not %d; (?:…) makes none", n)
			continue
		}
		p.fields = append(p.fields, patternField{e.Key, re})
	}
}

// read looks for the fields in the first lines.
func (p *pattern) read(f *file) {
	o := newObject(f.fields.At)
	found := make([]*value.Entry, len(p.fields))
	rest, left := 0, len(p.fields)
	for off, line := 0, 1; off < len(f.text) && line <= p.lines && left > 0; line++ {
		s, next := lineAt(f.text, off)
		off = next
		if len(s) > maxLine {
			continue
		}
		if strings.Contains(s, "rye:signed:") {
			if rest == 0 {
				rest = next
			}
			continue
		}
		for i, field := range p.fields {
			if found[i] != nil {
				continue
			}
			if e := field.match(s, line); e != nil {
				found[i] = e
				rest = next
				left--
			}
		}
	}
	for _, e := range found {
		if e != nil {
			o.put(&f.report, "", e.Key, e.At, e.Value)
		}
	}
	f.fields = o.v
	if p.body {
		f.setBody(rest)
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
