package registry

import (
	"bytes"
	"context"
	"errors"
	"io/fs"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/registry/rows"
	client "github.com/rye-build/rye/lock/registry"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/tlog"
)

// rotationRow is the row of the document that replaces a key of the log, by the name of its file.
type rotationRow struct {
	Text string `json:"text"`
	Done bool   `json:"done,omitempty"` // the new key signs, and the old one doesn't any more
}

const rotations = "rotation/"

// Rotate makes the document by which the public log goes on with another key, and shows it to clients. The log still
// signs with the old key: the next Open with the new one changes that. Until then Rotate may be repeated.
// Private logs keep their keys, which are derived from the key of the indexes.
func (r *Registry) Rotate(ctx context.Context, next key.Private) (*client.Rotation, error) {
	if next.Public() == r.public.key.Public() || next.Public() == r.public.indexes.Public() {
		return nil, fault.New(fault.Validation, "the new key of the log is a key that the registry has")
	}
	stopped, err := r.stopped(ctx, r.public)
	if err == nil && stopped != nil {
		err = stopped.fault(r.public)
	}
	if err == nil {
		err = r.flush(ctx, r.public)
	}
	if err != nil {
		return nil, err
	}
	last, err := r.shownCheckpoint(ctx, r.public)
	if err != nil {
		return nil, err
	}
	log, err := tlog.NewKey(r.public.key.Name, next.Public())
	if err != nil {
		return nil, err
	}
	made := &client.Rotation{Registry: r.o.Name, Before: r.public.key, Log: log, Entries: last.Size, Root: last.Root,
		Time: r.now()}
	text, err := made.Append(nil, r.public.signer, next)
	if err != nil {
		return nil, err
	}
	name := client.RotationFile(r.public.key)
	if err := r.o.Rows.Update(ctx, func(in rows.Writer) error {
		if err := r.replaced(in); err != nil {
			return err
		}
		return put(in, rotations+name, rotationRow{Text: string(text)})
	}); err != nil {
		return nil, err
	}
	return made, r.o.Blobs.Replace(ctx, name, text)
}

// replaced returns an error if another key signs for the log by now.
func (r *Registry) replaced(in rows.Reader) error {
	row, err := get[rotationRow](in, rotations+client.RotationFile(r.public.key))
	if err == nil && row != nil && row.Done {
		err = fault.New(fault.Conflict, "the log has another key than this process").
			Because("copy keys/log.pem from the data directory in which the key was replaced, and start again").
			Try("rye docs registry-host")
	}
	return err
}

// rotatedFrom returns the rotation that has replaced a key by that of the log, or nil.
func (r *Registry) rotatedFrom(ctx context.Context, before tlog.Key) (made *client.Rotation, err error) {
	err = r.o.Rows.View(ctx, func(in rows.Reader) error {
		row, err := get[rotationRow](in, rotations+client.RotationFile(before))
		if err != nil || row == nil {
			return err
		}
		if made, err = client.ParseRotation([]byte(row.Text)); err == nil && made.Log != r.public.key {
			made = nil
		}
		return err
	})
	return made, err
}

// takeOver signs again with the new key what the old one has signed, and then says which key the log has. It may be
// repeated after an interruption at any point.
func (r *Registry) takeOver(ctx context.Context, made *client.Rotation) error {
	l := r.public
	text, err := LogFiles{r.o.Blobs, l.dir}.ReadFile(ctx, tlog.CheckpointFile, tlog.MaxCheckpoint)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err == nil {
		checkpoint, err := tlog.Open(text, made.Before)
		if fault.CodeOf(err) == fault.Unsigned {
			checkpoint, err = tlog.Open(text, l.key) // it was interrupted behind this
		}
		if err != nil {
			return err
		}
		if checkpoint, err = r.signed(ctx, l, checkpoint.Size, checkpoint.Root); err != nil {
			return err
		}
		if err := r.o.Blobs.Replace(ctx, l.checkpointFile(), checkpoint.Text); err != nil {
			return err
		}
		if err := r.writeProofs(ctx, l, checkpoint); err != nil {
			return err
		}
	}
	description, err := r.description(l)
	if err != nil {
		return err
	}
	if err := r.o.Blobs.Replace(ctx, l.dir+client.DescriptionFile, description); err != nil {
		return err
	}
	return r.o.Rows.Update(ctx, func(in rows.Writer) error {
		row, err := get[rotationRow](in, rotations+client.RotationFile(made.Before))
		if err != nil || row == nil {
			return err
		}
		row.Done = true
		return put(in, rotations+client.RotationFile(made.Before), row)
	})
}

// showRotations writes the files of rotations that are missing, as after a restore.
func (r *Registry) showRotations(ctx context.Context) error {
	texts := map[string]string{}
	if err := r.o.Rows.View(ctx, func(in rows.Reader) error {
		return each(in, rotations, func(name string, row *rotationRow) (bool, error) {
			texts[name] = row.Text
			return true, nil
		})
	}); err != nil {
		return err
	}
	for name, text := range texts {
		file, err := r.o.Blobs.Open(ctx, name)
		if err == nil {
			there, err := readAll(file, client.MaxRotation)
			if err == nil && bytes.Equal(there, []byte(text)) {
				continue
			}
		} else if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := r.o.Blobs.Replace(ctx, name, []byte(text)); err != nil {
			return err
		}
	}
	return nil
}
