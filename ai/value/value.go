// Package value is what the readers of item files hand on: plain values, each with the place where it stands in
// its file, so that errors can say where.
//
// A value is null, a truth value, an integer, a float, a text, a list, or a map whose entries stand in the order of
// the file under different keys. Numbers are kept as text in the form of JSON (RFC 8259), of any size: a reader
// changes 0x10 and 1_000 into that form and never rounds.
//
// Lines and columns count from 1, columns in characters. The zero Pos means that the place isn't known.
package value

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/rye-build/rye/cas/fault"
)

// A Kind says what a value is.
type Kind uint8

// The kinds of values.
const (
	Null Kind = iota
	Bool
	Int
	Float
	Text
	List
	Map
)

var kindNames = [...]string{"null", "boolean", "integer", "number", "string", "array", "object"}

// String returns the kind as JSON Schema calls it.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// A Pos is a place in a file.
type Pos struct{ Line, Column int }

// Compare orders places as they follow each other; the unknown one is first.
func (p Pos) Compare(o Pos) int {
	return cmp.Or(cmp.Compare(p.Line, o.Line), cmp.Compare(p.Column, o.Column))
}

// A Value is one value of a file. Values are not changed after they were read, and may be shared.
type Value struct {
	Kind  Kind
	At    Pos
	Text  string // of Text; of Bool "true" or "false"; of Int and Float the number as JSON writes it
	Items []*Value
	Map   []Entry
}

// An Entry is one entry of a map.
type Entry struct {
	Key   string
	At    Pos // of the key
	Value *Value
}

// Get returns the value under a key of a map; nil if there is none or v is no map. v may be nil.
func (v *Value) Get(key string) *Value {
	if v == nil || v.Kind != Map {
		return nil
	}
	for i := range v.Map {
		if v.Map[i].Key == key {
			return v.Map[i].Value
		}
	}
	return nil
}

// Unknown returns the first key of a map that isn't one of names; "" if there is none.
func (v *Value) Unknown(names ...string) string {
	if v != nil {
		for _, e := range v.Map {
			if !slices.Contains(names, e.Key) {
				return e.Key
			}
		}
	}
	return ""
}

// IsNull reports whether there is no value, or a null.
func (v *Value) IsNull() bool { return v == nil || v.Kind == Null }

// String returns the text of a Text and "" for everything else.
func (v *Value) String() string {
	if v == nil || v.Kind != Text {
		return ""
	}
	return v.Text
}

// Int returns the number of an Int that an int64 can hold.
func (v *Value) Int() (int64, bool) {
	if v == nil || v.Kind != Int {
		return 0, false
	}
	n, err := strconv.ParseInt(v.Text, 10, 64)
	return n, err == nil
}

// JSON returns v as the values that encoding/json and package jcs work with: nil, bool, int64, float64, string,
// []any, map[string]any. An integer beyond ±2^53 and a number that no double holds are errors, because JSON's
// readers disagree about them.
func (v *Value) JSON() (any, error) {
	if v == nil {
		return nil, nil
	}
	switch v.Kind {
	case Bool:
		return v.Text == "true", nil
	case Int:
		n, ok := v.Int()
		if !ok || n > 1<<53 || n < -1<<53 {
			return nil, &Problem{At: v.At,
				Message: fmt.Sprintf("the integer %s is beyond what JSON's readers agree about", v.Text)}
		}
		return n, nil
	case Float:
		f, err := strconv.ParseFloat(v.Text, 64)
		if err != nil {
			return nil, &Problem{At: v.At,
				Message: fmt.Sprintf("the number %s is beyond what JSON's readers agree about", v.Text)}
		}
		return f, nil
	case Text:
		return v.Text, nil
	case List:
		list := make([]any, len(v.Items))
		for i, item := range v.Items {
			var err error
			if list[i], err = item.JSON(); err != nil {
				return nil, err
			}
		}
		return list, nil
	case Map:
		m := make(map[string]any, len(v.Map))
		for _, e := range v.Map {
			var err error
			if m[e.Key], err = e.Value.JSON(); err != nil {
				return nil, err
			}
		}
		return m, nil
	}
	return nil, nil
}

// A Problem is something wrong at a place of a file. A warning is one that doesn't keep the file from being used.
type Problem struct {
	At      Pos
	Field   string // the field it is about, as in "permissions[2]"; "" for the file
	Message string
	Warning bool
}

// Fault gives the place and the field as details.
func (p *Problem) Fault() *fault.Error {
	return fault.New(fault.Validation, "%s", p.Error()).From(p).
		On("line", p.At.Line).On("column", p.At.Column).On("field", p.Field).On("reason", "validation-failed")
}

// Error returns the place and the message.
func (p *Problem) Error() string {
	switch {
	case p.At.Line == 0:
		return p.Message
	case p.At.Column == 0:
		return fmt.Sprintf("line %d: %s", p.At.Line, p.Message)
	}
	return fmt.Sprintf("line %d, column %d: %s", p.At.Line, p.At.Column, p.Message)
}
