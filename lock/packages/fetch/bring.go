package fetch

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"strings"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/lock/file"
)

// together is how many files are downloaded in parallel.
const together = 8

// Bring ensures that the store has the files of artifacts, and returns them with digests and sizes. A file must match
// its digest if it has one.
func (r *Registry) Bring(ctx context.Context, all []file.Artifact) ([]file.Artifact, error) {
	out := make([]file.Artifact, len(all))
	copy(out, all)
	missing, err := r.lacking(ctx, all)
	if err != nil || len(missing) == 0 {
		return out, err
	}
	batch, err := r.o.Store.Batch(ctx)
	if err != nil {
		return nil, err
	}
	defer batch.Close()
	failed := cas.Parallel(ctx, together, len(missing), func(ctx context.Context, i int) error {
		return r.bring(ctx, &out[missing[i]], batch)
	})
	// A failure keeps the files that arrived complete.
	if err := cmp.Or(failed, batch.Commit(context.WithoutCancel(ctx))); err != nil {
		return nil, err
	}
	return out, nil
}

// lacking returns the artifacts that the store lacks.
func (r *Registry) lacking(ctx context.Context, all []file.Artifact) (which []int, err error) {
	var ids []cas.ID
	for _, a := range all {
		if !a.Digest.IsZero() {
			ids = append(ids, blob(a))
		}
	}
	missing, err := r.o.Store.Missing(ctx, ids)
	if err != nil {
		return nil, err
	}
	lacking := map[cas.ID]bool{}
	for _, id := range missing {
		lacking[id] = true
	}
	for i, a := range all {
		if a.Digest.IsZero() || lacking[blob(a)] {
			which = append(which, i)
		}
	}
	return which, nil
}

func blob(a file.Artifact) cas.ID { return cas.ID{Kind: cas.Blob, Digest: a.Digest} }

// bring stores one file.
func (r *Registry) bring(ctx context.Context, artifact *file.Artifact, to cas.Batch) error {
	if done, err := r.vendored(ctx, artifact, to); done || err != nil {
		return err
	}
	body, where, err := r.open(ctx, *artifact)
	if err != nil {
		return inPackage(artifact.String(), where, err)
	}
	defer body.Close()
	algorithm, _, _ := strings.Cut(artifact.Source, ":")
	c := &checked{r: cas.Until(ctx, body), hash: newHash(algorithm), want: *artifact, where: where,
		progress: r.o.Progress}
	info, err := to.Put(ctx, cas.Blob, c)
	switch {
	case c.err != nil:
		return inPackage(artifact.String(), where, c.err)
	case err != nil:
		return err
	case !artifact.Digest.IsZero() && info.Digest != artifact.Digest:
		return wrongDigest(artifact.String(), where, artifact.Digest.String(), info.Digest.String())
	}
	artifact.Digest, artifact.Size = info.Digest, info.Size
	return nil
}

// vendored stores a vendored file and reports whether that succeeded. If the file is damaged, the registry may have
// it.
func (r *Registry) vendored(ctx context.Context, a *file.Artifact, to cas.Batch) (bool, error) {
	if r.o.Vendored == nil || a.Digest.IsZero() {
		return false, nil
	}
	o, err := r.o.Vendored.Get(ctx, blob(*a))
	if err != nil {
		return false, nil
	}
	defer o.Close()
	algorithm, _, _ := strings.Cut(a.Source, ":")
	c := &checked{r: o, hash: newHash(algorithm), want: *a, where: "the vendor directory"}
	_, err = to.Put(ctx, cas.Blob, c)
	if c.err != nil {
		err = c.err
	}
	if _, damaged := errors.AsType[*cas.DamagedError](err); damaged {
		return false, nil
	}
	return err == nil, err
}

// A checked reader returns an error instead of io.EOF unless the file has the registry's digest, so that a store
// discards a wrong file.
type checked struct {
	r        io.Reader
	hash     hash.Hash
	want     file.Artifact
	where    string
	progress func(int64)
	read     int64
	err      error // the error of every later Read; nil at the end
}

// Read implements io.Reader.
func (c *checked) Read(b []byte) (int, error) {
	if c.err != nil {
		return 0, c.err
	}
	n, err := c.r.Read(b)
	c.hash.Write(b[:n])
	c.read += int64(n)
	if n > 0 && c.progress != nil {
		c.progress(int64(n))
	}
	switch {
	case err == io.EOF:
		algorithm, _, _ := strings.Cut(c.want.Source, ":")
		if found := algorithm + ":" + hex.EncodeToString(c.hash.Sum(nil)); found != c.want.Source {
			c.err = wrongDigest(c.want.String(), c.where, c.want.Source, found)
			return n, c.err
		}
	case err == nil && c.read > maxFile:
		err = errLarge
		fallthrough
	case err != nil:
		c.err = err
	}
	return n, err
}
