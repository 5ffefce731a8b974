package diff

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/rye-build/rye/ai/shape"
)

// Next returns the lowest version that semantic versioning allows after the version from, for these changes. Below
// 1.0.0 the second number counts as the first one does from there on.
func (r *Report) Next(from string) string {
	core, _, _ := strings.Cut(from, "+")
	core, early, _ := strings.Cut(core, "-")
	var n [3]int64
	for i, part := range strings.SplitN(core, ".", 3) {
		n[i], _ = strconv.ParseInt(part, 10, 64)
	}
	if early != "" {
		return core // a preview promises nothing
	}
	at := 2
	switch {
	case r.Class == shape.Breaking:
		at = 0
	case slices.ContainsFunc(r.Items, func(i Item) bool {
		return i.Change == Added || slices.ContainsFunc(i.Shape, func(s shape.Item) bool {
			return s.Class != shape.Info
		})
	}):
		at = 1
	}
	if n[0] == 0 {
		at = min(at+1, 2)
	}
	n[at]++
	clear(n[at+1:])
	return fmt.Sprintf("%d.%d.%d", n[0], n[1], n[2])
}
