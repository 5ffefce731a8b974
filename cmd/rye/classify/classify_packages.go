package classify

import (
	"errors"
	"fmt"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/lock"
	"github.com/rye-build/rye/lock/closure"
	"github.com/rye-build/rye/lock/packages"
	"github.com/rye-build/rye/lock/registry"
)

// ofPackages recognises what is said of packages that tools list.
func ofPackages(f *fault.Error) bool {
	var (
		closed   *closure.Error
		listed   *lock.ListedError
		unpinned *lock.UnpinnedError
		two      *lock.TwoFilesError
		inList   *packages.Error
		noList   *closure.ListError
		offline  *registry.OfflineError
		absent   *registry.NotFoundError
		digest   *registry.DigestError
		place    *registry.Error
	)
	if errors.As(f.Err, &closed) {
		return false // its problems come one by one
	}
	switch {
	case errors.As(f.Err, &unpinned):
		f.Code, f.Hint = fault.LockMismatch, []string{"rye lock"}
		f.Details = map[string]any{"reason": "packages", "package": unpinned.Package}
	case errors.As(f.Err, &two):
		f.Code, f.Exit, f.Final, f.Hint = fault.Conflict, fault.ExitRefused, true, []string{"rye docs packages"}
		f.Text = fmt.Sprintf("%s is two files", two.Name)
		for i := range two.Tools {
			f.Why = append(f.Why, fmt.Sprintf("%s for %s", two.Sources[i], two.Tools[i]))
		}
		f.Details = map[string]any{"reason": "packages", "package": two.Name}
	case errors.As(f.Err, &inList):
		f.Code, f.Hint = fault.Validation, []string{"rye docs packages"}
		if inList.Hint != "" {
			f.Why = append(f.Why, inList.Hint)
		}
	case errors.As(f.Err, &noList):
		f.Code, f.Hint = fault.Validation, []string{"rye docs packages"}
		f.Details = map[string]any{"list": noList.Path}
	case errors.As(f.Err, &offline):
		f.Code, f.Hint = fault.Offline, []string{"rye fetch", "rye vendor"}
		f.Details = map[string]any{"package": offline.Package, "url": offline.Where}
	case errors.As(f.Err, &absent):
		f.Code, f.Hint = fault.NotFound, []string{"rye docs packages"}
		f.Details = map[string]any{"package": absent.Package, "where": absent.Where}
	case errors.As(f.Err, &digest):
		f.Code = fault.Integrity
		f.Details = map[string]any{"package": digest.Package, "where": digest.Where, "expected": digest.Expected, "found": digest.Found}
		f.Why = []string{"whoever made the list had another file under this name: nothing of this one was kept"}
	case errors.As(f.Err, &place):
		if !ofWeb(f) {
			return false
		}
		f.Details["package"] = place.Package
	default:
		return false
	}
	if errors.As(f.Err, &listed) {
		if f.Details == nil {
			f.Details = map[string]any{}
		}
		f.Details["tool"] = listed.Tool.String()
	}
	return true
}
