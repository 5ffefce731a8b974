package paths

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/suggest"
	"github.com/rye-build/rye/lock/workspace"
)

// NotLocked returns the error for a name that isn't in the lock, with similar names and what to do.
func NotLocked(ctx context.Context, lock *Lock, name string) error {
	failure := fault.New(fault.NotFound, "%q is not locked", name).Try("rye tree", "rye lock").On("name", name)
	var names, similar []string
	bare := !strings.Contains(name, ":")
	for i := range lock.Old.Pins {
		ref := lock.Old.Pins[i].Ref
		names = append(names, ref.String())
		if bare && (ref.ID == name || len(suggest.Names(name, []string{ref.ID})) > 0) { // the name lacks its kind
			similar = append(similar, ref.String())
		}
	}
	for _, b := range lock.Old.Bundles {
		names = append(names, b.ID)
	}
	for _, a := range lock.Old.Artifacts {
		names = append(names, workspace.PackageName(a))
	}
	names = slices.Compact(names) // a version of a package has many files
	if len(similar) == 0 {
		similar = suggest.Names(name, names)
	}
	if slices.Contains(names, name) { // a bundle or a package: callers ask only about items
		failure.Code, failure.Text, failure.Hint = fault.NotFound,
			fmt.Sprintf("%q is locked, but it is not an item", name),
			[]string{"rye why " + fault.Quote(name)}
	} else if in := lock.BundleOf(ctx, name); in != "" {
		failure.Why, failure.Details["bundle"] = []string{fmt.Sprintf(
			"it is in the locked bundle %q, but nothing uses it", in)},
			in
		failure.Hint = []string{"rye add " + fault.Quote(name), "rye show " + fault.Quote(name)}
	} else if len(similar) > 0 {
		failure.Why, failure.Details["did_you_mean"] = []string{"did you mean " + strings.Join(similar, ", ") +
			"?"}, similar
		failure.Hint = failure.Hint[:1]
	}
	return failure
}
