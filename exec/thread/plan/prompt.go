package plan

import (
	"fmt"
	"regexp"
	"strings"
	"sync"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/manifest/jcs"
)

// filled matches what an input fills in.
var filled = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`\{input:([A-Za-z0-9_.-]+)(\?|:[^{}]*)?\}`)
})

// Fill fills inputs into a text. A name without an input or a default stays as it is.
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

// asText returns a JSON value as text: a string as it is, all else as JSON.
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

// Prompt returns the steps of a directive: its text, or, where that is empty, its XML without the declarations.
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

// declarations match the elements that declare something, and comments.
var declarations = sync.OnceValue(func() (all []*regexp.Regexp) {
	for _, name := range []string{"metadata", "description", "inputs", "outputs", "hooks"} {
		all = append(all, regexp.MustCompile(`(?s)<`+name+`\b(?:[^>]*/>|.*?</`+name+`\s*>)`))
	}
	return append(all, regexp.MustCompile(`(?s)<!--.*?-->`))
})
