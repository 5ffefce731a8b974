package parse

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/rye-build/rye/ai/value"
	"github.com/rye-build/rye/cas/fault"
)

const (
	maxMeta     = 1 << 20 // bytes of YAML or XML, whose trees take a hundred times as much memory
	maxDepth    = 100
	maxElements = 100_000
	maxProblems = 100
)

// A file is the file under reading and the results so far.
type file struct {
	report
	places
	content []byte // without byte order mark, lines ending in LF
	ok      bool   // content is text
	fields  *value.Value
	body    string
	bodyAt  value.Pos
}

// newFile prepares a file. The text stays empty unless text is true or the content is invalid.
func newFile(content []byte, text bool) *file {
	file := &file{fields: &value.Value{Kind: value.Map, At: value.Pos{Line: 1, Column: 1}}}
	if len(content) > MaxFile {
		file.problem(value.Pos{}, "", "the file has %d bytes, more than the %d that are read", len(content), MaxFile)
		return file
	}
	content = bytes.TrimPrefix(content, []byte("\ufeff"))
	if bytes.IndexByte(content, '\r') >= 0 {
		content = bytes.ReplaceAll(content, []byte("\r\n"), []byte("\n"))
		content = bytes.ReplaceAll(content, []byte("\r"), []byte("\n"))
	}
	file.content = content
	nul, valid := bytes.IndexByte(content, 0), utf8.Valid(content)
	if text || !valid || nul >= 0 {
		file.places = newPlaces(string(content))
	}
	if !valid {
		i := 0
		for {
			r, n := utf8.DecodeRune(content[i:])
			if r == utf8.RuneError && n == 1 {
				break
			}
			i += n
		}
		file.problem(file.at(i), "", "the byte 0x%02x is not UTF-8", content[i])
		return file
	}
	if nul >= 0 {
		file.problem(file.at(nul), "", "a NUL byte stands in the text")
		return file
	}
	file.ok = true
	return file
}

func (f *file) doc() *Doc {
	return &Doc{Fields: f.fields, Body: f.body, BodyAt: f.bodyAt, Problems: f.sorted()}
}

// setBody makes the text from an offset the body, without the space around it.
func (f *file) setBody(from int) {
	rest := f.text[from:]
	f.body = strings.TrimSpace(rest)
	if f.body != "" {
		f.bodyAt = f.at(from + leadingSpace(rest))
	}
}

func leadingSpace(s string) int { return len(s) - len(strings.TrimLeftFunc(s, unicode.IsSpace)) }

// places finds the line and column of offsets in a text. Offsets in rising order cost one pass in total.
type places struct {
	text string
	off  int
	pos  value.Pos
}

func newPlaces(text string) places { return places{text: text, pos: value.Pos{Line: 1, Column: 1}} }

func (p *places) at(off int) value.Pos {
	if off < p.off {
		p.pos.Line -= strings.Count(p.text[off:p.off], "\n")
		p.off = strings.LastIndexByte(p.text[:off], '\n') + 1
		p.pos.Column = 1
	}
	between := p.text[p.off:off]
	if i := strings.LastIndexByte(between, '\n'); i >= 0 {
		p.pos.Line += strings.Count(between, "\n")
		p.pos.Column = 1
		between = between[i+1:]
	}
	p.pos.Column += utf8.RuneCountInString(between)
	p.off = off
	return p.pos
}

// A report collects problems.
type report struct{ problems []*value.Problem }

func (r *report) problem(at value.Pos, field, format string, args ...any) {
	r.add(&value.Problem{At: at, Field: field, Message: fmt.Sprintf(format, args...)})
}

func (r *report) warn(at value.Pos, field, format string, args ...any) {
	r.add(&value.Problem{At: at, Field: field, Message: fmt.Sprintf(format, args...), Warning: true})
}

func (r *report) add(p *value.Problem) {
	switch n := len(r.problems); {
	case n < maxProblems-1:
		r.problems = append(r.problems, p)
	case n < maxProblems:
		// This isn't a warning, because the omitted problems may be errors.
		r.problems = append(r.problems, &value.Problem{At: p.At, Message: "there are more problems than can be told"})
	}
}

func (r *report) sorted() []*value.Problem {
	slices.SortStableFunc(r.problems, func(a, b *value.Problem) int { return a.At.Compare(b.At) })
	return r.problems
}

// An object is a Map under construction.
type object struct {
	v     *value.Value
	index map[string]int // made once keys are many
}

func newObject(at value.Pos) *object { return &object{v: &value.Value{Kind: value.Map, At: at}} }

const fewKeys = 16

// find returns the place of a key.
func (o *object) find(key string) (value.Pos, bool) {
	if o.index != nil {
		i, ok := o.index[key]
		if !ok {
			return value.Pos{}, false
		}
		return o.v.Map[i].At, true
	}
	for i := range o.v.Map {
		if o.v.Map[i].Key == key {
			return o.v.Map[i].At, true
		}
	}
	return value.Pos{}, false
}

// put adds an entry, or reports a duplicate key.
func (o *object) put(r *report, path string, key string, at value.Pos, v *value.Value) {
	if first, ok := o.find(key); ok {
		r.problem(at, join(path, key), "%q stands here a second time, after line %d", fault.Clip(key, 60), first.Line)
		return
	}
	o.v.Map = append(o.v.Map, value.Entry{Key: key, At: at, Value: v})
	switch n := len(o.v.Map); {
	case o.index != nil:
		o.index[key] = n - 1
	case n > fewKeys:
		o.index = make(map[string]int, 2*n)
		for i := range o.v.Map {
			o.index[o.v.Map[i].Key] = i
		}
	}
}

// join returns the path of a nested field.
func join(path, key string) string {
	if path == "" {
		return clip(key)
	}
	return path + "." + clip(key)
}

// clip shortens a text for messages, and escapes unprintable characters: a file must not control the reader's
// terminal or the direction of its text.
func clip(s string) string { return printed(fault.Clip(s, 60)) }

func printed(s string) string {
	if strings.IndexFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) < 0 {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if unicode.IsPrint(r) {
			b.WriteRune(r)
		} else {
			q := strconv.QuoteRuneToASCII(r)
			b.WriteString(q[1 : len(q)-1])
		}
	}
	return b.String()
}

func text(at value.Pos, s string) *value.Value {
	return &value.Value{Kind: value.Text, At: at, Text: s}
}

// named describes a value for messages.
func named(v *value.Value) string {
	switch v.Kind {
	case value.Null:
		return "null"
	case value.Bool:
		return "a truth value"
	case value.Int, value.Float:
		return "a number"
	case value.Text:
		return "a text"
	case value.List:
		return "a list"
	}
	return "a mapping"
}
