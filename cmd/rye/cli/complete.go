// Candidates for the completion of a word. Package initcmd has the command that shells call.

package cli

import (
	"strings"
)

// A Candidate is one way to complete a word.
type Candidate struct {
	Value string `json:"value"`
	Help  string `json:"help"`
}

// Candidates with these values ask the shell to complete files or directories itself.
const (
	AskFiles = ":files"
	AskDirs  = ":dirs"
)

// Offer converts each of all into a candidate, as describe describes it.
func Offer[T any](all []T, describe func(T) (value, help string)) (out []Candidate) {
	for _, item := range all {
		value, help := describe(item)
		out = append(out, Candidate{value, help})
	}
	return out
}

// Begins returns the candidates whose value begins with prefix. It prepends before to each: the part of the word
// that is complete, such as "--flag=".
func Begins(all []Candidate, prefix, before string) (out []Candidate) {
	for _, c := range all {
		if strings.HasPrefix(c.Value, prefix) {
			out = append(out, Candidate{before + c.Value, c.Help})
		}
	}
	return out
}
