package starlark

import (
	"io"

	"github.com/rye-build/rye/exec/primitive"
	"github.com/rye-build/rye/exec/primitive/worker"
)

// Here runs an action in this process, without a sandbox, as the guest would.
func Here(a *primitive.Action, errs io.Writer) (*primitive.Result, error) {
	q, err := newRequest(a)
	if err != nil {
		return nil, err
	}
	return resultOf(q.run(errs).bytes()), nil
}

// resultOf returns the result of a guest that answers with a value.
func resultOf(text []byte) *primitive.Result {
	r := new(primitive.Result)
	result(r, &worker.End{Kind: worker.Value, Text: text})
	return r
}

// Matches reports whether a pattern matches a path.
func Matches(text, at string) (bool, error) {
	p, err := newPattern(text)
	return err == nil && p.matches(at), err
}

// ReadBelow reads a file of a project in which these paths may be read.
func ReadBelow(project string, granted []string, at string) ([]byte, error) {
	p := newPlace(project, granted, nil, nil)
	defer p.close()
	return p.read(at, 0, MaxRead)
}
