package vendor

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"strings"

	"github.com/rye-build/rye/cas"
)

// proofSuffix is the end of the names of proofs.
const proofSuffix = ".tlog-proof"

// proofName returns the file name of the proof that a log has the bundle with this manifest.
func proofName(id cas.Digest) string { return hex(id) + proofSuffix }

// isProof reports whether a name is that of a proof.
func isProof(name string) bool {
	name, ok := strings.CutSuffix(name, proofSuffix)
	_, rest, digest := cutDigest([]byte(name))
	return ok && digest && len(rest) == 0
}

// Proof returns the file with the proof that a log has the bundle with this manifest, or fs.ErrNotExist. Nothing
// vouches for it.
func (v *Vendor) Proof(id cas.Digest) ([]byte, error) { return v.files.readFile(proofName(id)) }

// WriteProofs makes the directory, which Write has made, hold exactly these proofs, by the manifests of their bundles,
// and returns how many files it has written and removed. Each is replaced as a whole.
func WriteProofs(ctx context.Context, dir string, proofs map[cas.Digest][]byte) (written, removed int, err error) {
	files, err := openFiles(dir)
	if err != nil {
		return 0, 0, err
	}
	defer files.Root.Close()
	return files.writeProofs(ctx, proofs)
}

func (f *files) writeProofs(ctx context.Context, proofs map[cas.Digest][]byte) (written, removed int, err error) {
	list, err := f.list()
	if err != nil {
		return 0, 0, err
	}
	for id, text := range proofs {
		if ctx.Err() != nil {
			return written, removed, context.Cause(ctx)
		}
		name := proofName(id)
		is, err := f.readFile(name)
		if err != nil && !isOurs(err) && !errors.Is(err, fs.ErrNotExist) {
			return written, removed, err
		}
		if err == nil && bytes.Equal(is, text) {
			continue
		}
		err = f.Create(tempOf(name), 0o644, func(to *os.File) error { _, err := to.Write(text); return err })
		if err == nil {
			err = f.Place(tempOf(name), name, false)
		}
		if err != nil {
			return written, removed, err
		}
		written++
	}
	for _, name := range list.proofs {
		id, _, _ := cutDigest([]byte(name))
		if _, wanted := proofs[id]; wanted {
			continue
		}
		if err := f.Remove(name); err != nil {
			return written, removed, err
		}
		removed++
	}
	if written+removed == 0 {
		return 0, 0, nil
	}
	return written, removed, f.SyncDirectory(".")
}
