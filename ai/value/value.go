// Package value has the plain values that readers of item files return, each with its place in the file for error
// messages.
//
// A value is null, a truth value, an integer, a float, a text, a list, or a map with distinct keys in the order of
// the file. Numbers are kept as text in the form of JSON (RFC 8259), of any size: a reader converts 0x10 and 1_000
// to that form and never rounds.
//
// Lines and columns count from 1, columns in characters. The zero Pos is an unknown place.
package value

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/rye-build/rye/cas/fault"
)

// A Kind is the type of a value.
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

// String returns the kind's name in JSON Schema.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// A Pos is a place in a file.
type Pos struct{ Line, Column int }

// Compare orders places by position; the unknown place is first.
func (p Pos) Compare(o Pos) int {
	return cmp.Or(cmp.Compare(p.Line, o.Line), cmp.Compare(p.Column, o.Column))
}

// A Value is one value of a file. Values are immutable after reading and may be shared.
type Value struct {
	Kind  Kind
	At    Pos
	Text  string // of Text; of Bool "true" or "false"; of Int and Float the number in JSON's form
	Items []*Value
	Map   []Entry
}

// An Entry is one entry of a map.
type Entry struct {
	Key   string
	At    Pos // of the key
	Value *Value
}

// Get returns the value of a key, or nil if the key is missing or v isn't a map. v may be nil.
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

// Unknown returns the first key of a map that isn't one of names, or "".
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

// IsNull reports whether v is nil or a null.
func (v *Value) IsNull() bool { return v == nil || v.Kind == Null }

// String returns the text of a Text and "" for everything else.
func (v *Value) String() string {
	if v == nil || v.Kind != Text {
		return ""
	}
	return v.Text
}

// Int returns the number of an Int that fits into an int64.
func (v *Value) Int() (int64, bool) {
	if v == nil || v.Kind != Int {
		return 0, false
	}
	n, err := strconv.ParseInt(v.Text, 10, 64)
	return n, err == nil
}

// JSON returns v as the types of encoding/json and package jcs: nil, bool, int64, float64, string, []any,
// map[string]any. An integer beyond ±2^53 and a number beyond a double are errors, because JSON readers disagree
// about them.
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

// A Problem is an error or a warning at a place in a file. A warning doesn't make the file unusable.
type Problem struct {
	At      Pos
	Field   string // such as "permissions[2]"; "" for the whole file
	Message string
	Warning bool
	// Strict makes a warning an error for check, sign and a new pin. What is pinned already still runs.
	Strict bool
}

// Refused reports whether check, sign and a new pin refuse an item with this problem.
func (p *Problem) Refused() bool { return !p.Warning || p.Strict }

// Fault returns an error with the place and the field as details.
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
