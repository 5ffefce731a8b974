package registry

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"strings"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/registry/blobs"
	client "github.com/rye-build/rye/lock/registry"
	"github.com/rye-build/rye/manifest/tlog"
)

// A Mirrored says what Mirror has changed.
type Mirrored struct {
	Copied  int   `json:"copied"`
	Bytes   int64 `json:"bytes"`
	Removed int   `json:"removed"`
}

// public are the names and prefixes of what clients read, in the order in which a copy is written: an index names only
// what is there already.
var public = []string{"archives/", "documents/", client.LogDir + "/tile/", "proofs/", "rotations/",
	client.LogDir + "/" + tlog.CheckpointFile, client.DescriptionFile, "index/", client.AdvisoriesFile}

// Mirror brings a copy of the public files up to date. Any web server can serve it, and clients verify it as they do
// the registry. What the registry has removed is removed there.
func (r *Registry) Mirror(ctx context.Context, to blobs.Store) (*Mirrored, error) {
	r.flushing.Lock() // the files are those of one state
	defer r.flushing.Unlock()
	done, here := &Mirrored{}, map[string]bool{}
	for _, prefix := range public {
		for info, err := range r.o.Blobs.List(ctx, prefix) {
			if err != nil {
				return done, err
			}
			here[info.Name] = true
			if err := r.mirror(ctx, to, info, done); err != nil {
				return done, err
			}
		}
	}
	for _, prefix := range []string{"archives/", "proofs/"} {
		for info, err := range to.List(ctx, prefix) {
			if err != nil {
				return done, err
			}
			if here[info.Name] {
				continue
			}
			if err := to.Remove(ctx, info.Name); err != nil {
				return done, err
			}
			done.Removed++
		}
	}
	return done, nil
}

// mirror copies one file, unless it is there.
func (r *Registry) mirror(ctx context.Context, to blobs.Store, info blobs.Info, done *Mirrored) error {
	file, err := r.o.Blobs.Open(ctx, info.Name)
	if err != nil {
		return err
	}
	defer file.Close()
	if strings.HasPrefix(info.Name, "archives/") || strings.HasPrefix(info.Name, client.LogDir+"/tile/") {
		err := to.Create(ctx, info.Name, file, file.Size)
		if fault.CodeOf(err) == fault.Conflict {
			return nil
		}
		if err == nil {
			done.Copied++
			done.Bytes += file.Size
		}
		return err
	}
	b, err := readAll(file, file.Size)
	if err != nil {
		return err
	}
	if old, err := to.Open(ctx, info.Name); err == nil {
		there, err := readAll(old, file.Size)
		if err == nil && bytes.Equal(there, b) {
			return nil
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	done.Copied++
	done.Bytes += file.Size
	return to.Replace(ctx, info.Name, b)
}
