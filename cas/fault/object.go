package fault

import (
	"maps"
	"strings"
)

// An Object is an error as every door shows it.
type Object struct {
	Code       Code   `json:"code"`
	Message    string `json:"message"`
	Details    any    `json:"details"`
	Retryable  bool   `json:"retryable"`
	Suggestion string `json:"suggestion"`
}

// Object returns the error as every door shows it. Its details are an object, with the reasons as "why".
func (e *Error) Object() Object {
	details := map[string]any{}
	maps.Copy(details, e.Details)
	if len(e.Why) > 0 {
		details["why"] = e.Why
	}
	line := e.Line()
	return Object{line.Code, e.Text, details, line.Retryable, strings.Join(e.Hint, "\n")}
}
