package graph

import (
	"fmt"
	"strings"

	"github.com/rye-build/rye/ai/value"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/manifest/condition"
	"github.com/rye-build/rye/manifest/jcs"
)

// A Template is a JSON value with paths in its texts.
type Template struct {
	at     value.Pos
	plain  any                  // a value without paths
	path   string               // for a text that is one path
	pieces []piece              // for any other text
	items  []*Template          // for a list
	fields map[string]*Template // for an object
	kind   byte
}

// The kinds of templates.
const (
	isPlain byte = iota
	isPath
	isText
	isList
	isObject
)

// A piece is either literal text or a path.
type piece struct{ text, path string }

// tooMuch returns the error for a template whose result is too large.
func tooMuch() error { return fault.New(fault.Resource, "a template gives more than 1 MiB") }

// Fill returns the template's value for a document. The value shares parts with the document: don't change it.
func (t *Template) Fill(doc map[string]any) (any, error) {
	left := MaxFilled
	return t.fill(doc, &left)
}

// Text returns the template's value as text for people: a text as it is, null as nothing, anything else as JSON.
func (t *Template) Text(doc map[string]any) (string, error) {
	left := MaxFilled
	v, err := t.fill(doc, &left)
	if err != nil {
		return "", err
	}
	return asText(v, &left)
}

func (t *Template) fill(doc map[string]any, left *int) (any, error) {
	switch t.kind {
	case isPath:
		v := condition.At(doc, t.path)
		return v, take(left, v)
	case isText:
		var out strings.Builder
		for _, p := range t.pieces {
			text := p.text
			if p.path != "" {
				var err error
				if text, err = asText(condition.At(doc, p.path), left); err != nil {
					return nil, err
				}
			}
			if *left -= len(text); *left < 0 {
				return nil, tooMuch()
			}
			out.WriteString(text)
		}
		return out.String(), nil
	case isList:
		list := make([]any, len(t.items))
		for i, item := range t.items {
			var err error
			if list[i], err = item.fill(doc, left); err != nil {
				return nil, err
			}
		}
		return list, nil
	case isObject:
		object := make(map[string]any, len(t.fields))
		for name, field := range t.fields {
			v, err := field.fill(doc, left)
			if err != nil {
				return nil, err
			}
			object[name] = v
		}
		return object, nil
	}
	return t.plain, take(left, t.plain)
}

// take subtracts about the size of a value as JSON from left.
func take(left *int, v any) error {
	switch val := v.(type) {
	case string:
		*left -= len(val)
	case []any:
		for i := range val {
			if err := take(left, val[i]); err != nil {
				return err
			}
		}
	case map[string]any:
		for name := range val {
			*left -= len(name)
			if err := take(left, val[name]); err != nil {
				return err
			}
		}
	}
	if *left -= 2; *left < 0 {
		return tooMuch()
	}
	return nil
}

// asText returns a value as part of a longer text: a text as it is, null as nothing, anything else as JSON.
func asText(val any, left *int) (string, error) {
	switch v := val.(type) {
	case nil:
		return "", nil
	case string:
		return v, nil
	}
	room := *left // the caller counts the text itself
	if err := take(&room, val); err != nil {
		return "", err
	}
	b, err := jcs.Append(nil, val)
	return string(b), err
}

// template parses a template. known returns the reason why a path is invalid, or "".
func template(val *value.Value, known func(path string) string,
	bad func(at value.Pos, format string, args ...any)) *Template {
	parsed := &Template{}
	if val == nil {
		return parsed
	}
	parsed.at = val.At
	switch val.Kind {
	case value.Text:
		parsed.text(val.Text, func(path string) {
			if wrong := known(path); wrong != "" {
				bad(val.At, "${%s}: %s", clip(path), wrong)
			}
		}, func(wrong string) { bad(val.At, "%s", wrong) })
	case value.List:
		parsed.kind = isList
		for _, item := range val.Items {
			parsed.items = append(parsed.items, template(item, known, bad))
		}
	case value.Map:
		parsed.kind, parsed.fields = isObject, map[string]*Template{}
		for _, e := range val.Map {
			parsed.fields[e.Key] = template(e.Value, known, bad)
		}
	default:
		plain, err := val.JSON()
		if err != nil {
			bad(val.At, "%v", err)
		}
		parsed.plain = plain
	}
	return parsed
}

// text parses a text with paths.
func (t *Template) text(s string, path func(string), wrong func(string)) {
	var pieces []piece
	literal := ""
	for rest := s; ; {
		at := strings.Index(rest, "${")
		if at < 0 {
			literal += rest
			break
		}
		if at > 0 && rest[at-1] == '$' {
			literal, rest = literal+rest[:at-1]+"${", rest[at+2:]
			continue
		}
		name, after, ok := strings.Cut(rest[at+2:], "}")
		if !ok || !isPathText(name) {
			wrong(fmt.Sprintf("invalid path %q: expected ${NAME.NAME}, or $${ for ${ itself", clip(rest[at:])))
			return
		}
		path(name)
		if literal += rest[:at]; literal != "" {
			pieces = append(pieces, piece{text: literal})
		}
		pieces, literal, rest = append(pieces, piece{path: name}), "", after
	}
	switch {
	case len(pieces) == 0:
		t.plain = literal
	case len(pieces) == 1 && pieces[0].path != "" && literal == "":
		t.kind, t.path = isPath, pieces[0].path
	default:
		if literal != "" {
			pieces = append(pieces, piece{text: literal})
		}
		t.kind, t.pieces = isText, pieces
	}
}

// isPathText reports whether a text is names joined by dots.
func isPathText(s string) bool {
	for name := range strings.SplitSeq(s, ".") {
		if name == "" || strings.ContainsAny(name, " \t\r\n{}$\"'`()|") {
			return false
		}
	}
	return len(s) <= 1000
}

func clip(s string) string {
	if len(s) > 100 {
		return s[:100] + "…"
	}
	return s
}

// String returns the template as in the file, for people.
func (t *Template) String() string {
	switch t.kind {
	case isPath:
		return "${" + t.path + "}"
	case isText:
		var b strings.Builder
		for _, p := range t.pieces {
			if p.path != "" {
				b.WriteString("${" + p.path + "}")
			} else {
				b.WriteString(strings.ReplaceAll(p.text, "${", "$${"))
			}
		}
		return b.String()
	case isPlain:
		if s, ok := t.plain.(string); ok {
			return strings.ReplaceAll(s, "${", "$${")
		}
	}
	b, err := jcs.Append(nil, t.outline())
	if err != nil {
		return ""
	}
	return string(b)
}

// outline returns the template as a value, with its texts as in the file.
func (t *Template) outline() any {
	switch t.kind {
	case isList:
		list := make([]any, len(t.items))
		for i := range t.items {
			list[i] = t.items[i].outline()
		}
		return list
	case isObject:
		object := map[string]any{}
		for name := range t.fields {
			object[name] = t.fields[name].outline()
		}
		return object
	case isPlain:
		if _, ok := t.plain.(string); !ok {
			return t.plain
		}
	}
	return t.String()
}
