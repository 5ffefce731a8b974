// Package globlist reads globs over names from the files that people write.
package globlist

import (
	"github.com/rye-build/rye/manifest/policy/glob"
	"github.com/rye-build/rye/manifest/policy/yamltree"
)

// Max is the most globs of a list.
const Max = 1000

// Parse reads the glob at node n.
func Parse(n *yamltree.Node, text string) (glob.Glob, error) {
	g, err := glob.Parse(text)
	if err != nil {
		err = n.Errorf("%s", err)
	}
	return g, err
}

// Read reads a list of globs, and returns their texts and the parsed globs.
func Read(n *yamltree.Node) ([]string, []glob.Glob, error) {
	words, err := n.ItemWords()
	if err != nil {
		return nil, nil, err
	}
	if len(words) > Max {
		return nil, nil, n.Errorf("has more than %d globs", Max)
	}
	globs := make([]glob.Glob, len(words))
	for i, w := range words {
		if globs[i], err = Parse(n.Kids[i], w); err != nil {
			return nil, nil, err
		}
	}
	return words, globs, nil
}
