// Package reply writes the one line that --json prints: {"success":true,"data":…} or {"success":false,"error":…}.
package reply

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/rye-build/rye/cas/fault"
)

// Data returns the line that --json prints for an answer of a schema.
func Data(schema string, ans any) ([]byte, error) {
	data, err := dataOf(schema, ans)
	if err != nil {
		return nil, err
	}
	return Encode(struct {
		Success bool            `json:"success"`
		Data    json.RawMessage `json:"data"`
	}{true, data})
}

// Fault returns the line that --json prints for a fault. Its details are the answer and its schema, if there is an
// answer, and then the fault's own details.
func Fault(f *fault.Error, schema string, ans any) ([]byte, error) {
	object := f.Object()
	if ans != nil {
		data, err := dataOf(schema, ans)
		if err == nil {
			data, err = extend(data, object.Details.(map[string]any))
		}
		if err != nil {
			return nil, err
		}
		object.Details = data
	}
	return Encode(struct {
		Success bool         `json:"success"`
		Error   fault.Object `json:"error"`
	}{false, object})
}

// dataOf marshals an answer, which is an object, with its schema as the first member.
func dataOf(schema string, ans any) (json.RawMessage, error) {
	name, err := json.Marshal(schema)
	if err != nil {
		return nil, err
	}
	v := reflect.New(reflect.TypeOf(ans))
	v.Elem().Set(reflect.ValueOf(ans))
	fillLists(v)
	object, err := Marshal(v.Interface())
	if err != nil {
		return nil, err
	}
	data := append([]byte(`{"schema":`), name...)
	if len(object) > len("{}") {
		data = append(data, ',')
	}
	return append(data, object[1:]...), nil
}

// fillLists makes each nil slice below value empty: a list is never null in JSON, and other packages may leave it nil.
func fillLists(value reflect.Value) {
	switch value.Kind() {
	case reflect.Pointer:
		if !value.IsNil() {
			fillLists(value.Elem())
		}
	case reflect.Struct:
		for i := range value.NumField() {
			t := value.Type().Field(i)
			if tag := t.Tag.Get("json"); (t.IsExported() || t.Anonymous) && tag != "-" &&
				!strings.Contains(tag, "omitzero") {
				fillLists(value.Field(i))
			}
		}
	case reflect.Slice:
		if value.Type().Elem().Kind() == reflect.Uint8 {
			return // bytes are a string in JSON
		}
		if value.IsNil() {
			value.Set(reflect.MakeSlice(value.Type(), 0, 0))
		}
		for i := range value.Len() {
			fillLists(value.Index(i))
		}
	}
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

// Encode marshals v as one line and escapes unprintable characters outside ASCII: the line may be shown on a
// terminal, and package json leaves C1 controls and changes of direction alone.
func Encode(v any) ([]byte, error) {
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
