package policy

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rye-build/rye/manifest/policy/yamltree"
)

// What can stand in the fields of a policy alone.

func readGlob(n *yamltree.Node, text string) (glob, error) {
	g, err := parseGlob(text)
	if err != nil {
		err = n.Errorf("%s", err)
	}
	return g, err
}

func readGlobs(n *yamltree.Node, field string) ([]string, []glob, error) {
	f := n.Get(field)
	if f == nil {
		return nil, nil, nil
	}
	return globList(f)
}

func globList(n *yamltree.Node) ([]string, []glob, error) {
	words, err := n.ItemWords()
	if err != nil {
		return nil, nil, err
	}
	if len(words) > maxRules {
		return nil, nil, n.Errorf("has more than %d globs", maxRules)
	}
	globs := make([]glob, len(words))
	for i, w := range words {
		if globs[i], err = readGlob(n.Kids[i], w); err != nil {
			return nil, nil, err
		}
	}
	return words, globs, nil
}

// readThreshold reads a number from 1 to most. 0 would let anybody in, and more than there are keys nobody.
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

// readAge reads a number of hours or days.
func readAge(n *yamltree.Node, field string) (time.Duration, error) {
	text, err := n.Need(field)
	if err != nil {
		return 0, err
	}
	unit := 24 * time.Hour
	number, ok := strings.CutSuffix(text, "d")
	if !ok {
		unit = time.Hour
		number, ok = strings.CutSuffix(text, "h")
	}
	v, err := strconv.Atoi(number)
	if !ok || err != nil || !yamltree.IsNumber(number) || v < 1 || v > int(maxAge/unit) {
		return 0, n.Get(field).Errorf("expected a number of days or hours, such as 7d or 36h")
	}
	return time.Duration(v) * unit, nil
}
