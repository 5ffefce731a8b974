package agenttools

import (
	"fmt"
	"maps"
	"regexp"
	"strings"
	"sync"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/exec/template/params"
	"github.com/rye-build/rye/manifest/jcs"
)

// Text returns the text of knowledge, or of a directive with its inputs.
func Text(it *ai.Item, given map[string]any) (map[string]any, error) {
	if it.Model.Directive == nil {
		return object{"ref": it.Ref.String(), "text": it.Model.Body}, nil
	}
	schema, err := Inputs(it)
	if err != nil {
		return nil, err
	}
	inputs, err := schema.Complete(given)
	return object{"ref": it.Ref.String(), "text": Fill(Prompt(it.Model), inputs)}, err
}

// Inputs returns the schema of a directive's inputs. Undeclared inputs are invalid.
func Inputs(it *ai.Item) (*params.Schema, error) {
	schema := map[string]any{"type": "object"}
	if declared, ok := it.Model.Interface().Input.(map[string]any); ok {
		schema = maps.Clone(declared)
	}
	schema["additionalProperties"] = false
	return params.Compile(schema)
}

// filled matches a reference to an input.
var filled = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`\{input:([A-Za-z0-9_.-]+)(\?|:[^{}]*)?\}`)
})

// Fill replaces {input:NAME} in a text. Without such an input, {input:NAME?} becomes empty, {input:NAME:TEXT} becomes
// TEXT, and {input:NAME} stays.
func Fill(text string, inputs map[string]any) string {
	return filled().ReplaceAllStringFunc(text, func(whole string) string {
		m := filled().FindStringSubmatch(whole)
		v, ok := inputs[m[1]]
		switch otherwise, given := strings.CutPrefix(m[2], ":"); {
		case ok && v != nil:
			return asText(v)
		case given:
			return otherwise
		case m[2] == "?":
			return ""
		}
		return whole
	})
}

// asText returns a JSON value as text: a string as it is, any other value as JSON.
func asText(v any) string {
	if s, ok := v.(string); ok {
		return s
	}
	b, err := jcs.Append(nil, v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(b)
}

// Prompt returns the steps of a directive: its body, or without one its XML without the declarations.
func Prompt(m *model.Model) string {
	if body := strings.TrimSpace(m.Body); body != "" {
		return body
	}
	steps := outer().ReplaceAllString(m.Fields.Get("content").String(), "")
	for _, e := range declarations() {
		steps = e.ReplaceAllString(steps, "")
	}
	return strings.TrimSpace(steps)
}

// outer matches the tags of the directive itself.
var outer = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`</?directive\b[^>]*>`)
})

// declarations match comments and the elements that declare a directive.
var declarations = sync.OnceValue(func() (all []*regexp.Regexp) {
	for _, name := range []string{"metadata", "description", "inputs", "outputs", "hooks"} {
		all = append(all, regexp.MustCompile(`(?s)<`+name+`\b(?:[^>]*/>|.*?</`+name+`\s*>)`))
	}
	return append(all, regexp.MustCompile(`(?s)<!--.*?-->`))
})
