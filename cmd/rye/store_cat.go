package main

import (
	"context"
	"errors"
	"io"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
)

func storeCatCommand() command {
	return command{
		path: "store cat", group: "store", help: "Write an object's bytes, verified.",
		more: "A tree is written as its text. Bytes are hashed as they pass: the exit status is 0 only when all of them " +
			"were the object's.\n\nExamples:\n\n    rye store cat app:README.md\n    rye store cat 9f2c41d07a33",
		aka:    []string{"cat", "store get"},
		new:    func() runner { return new(storeCatRun) },
		schema: "store-cat/1", output: storeCatAnswer{},
	}
}

type storeCatRun struct {
	Object string `arg:"" help:"A digest, the beginning of one, or a ref; :PATH goes into a tree."`
}

// A storeCatAnswer carries the bytes under --json only; otherwise they stream.
type storeCatAnswer struct {
	Kind   string     `json:"kind"`
	Digest cas.Digest `json:"digest"`
	Size   int64      `json:"size"`
	Bytes  []byte     `json:"bytes"` // base64
}

func (storeCatAnswer) text(*terminal) {}

func (c *storeCatRun) complete(_ context.Context, a *app, _, _ string) []candidate {
	return completeObjects(a)
}

func (c *storeCatRun) run(ctx context.Context, a *app) (answer, error) {
	s, err := a.readStore()
	if err != nil {
		return nil, err
	}
	defer s.Close()
	what, err := resolve(ctx, s, c.Object, cas.Blob, cas.Document, cas.TreeKind)
	if err != nil {
		return nil, err
	}
	o, err := openObject(ctx, s, what.id)
	if err != nil {
		return nil, err
	}
	defer o.Close()
	if a.term.json {
		if o.Size > mostInReply {
			return nil, &fault.Error{Code: fault.Limit, Text: "the object is too large for a line of JSON", Hint: []string{"rye store cat " + fault.Quote(c.Object) + " >FILE"}}
		}
		b, err := io.ReadAll(o)
		return storeCatAnswer{what.id.Kind.String(), what.id.Digest, o.Size, b}, err
	}
	if _, err := io.Copy(a.term.data, o); err != nil {
		return nil, errors.Join(a.term.data.Flush(), err)
	}
	return nil, nil
}

// mostInReply is how many bytes of an object a line of JSON may carry.
const mostInReply = 16 << 20

// readObject returns a whole object that is bounded by what it is: a tree, a document.
func readObject(ctx context.Context, s cas.Getter, id cas.ID) ([]byte, error) {
	o, err := openObject(ctx, s, id)
	if err != nil {
		return nil, err
	}
	defer o.Close()
	return io.ReadAll(o)
}
