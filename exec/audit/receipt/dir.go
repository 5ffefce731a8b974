package receipt

import (
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/manifest/attest"
)

// A Dir is a directory of receipts, named by their digests. The first Keep creates it.
type Dir string

func (d Dir) path(digest cas.Digest) string {
	return filepath.Join(string(d), hex.EncodeToString(digest[:])+".json")
}

// Get returns the receipt with a digest, or fs.ErrNotExist.
func (d Dir) Get(digest cas.Digest) ([]byte, error) {
	return osfile.ReadSmall(d.path(digest), attest.MaxEnvelope)
}

// Keep writes a receipt unless the directory has it.
func (d Dir) Keep(receipt []byte) error {
	err := os.MkdirAll(string(d), 0o700)
	if err == nil {
		err = osfile.WriteFile(d.path(cas.Sum(receipt)), 0o600, true, osfile.BytesOf(receipt))
	}
	if err == nil || errors.Is(err, fs.ErrExist) {
		return nil
	}
	return fault.Wrap(err, "a receipt can't be kept in %q: %v", string(d), err)
}

// A Keeper stores the receipts of the child calls of one call. It is safe for concurrent use.
type Keeper struct {
	Dir Dir

	mu  sync.Mutex
	err error
}

// Keep stores a receipt. After a failure it does nothing.
func (k *Keeper) Keep(receipt []byte) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.err == nil {
		k.err = k.Dir.Keep(receipt)
	}
}

// Err returns the first failure of Keep.
func (k *Keeper) Err() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.err
}
