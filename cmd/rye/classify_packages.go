package main

import (
	"errors"
	"fmt"

	"github.com/rye-build/rye/lock"
	"github.com/rye-build/rye/lock/closure"
	"github.com/rye-build/rye/lock/packages"
	"github.com/rye-build/rye/lock/registry"
)

// ofPackages recognises what is said of packages that tools list.
func (f *fault) ofPackages() bool {
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
	if errors.As(f.err, &closed) {
		return false // its problems come one by one
	}
	switch {
	case errors.As(f.err, &unpinned):
		f.code, f.hint = "LOCK_MISMATCH", []string{"rye lock"}
		f.details = map[string]any{"reason": "packages", "package": unpinned.Package}
	case errors.As(f.err, &two):
		f.code, f.exit, f.stays, f.hint = "CONFLICT", exitRefused, true, []string{"rye docs packages"}
		f.message = fmt.Sprintf("%s is two files", two.Name)
		for i := range two.Tools {
			f.why = append(f.why, fmt.Sprintf("%s for %s", two.Sources[i], two.Tools[i]))
		}
		f.details = map[string]any{"reason": "packages", "package": two.Name}
	case errors.As(f.err, &inList):
		f.code, f.hint = codeValidation, []string{"rye docs packages"}
		if inList.Hint != "" {
			f.why = append(f.why, inList.Hint)
		}
	case errors.As(f.err, &noList):
		f.code, f.hint = codeValidation, []string{"rye docs packages"}
		f.details = map[string]any{"list": noList.Path}
	case errors.As(f.err, &offline):
		f.code, f.hint = "OFFLINE", []string{"rye fetch", "rye vendor"}
		f.details = map[string]any{"package": offline.Package, "url": offline.Where}
	case errors.As(f.err, &absent):
		f.code, f.hint = codeItem, []string{"rye docs packages"}
		f.details = map[string]any{"package": absent.Package, "where": absent.Where}
	case errors.As(f.err, &digest):
		f.code = "INTEGRITY_FAILED"
		f.details = map[string]any{"package": digest.Package, "where": digest.Where, "expected": digest.Expected, "found": digest.Found}
		f.why = []string{"whoever made the list had another file under this name: nothing of this one was kept"}
	case errors.As(f.err, &place):
		if !f.ofWeb() {
			return false
		}
		f.details["package"] = place.Package
	default:
		return false
	}
	if errors.As(f.err, &listed) {
		if f.details == nil {
			f.details = map[string]any{}
		}
		f.details["tool"] = listed.Tool.String()
	}
	return true
}
