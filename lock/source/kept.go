package source

import (
	"bytes"
	"context"
	"io"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/lock/index"
)

// kept is what the store keeps of registries, for offline use and for conditional requests: one blob for each address,
// so that a text never gets the ETag of another. It implements registry.Keeper.
type kept struct{ *Sources }

// fetchedRef returns the ref of what was kept of an address: its ETag, a line feed, and the text.
func fetchedRef(address string) string { return "fetched/" + hex(address) }

// Kept implements registry.Keeper.
func (k kept) Kept(ctx context.Context, address string) (text []byte, etag string, err error) {
	id, err := k.o.Store.Ref(fetchedRef(address))
	if err != nil {
		return nil, "", err
	}
	o, err := k.o.Store.Get(ctx, id)
	if err != nil {
		return nil, "", err
	}
	defer o.Close()
	b, err := io.ReadAll(io.LimitReader(o, index.MaxBytes+1<<10))
	if err != nil {
		return nil, "", err
	}
	tag, text, ok := bytes.Cut(b, []byte("\n"))
	if !ok {
		return nil, "", fault.New(fault.Integrity, "what is kept of %q has no ETag line", address).On("url", address)
	}
	return text, string(tag), nil
}

// Keep implements registry.Keeper.
func (k kept) Keep(ctx context.Context, address string, text []byte, etag string) error {
	batch, err := k.o.Store.Batch(ctx)
	if err != nil {
		return err
	}
	defer batch.Close() // after the ref is set: until then gc spares the blob
	blob, err := batch.PutBytes(ctx, cas.Blob, append([]byte(etag+"\n"), text...))
	if err == nil {
		err = batch.Commit(ctx)
	}
	if err != nil {
		return err
	}
	return k.keep(ctx, fetchedRef(address), cas.ID{Kind: cas.Blob, Digest: blob})
}
