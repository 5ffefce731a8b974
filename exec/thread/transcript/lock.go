package transcript

import (
	"errors"
	"path/filepath"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
)

// LockFile has the bytes of the lock that a thread began with. The first line has its digest.
const LockFile = "rye.lock"

// MaxLock bounds the lock file, in bytes.
const MaxLock = 256 << 20

// LockOf returns the digest of the lock that the thread in a directory began with. It is zero without a lock, and
// for a damaged record, which Verify reports.
func LockOf(dir string) (cas.Digest, error) {
	for e, err := range Read(dir) {
		var started Started
		if _, bad := errors.AsType[*Problem](err); bad {
			break
		}
		if err == nil {
			err = e.Decode(&started)
		}
		return started.Lock, err
	}
	return cas.Digest{}, nil
}

// ReadLock returns the bytes of the lock that the thread in a directory began with. It returns nil without a lock,
// and fs.ErrNotExist for a directory of an older rye, which didn't keep the lock.
func ReadLock(dir string) ([]byte, error) {
	want, err := LockOf(dir)
	if err != nil || want.IsZero() {
		return nil, err
	}
	path := filepath.Join(dir, LockFile)
	b, err := osfile.ReadSmall(path, MaxLock)
	if err != nil {
		return nil, err
	}
	if found := cas.Sum(b); found != want {
		return nil, fault.New(fault.Integrity, "%q is not the lock that the thread began with", path).On("path", path).
			Because("expected "+want.String(), "found    "+found.String())
	}
	return b, nil
}
