package provider

import (
	"cmp"
	"encoding/json"
	"reflect"
	"slices"

	"github.com/rye-build/rye/cas/fault"
)

// ReadMessages parses the messages of a loop. It takes the first kept messages from old.
func ReadMessages(list []any, old []Message, kept int) ([]Message, error) {
	kept = min(kept, len(old), len(list))
	var added []Message
	if err := Decode(list[kept:], &added); err != nil {
		return nil, fault.New(fault.Validation, "the loop sends messages that can't be read: %v", err)
	}
	if kept < len(old) {
		old = slices.Clip(old[:kept]) // an earlier request may still use the rest
	}
	return append(old, added...), nil
}

// Offers caches the parsed tools of a loop, because most requests offer the same tools as the previous one.
type Offers struct {
	from []any
	read []Tool
}

// Read parses the tools of a loop.
func (t *Offers) Read(list []any) ([]Tool, error) {
	if t.from != nil && reflect.DeepEqual(list, t.from) {
		return t.read, nil
	}
	*t = Offers{}
	var read []Tool
	if err := Decode(list, &read); err != nil {
		return nil, fault.New(fault.Validation, "the loop offers tools that can't be read: %v", err)
	}
	*t = Offers{list, read}
	return read, nil
}

// Size returns the size of a value as JSON, in bytes.
func Size(v any) int64 {
	b, _ := json.Marshal(v) // a value from JSON can be written as JSON
	return int64(len(b))
}

// Decode decodes a JSON value into a variable.
func Decode(v, to any) error {
	b, err := json.Marshal(v)
	return cmp.Or(err, json.Unmarshal(b, to))
}

// Seen returns an answer in the form for a loop.
func Seen(a *Answer) (seen any) {
	// A value from JSON can be written as JSON.
	Decode(map[string]any{"text": a.Text, "calls": append([]ToolCall{}, a.Calls...), "stop": a.Stop,
		"message": a.Message()}, &seen)
	return seen
}
