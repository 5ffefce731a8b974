package starlark

import (
	"io"

	"github.com/rye-build/rye/exec/primitive"
	"github.com/rye-build/rye/manifest/jcs"
)

// Here runs an action in this process, without a sandbox, as the child would.
func Here(a *primitive.Action, errs io.Writer) (*primitive.Result, error) {
	q, err := newRequest(a)
	if err != nil {
		return nil, err
	}
	v, err := jcs.Parse(q.run(errs).bytes())
	return resultOf(v), err
}

// resultOf is what becomes of what the child has written.
func resultOf(v any) *primitive.Result {
	r := &primitive.Result{Value: v}
	read(r)
	return r
}

// Matches reports whether a pattern means a path.
func Matches(text, at string) (bool, error) {
	p, err := newPattern(text)
	return err == nil && p.matches(at), err
}

// ReadBelow reads a file of a project where these paths may be read.
func ReadBelow(project string, granted []string, at string) ([]byte, error) {
	p := newPlace(project, granted, nil, nil)
	defer p.close()
	return p.read(at, 0, MaxRead)
}
