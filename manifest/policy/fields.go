package policy

import (
	"slices"
	"strconv"
	"strings"

	"github.com/rye-build/rye/manifest/policy/yamltree"
)

// Readers of single fields.

// readThreshold reads a number from 1 to most, the number of keys: 0 would admit everything, a larger one nothing.
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

// readAccept reads the accepted formats of signatures; v2 is always accepted.
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
