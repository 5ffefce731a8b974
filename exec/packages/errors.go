package packages

import (
	"context"
	"errors"
	"fmt"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/lock/file"
)

// Invalid returns the error for an invalid list of packages.
func Invalid(ref model.Ref, err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return fault.New(fault.Validation, "the packages of %q: %v", ref, err).On("ref", ref.String()).On("package",
		"").Try("rye docs packages").From(err)
}

// noPackage returns the error for an unusable package; name is its name in the lock.
func noPackage(ref model.Ref, name string, err error) error {
	err = fmt.Errorf("%q needs the package %q: %w", ref, name, err)
	if e, ok := fault.Find(err); ok && e.Code != fault.Limit {
		e.Err = err
		return e.On("ref", ref.String()).On("package", name)
	}
	return err
}

// unpinned returns the error that a package isn't pinned; "" if there is no lock.
func unpinned(ref model.Ref, name string) error {
	e := fault.New(fault.NotLocked, "%q needs packages, but no lock pins them", ref)
	if name != "" {
		e.Text = fmt.Sprintf("%q needs the package %q, which is not locked", ref, name)
	}
	return e.On("ref", ref.String()).On("package", name).Try("rye lock")
}

// noWheel returns the error for a package none of whose pinned wheels fits the Python.
func noWheel(ref model.Ref, name, python string, all []file.Artifact) error {
	e := fault.New(fault.VersionMismatch, "%q needs the package %q, but none of its wheels fits %s", ref, name,
		python).
		On("ref", ref.String()).On("package", name).On("python", python).Try("rye docs packages")
	var wheels, lines []string
	for _, a := range all {
		_, tags := a.Tags()
		wheels, lines = append(wheels, tags), append(lines, "available: "+tags)
	}
	return e.On("wheels", wheels).List(lines...)
}
