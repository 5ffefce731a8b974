package cli

import (
	"context"
	"strings"
)

// A Candidate is one way to complete a word.
type Candidate struct {
	Value string `json:"value"`
	Help  string `json:"help"`
}

const (
	AskFiles = ":files"
	AskDirs  = ":dirs"
)

// A Completer is a command that knows the values of its flags and arguments, such as the refs of a store. name is the
// flag or argument, prefix what was typed so far; the caller drops values without that prefix.
type Completer interface {
	Complete(ctx context.Context, a *App, name, prefix string) []Candidate
}

// Begins returns the candidates that begin with prefix, each after the text before.
func Begins(all []Candidate, prefix, before string) (out []Candidate) {
	for _, c := range all {
		if strings.HasPrefix(c.Value, prefix) {
			out = append(out, Candidate{before + c.Value, c.Help})
		}
	}
	return out
}
