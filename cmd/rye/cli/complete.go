package cli

import (
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

// Offer makes a candidate of each of all.
func Offer[T any](all []T, of func(T) (value, help string)) (out []Candidate) {
	for _, x := range all {
		value, help := of(x)
		out = append(out, Candidate{value, help})
	}
	return out
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
