package bundle

import (
	"context"
	"io"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/manifest/tlog"
)

// ProofRef is the ref of the blob with the proof that a log has a bundle. Logs are told apart by the first digits of
// the digests of their names.
func ProofRef(id cas.Digest, log string) string {
	name := cas.Sum([]byte(log)).String()[len("blake3:"):]
	return ProofRefs(id) + name[:16]
}

// ProofRefs is how the refs of all proofs of a bundle begin.
func ProofRefs(id cas.Digest) string { return "proofs/" + id.String()[len("blake3:"):] + "/" }

// ReadProof reads the proof that a store has of a bundle in a log. It is fs.ErrNotExist without one, and nothing
// vouches for it.
func ReadProof(ctx context.Context, store cas.Getter, refs Refs, id cas.Digest, log string) (*tlog.Proof, error) {
	at, err := refs.Ref(ProofRef(id, log))
	if err != nil {
		return nil, err
	}
	return ProofAt(ctx, store, at)
}

// ProofAt reads the proof in a blob.
func ProofAt(ctx context.Context, store cas.Getter, blob cas.ID) (*tlog.Proof, error) {
	o, err := store.Get(ctx, blob)
	if err != nil {
		return nil, err
	}
	defer o.Close()
	text, err := io.ReadAll(io.LimitReader(o, tlog.MaxProof+1))
	if err != nil {
		return nil, err
	}
	return tlog.ParseProof(text)
}
