package stores

import (
	"context"
	"errors"
	"io"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/places"
)

func StoreCatCommand() cli.Command {
	return cli.Command{
		Path: "store cat", Group: "store", Help: "Write an object's verified bytes.",
		More: "Writes a tree as text. The bytes are hashed while they are written, so only exit status 0 means that all of them " +
			"are right.\n\nExamples:\n\n    rye store cat app:README.md\n    rye store cat 9f2c41d07a33",
		Aka:    []string{"cat", "store get"},
		New:    func() cli.Runner { return new(storeCatRun) },
		Schema: "store-cat/1", Output: storeCatAnswer{},
	}
}

type storeCatRun struct {
	Object string `arg:"" help:"Digest, digest prefix or ref; :PATH selects within a tree."`
}

// A storeCatAnswer carries the bytes under --json only; otherwise they stream.
type storeCatAnswer struct {
	Kind   string     `json:"kind"`
	Digest cas.Digest `json:"digest"`
	Size   int64      `json:"size"`
	Bytes  []byte     `json:"bytes"` // base64
}

func (storeCatAnswer) Text(*cli.Terminal) {}

func (c *storeCatRun) Complete(_ context.Context, a *cli.App, _, _ string) []cli.Candidate {
	return places.CompleteObjects(a)
}

func (c *storeCatRun) Run(ctx context.Context, a *cli.App) (cli.Answer, error) {
	s, err := places.ReadStore(a)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	what, err := places.Resolve(ctx, s, c.Object, cas.Blob, cas.Document, cas.TreeKind)
	if err != nil {
		return nil, err
	}
	o, err := s.Get(ctx, what.Id)
	if err != nil {
		return nil, err
	}
	defer o.Close()
	if a.Term.Json {
		if o.Size > mostInReply {
			return nil, &fault.Error{Code: fault.Limit, Text: "the object is too large for --json", Hint: []string{"rye store cat " + fault.Quote(c.Object) + " >FILE"}}
		}
		b, err := io.ReadAll(o)
		return storeCatAnswer{what.Id.Kind.String(), what.Id.Digest, o.Size, b}, err
	}
	if _, err := io.Copy(a.Term.Data, o); err != nil {
		return nil, errors.Join(a.Term.Data.Flush(), err)
	}
	return nil, nil
}

// mostInReply is how many bytes of an object a line of JSON may carry.
const mostInReply = 16 << 20
