package parse

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/rye-build/rye/ai/value"
)

const (
	// maxJSONDepth is how deep the arrays and objects of a JSON text may nest.
	maxJSONDepth = 1000
	// maxJSONValues bounds the values of a JSON text, and so its memory.
	maxJSONValues = 1 << 18
)

// JSON reads a JSON text (RFC 8259), whose values have their places. It refuses duplicate names in an object, bytes
// that aren't UTF-8, a byte order mark and text after the value. Numbers may have any size, as in package value. ours
// reports that the problem is a rule of this reader: up to there the text is valid.
func JSON(text []byte) (v *value.Value, problem *value.Problem, ours bool) {
	r := jsonReader{text: text, places: newPlaces(string(text))}
	v, problem = r.whole()
	return v, problem, r.ours
}

func (r *jsonReader) whole() (*value.Value, *value.Problem) {
	if at := invalidUTF8(r.text); at >= 0 {
		return nil, r.problem(at, "not UTF-8")
	}
	r.tokens = json.NewDecoder(bytes.NewReader(r.text))
	r.tokens.UseNumber()
	v, problem := r.value(0)
	if problem != nil {
		return nil, problem
	}
	end := r.next()
	if _, err := r.tokens.Token(); err != io.EOF {
		return nil, r.problem(end, "unexpected text after the value")
	}
	return v, nil
}

func invalidUTF8(text []byte) int {
	for at := 0; at < len(text); {
		char, n := utf8.DecodeRune(text[at:])
		if char == utf8.RuneError && n == 1 {
			return at
		}
		at += n
	}
	return -1
}

type jsonReader struct {
	text   []byte
	tokens *json.Decoder
	places places
	values int
	ours   bool
}

// next returns the offset of the next token.
func (r *jsonReader) next() int {
	at := int(r.tokens.InputOffset())
	for at < len(r.text) && strings.IndexByte(" \t\r\n,:", r.text[at]) >= 0 {
		at++
	}
	return at
}

func (r *jsonReader) problem(at int, format string, args ...any) *value.Problem {
	return &value.Problem{At: r.places.at(at), Message: fmt.Sprintf(format, args...)}
}

// refuse returns the problem of a rule of this reader.
func (r *jsonReader) refuse(at int, format string, args ...any) *value.Problem {
	r.ours = true
	return r.problem(at, format, args...)
}

// token reads the next token, whose place is at.
func (r *jsonReader) token() (token json.Token, at int, problem *value.Problem) {
	at = r.next()
	token, err := r.tokens.Token()
	switch syntax, ok := errors.AsType[*json.SyntaxError](err); {
	case err == nil:
		return token, at, nil
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return nil, at, r.problem(len(r.text), "unexpected end")
	case ok:
		return nil, at, r.problem(max(at, int(syntax.Offset)-1), "%s", syntax.Error())
	default:
		return nil, at, r.problem(at, "%s", strings.TrimPrefix(err.Error(), "json: "))
	}
}

func (r *jsonReader) value(depth int) (*value.Value, *value.Problem) {
	token, at, problem := r.token()
	if problem != nil {
		return nil, problem
	}
	if r.values++; r.values > maxJSONValues {
		return nil, r.refuse(at, "more than %d values", maxJSONValues)
	}
	v := &value.Value{At: r.places.at(at)}
	switch token := token.(type) {
	case nil:
		v.Kind = value.Null
	case bool:
		v.Kind, v.Text = value.Bool, fmt.Sprint(token)
	case string:
		v.Kind, v.Text = value.Text, token
	case json.Number:
		v.Kind, v.Text = value.Int, token.String()
		if strings.ContainsAny(v.Text, ".eE") {
			v.Kind = value.Float
		}
	case json.Delim:
		if depth == maxJSONDepth {
			return nil, r.refuse(at, "nested more than %d deep", maxJSONDepth)
		}
		if token == '[' {
			v.Kind = value.List
			problem = r.array(v, depth+1)
		} else {
			v.Kind = value.Map
			problem = r.object(v, depth+1)
		}
	}
	return v, problem
}

func (r *jsonReader) array(v *value.Value, depth int) *value.Problem {
	for r.tokens.More() {
		item, problem := r.value(depth)
		if problem != nil {
			return problem
		}
		v.Items = append(v.Items, item)
	}
	_, _, problem := r.token()
	return problem
}

func (r *jsonReader) object(v *value.Value, depth int) *value.Problem {
	seen := map[string]bool{}
	for r.tokens.More() {
		token, at, problem := r.token()
		if problem != nil {
			return problem
		}
		name := token.(string) // the decoder refuses any other
		if seen[name] {
			return r.refuse(at, "duplicate name %+q", name)
		}
		seen[name] = true
		entry := value.Entry{Key: name, At: r.places.at(at)}
		if entry.Value, problem = r.value(depth); problem != nil {
			return problem
		}
		v.Map = append(v.Map, entry)
	}
	_, _, problem := r.token()
	return problem
}
