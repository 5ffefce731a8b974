package sandbox

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rye-build/rye/exec/sandbox/stage"
	"github.com/rye-build/rye/manifest/policy/floor"
)

// An unlaidError means that the stage couldn't lay out a directory. The program was not started.
type unlaidError struct{ why string }

func (e *unlaidError) Error() string { return e.why }

// closed says why a program can create nothing in a directory.
func (a *attempt) closed(view *view) string {
	var missing []string
	for _, name := range view.keep[view.closed] {
		if _, there := view.modes[filepath.Join(view.closed, name)]; !there {
			missing = append(missing, name)
		}
	}
	why := a.flat
	switch {
	case why != "":
	case a.spec.Stays:
		why = "the program serves many calls"
	case a.spec.Level < floor.Namespace:
		why = "there are no namespaces"
	default:
		why = "nothing can be mounted there"
	}
	return fmt.Sprintf("nothing can be created in %q itself while %s is missing, since %s", view.closed,
		strings.Join(missing, ", "), why)
}

// recover finishes the runs whose stages were killed, in the directories of Keep. What it can't finish it leaves
// there.
func (s *Spec) recover() (list []string) {
	keep := map[string][]string{}
	for _, path := range s.Keep {
		dir := filepath.Dir(path)
		keep[dir] = append(keep[dir], filepath.Base(path))
	}
	for _, dir := range slices.Sorted(maps.Keys(keep)) {
		recovered, _ := stage.Recover(dir, raw(keep[dir]))
		list = append(list, asides(recovered)...)
	}
	return list
}

// asides describes files that are elsewhere than a program put them.
func asides(list []stage.Aside) (texts []string) {
	for _, a := range list {
		text := fmt.Sprintf("%q: %s", a.Name, a.Why)
		if len(a.As) > 0 {
			text += fmt.Sprintf("; the tool's is %q", a.As)
		} else {
			text += ", so it wasn't removed"
		}
		texts = append(texts, text)
	}
	slices.Sort(texts)
	return texts
}
