package cli

import (
	"context"
	"strings"
)

// A Candidate is one way to go on.
type Candidate struct {
	Value string `json:"value"`
	Help  string `json:"help"`
}

const (
	AskFiles = ":files"
	AskDirs  = ":dirs"
)

// A Completer is a command that knows the values of its flags and arguments, for instance the refs of a
// store. name is the flag's or argument's, prefix what is typed of it; what doesn't begin with it is left
// out by the caller.
type Completer interface {
	Complete(ctx context.Context, a *App, name, prefix string) []Candidate
}

// Begins returns the candidates that begin with prefix, with before put in front.
func Begins(all []Candidate, prefix, before string) (out []Candidate) {
	for _, c := range all {
		if strings.HasPrefix(c.Value, prefix) {
			out = append(out, Candidate{before + c.Value, c.Help})
		}
	}
	return out
}
