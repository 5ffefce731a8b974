package classify

import (
	"errors"
	"fmt"

	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/bundle/install"
	"github.com/rye-build/rye/cas/fault"
)

// ofBundles recognises what the room bundle says. It looks before the others, since a bundle can be refused for many
// reasons at once, which stand below its errors.
func ofBundles(f *fault.Error) bool {
	var refused *install.RefusedError
	switch {
	case errors.As(f.Err, &refused):
		refusedBundle(f, refused.Report)
	default:
		return false
	}
	return true
}

// refusedBundle says why a bundle isn't taken: each failure, with the code of the gravest.
func refusedBundle(f *fault.Error, r *bundle.Report) {
	name := "bundle"
	if r.Bundle != nil {
		name = r.BundleID + "@" + r.Version
	}
	f.Text = fmt.Sprintf("the bundle %q is refused: %s", name, fault.Count(int64(len(r.Failures)), "failure"))
	lines, codes := []BundleFailure{}, []fault.Code{}
	for _, failure := range r.Failures {
		l := NewBundleFailure(failure)
		lines, codes = append(lines, l), append(codes, l.Code)
		if len(lines) <= fault.MaxLines {
			f.Why = append(append(f.Why, l.Text()), l.Compared()...)
		}
	}
	if more := len(lines) - fault.MaxLines; more > 0 {
		f.Why = append(f.Why, fmt.Sprintf("and %d more", more))
	}
	f.Code, f.Details = fault.Gravest(codes), map[string]any{"failures": lines}
}
