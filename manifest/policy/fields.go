package policy

import (
	"slices"
	"strconv"
	"strings"

	"github.com/rye-build/rye/manifest/policy/glob"
	"github.com/rye-build/rye/manifest/policy/yamltree"
)

// What can stand in the fields of a policy alone.

func readGlob(n *yamltree.Node, text string) (glob.Glob, error) {
	g, err := glob.Parse(text)
	if err != nil {
		err = n.Errorf("%s", err)
	}
	return g, err
}

func globList(n *yamltree.Node) ([]string, []glob.Glob, error) {
	words, err := n.ItemWords()
	if err != nil {
		return nil, nil, err
	}
	if len(words) > maxRules {
		return nil, nil, n.Errorf("has more than %d globs", maxRules)
	}
	globs := make([]glob.Glob, len(words))
	for i, w := range words {
		if globs[i], err = readGlob(n.Kids[i], w); err != nil {
			return nil, nil, err
		}
	}
	return words, globs, nil
}

// readThreshold reads a number from 1 to most, the number of keys: 0 would admit everything, more would admit nothing.
func readThreshold(n *yamltree.Node, most int) (int, error) {
	f := n.Get("threshold")
	if f == nil {
		return 1, nil
	}
	v, err := strconv.Atoi(f.Text)
	if f.Shape != yamltree.Scalar || !f.Plain || !yamltree.IsNumber(f.Text) || err != nil || v < 1 || v > most {
		return 0, f.Errorf("expected a threshold from 1 to %d, the number of keys", most)
	}
	return v, nil
}

// readAccept reads which formats of signatures count; the second always does.
func readAccept(n *yamltree.Node) (v1 bool, err error) {
	words, err := n.Words("accept")
	if err != nil || n.Get("accept") == nil {
		return false, err
	}
	slices.Sort(words)
	switch strings.Join(words, " ") {
	case "v2":
		return false, nil
	case "v1 v2":
		return true, nil
	}
	return false, n.Get("accept").Errorf("expected [v2] or [v1, v2]")
}
