package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/rye-build/rye/cas/fault"
)

// ErrorReply is the error object of --json.
type ErrorReply struct {
	Code       fault.Code `json:"code"`
	Message    string     `json:"message"`
	Details    any        `json:"details"`
	Retryable  bool       `json:"retryable"`
	Suggestion string     `json:"suggestion"`
}

// replyData returns the line that --json prints for an answer of a schema.
func replyData(schema string, ans Answer) ([]byte, error) {
	data, err := dataOf(schema, ans)
	if err != nil {
		return nil, err
	}
	return encodeReply(struct {
		Success bool            `json:"success"`
		Data    json.RawMessage `json:"data"`
	}{true, data})
}

// replyFault returns the line that --json prints for a fault. Its details are the answer that came with it, with its
// schema, and then the fault's own details.
func replyFault(f *fault.Error, schema string, ans Answer) ([]byte, error) {
	details := map[string]any{}
	maps.Copy(details, f.Details)
	if len(f.Why) > 0 {
		details["why"] = f.Why
	}
	e := ErrorReply{
		Code:       f.Line().Code,
		Message:    f.Text,
		Details:    details,
		Retryable:  f.Line().Retryable,
		Suggestion: strings.Join(f.Hint, "\n"),
	}
	if ans != nil {
		data, err := dataOf(schema, ans)
		if err == nil {
			data, err = extend(data, details)
		}
		if err != nil {
			return nil, err
		}
		e.Details = data
	}
	return encodeReply(struct {
		Success bool       `json:"success"`
		Error   ErrorReply `json:"error"`
	}{false, e})
}

// dataOf marshals an answer, which is an object, with its schema as the first member.
func dataOf(schema string, ans Answer) (json.RawMessage, error) {
	name, err := json.Marshal(schema)
	if err != nil {
		return nil, err
	}
	object, err := Marshal(ans)
	if err != nil {
		return nil, err
	}
	data := append([]byte(`{"schema":`), name...)
	if len(object) > len("{}") {
		data = append(data, ',')
	}
	return append(data, object[1:]...), nil
}

// extend adds to an object the members that it lacks.
func extend(object json.RawMessage, more map[string]any) (json.RawMessage, error) {
	var has map[string]json.RawMessage
	if err := json.Unmarshal(object, &has); err != nil {
		return nil, err
	}
	for name := range has {
		delete(more, name)
	}
	if len(more) == 0 {
		return object, nil
	}
	rest, err := Marshal(more)
	if err != nil {
		return nil, err
	}
	return append(append(object[:len(object)-1], ','), rest[1:]...), nil
}

// Marshal is json.Marshal without the escapes for HTML.
func Marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// encodeReply marshals v as one line and escapes unprintable characters outside ASCII: the line may be shown on a
// terminal, and package json leaves C1 controls and changes of direction alone.
func encodeReply(v any) ([]byte, error) {
	line, err := Marshal(v)
	if err != nil {
		return nil, err
	}
	out := make([]byte, 0, len(line)+1)
	for len(line) > 0 {
		r, n := utf8.DecodeRune(line)
		if r == 0x7f || r >= utf8.RuneSelf && !unicode.IsPrint(r) {
			for _, unit := range utf16.AppendRune(nil, r) {
				out = fmt.Appendf(out, `\u%04x`, unit)
			}
		} else {
			out = append(out, line[:n]...)
		}
		line = line[n:]
	}
	return append(out, '\n'), nil
}
