package stores

import (
	"context"
	"errors"
	"io"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/disk"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
)

type storeCatRun struct{ objectArg }

// A storeCatAnswer carries the bytes, under --json only: otherwise they are streamed.
type storeCatAnswer struct {
	Kind   string     `json:"kind"`
	Digest cas.Digest `json:"digest"`
	Size   int64      `json:"size"`
	Bytes  []byte     `json:"bytes"` // base64
}

func (storeCatAnswer) Text(*cli.Terminal) {}

func (c *storeCatRun) Run(ctx context.Context, app *cli.App) (ans cli.Answer, err error) {
	hasher := cas.NewHasher()
	var written int64
	err = c.read(ctx, app, cas.Blob, func(s *disk.Store, id cas.ID) error {
		object, err := s.Get(ctx, id)
		if err != nil {
			return err
		}
		defer object.Close()
		if app.Term.Json {
			if object.Size > mostInReply {
				return fault.New(fault.Limit, "the object is too large for --json").
					Try("rye store cat " + fault.Quote(c.Object) + " >object")
			}
			b, err := io.ReadAll(object)
			ans = storeCatAnswer{id.Kind.String(), id.Digest, object.Size, b}
			return err
		}
		// After a healed object, skip the bytes that were already written.
		if _, err := io.CopyN(io.Discard, object, written); err != nil {
			return err
		}
		n, err := io.Copy(io.MultiWriter(app.Term.Data, hasher), object)
		written += n
		if err == nil && hasher.Digest() != id.Digest {
			err = &cas.DamagedError{ID: id, Found: hasher.Digest()}
		}
		return err
	})
	if err != nil {
		return nil, errors.Join(app.Term.Data.Flush(), err)
	}
	return ans, nil
}

// mostInReply is how many bytes of an object one line of JSON may carry.
const mostInReply = 16 << 20
