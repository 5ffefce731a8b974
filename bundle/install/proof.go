package install

import (
	"bytes"
	"context"
	"strings"

	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/disk"
	"github.com/rye-build/rye/manifest/tlog"
)

// KeepProof keeps the proof that a log has a bundle, instead of an earlier one of that log. It verifies nothing.
func KeepProof(ctx context.Context, store Store, id cas.Digest, proof *tlog.Proof) error {
	batch, err := store.Batch(ctx)
	if err != nil {
		return err
	}
	defer batch.Close() // after the ref is set: until then gc keeps the blob
	info, err := batch.Put(ctx, cas.Blob, bytes.NewReader(proof.Append(nil)))
	if err == nil {
		err = batch.Commit(ctx)
	}
	if err != nil {
		return err
	}
	return putRef(ctx, store, bundle.ProofRef(id, proof.Origin()), info.ID)
}

// Proofs returns the proofs that a store has of a bundle, of one log each. It leaves out unreadable ones.
func Proofs(ctx context.Context, store *disk.Store, id cas.Digest) ([]*tlog.Proof, error) {
	refs, err := store.Refs()
	if err != nil && len(refs) == 0 {
		return nil, err
	}
	var all []*tlog.Proof
	for _, ref := range refs {
		if !strings.HasPrefix(ref.Name, bundle.ProofRefs(id)) {
			continue
		}
		if proof, err := bundle.ProofAt(ctx, store, ref.ID); err == nil {
			all = append(all, proof)
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
	return all, nil
}
