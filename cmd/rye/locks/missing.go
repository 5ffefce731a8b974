package locks

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/suggest"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/lock/workspace"
)

// NotLocked says that the lock doesn't name something.
func NotLocked(ctx context.Context, l *paths.Lock, name string) error {
	f := fault.New(fault.NotFound, "%q is not locked", name).Try("rye tree", "rye lock").On("name", name)
	var names, meant []string
	for i := range l.Old.Pins {
		ref := l.Old.Pins[i].Ref
		names = append(names, ref.String())
		if ref.ID == name { // without its kind
			meant = append(meant, ref.String())
		}
	}
	for _, b := range l.Old.Bundles {
		names = append(names, b.ID)
	}
	for _, a := range l.Old.Artifacts {
		names = append(names, workspace.PackageName(a))
	}
	names = slices.Compact(names) // a version of a package has many files
	if len(meant) == 0 {
		meant = suggest.Names(name, names)
	}
	if slices.Contains(names, name) { // of items rye why doesn't ask this
		f.Code, f.Text, f.Hint = fault.NotFound, fmt.Sprintf("%q is in the lock, and is no item", name),
			[]string{"rye why " + fault.Quote(name)}
	} else if in := l.BundleOf(ctx, name); in != "" {
		f.Why, f.Details["bundle"] = []string{fmt.Sprintf("it is in the locked bundle %q, but nothing uses it", in)},
			in
		f.Hint = []string{"rye add " + fault.Quote(name), "rye show " + fault.Quote(name)}
	} else if len(meant) > 0 {
		f.Why, f.Details["did_you_mean"] = []string{"did you mean " + strings.Join(meant, ", ") + "?"}, meant
		f.Hint = f.Hint[:1]
	}
	return f
}
