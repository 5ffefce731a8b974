package provider

import (
	"cmp"
	"encoding/json"
	"reflect"
	"slices"

	"github.com/rye-build/rye/cas/fault"
)

// ReadMessages reads the messages of a loop. The first kept are those that old has: they are taken from there.
func ReadMessages(list []any, old []Message, kept int) ([]Message, error) {
	kept = min(kept, len(old), len(list))
	var added []Message
	if err := Decode(list[kept:], &added); err != nil {
		return nil, fault.New(fault.Validation, "the loop sends messages that can't be read: %v", err)
	}
	if kept < len(old) {
		old = slices.Clip(old[:kept]) // a request may still have what follows
	}
	return append(old, added...), nil
}

// Offers are those of a loop. They are read once: mostly each request offers what the one before did.
type Offers struct {
	from []any
	read []Tool
}

// Read reads the tools of a loop.
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

// Size is how many bytes a value has as JSON.
func Size(v any) int64 {
	b, _ := json.Marshal(v) // what was read from JSON can be written as JSON
	return int64(len(b))
}

// Decode reads JSON's values into a variable.
func Decode(v, to any) error {
	b, err := json.Marshal(v)
	return cmp.Or(err, json.Unmarshal(b, to))
}

// Seen returns an answer as a loop sees it.
func Seen(a *Answer) (seen any) {
	// What was read from JSON can be written as JSON.
	Decode(map[string]any{"text": a.Text, "calls": append([]ToolCall{}, a.Calls...), "stop": a.Stop,
		"message": a.Message()}, &seen)
	return seen
}
