package source

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/bundle/archive"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/lock/index"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/policy"
)

// A Claim is a signed document's name and the keys of its signers, as its source claims.
type Claim struct {
	Name string // "bundle:acme/base" or "index:acme/bundles"
	Keys []manifest.SignerKey
}

// ReadClaim reads the claim of an archive or an index. place is an address, a file, or the directory of an index.
func ReadClaim(ctx context.Context, fetch Fetcher, place string) (Claim, error) {
	open := func(place string, limit int64) (io.ReadCloser, error) {
		if !strings.Contains(place, "://") {
			return osfile.OpenRegular(place)
		}
		if fetch == nil {
			return nil, &OfflineError{Address: place}
		}
		r, _, err := fetch.Get(ctx, place, limit)
		return r, err
	}
	if fi, err := os.Stat(place); err == nil && fi.IsDir() {
		place = filepath.Join(place, index.File)
	}
	file, err := open(place, index.MaxArchive)
	if err != nil {
		return Claim{}, err
	}
	defer file.Close()
	r := bufio.NewReader(file)
	if first, _ := r.Peek(len(archive.Magic)); string(first) == archive.Magic {
		h, err := archive.ReadHead(ctx, r)
		if err != nil {
			return Claim{}, inSource("", "", place, err)
		}
		return Claim{h.List.Name, h.Keys}, nil
	}
	text, err := io.ReadAll(io.LimitReader(r, index.MaxBytes+1))
	if err != nil {
		return Claim{}, err
	}
	x, err := index.Parse(text)
	if err != nil {
		return Claim{}, inSource("", "", place, err)
	}
	return Claim{x.Name, indexKeys(x, func() (io.ReadCloser, error) {
		return open(index.KeysOf(place), index.MaxKeys)
	})}, nil
}

// indexKeys reads the keys beside an index, or returns nil if they are missing or of another issue.
func indexKeys(x *index.Index, open func() (io.ReadCloser, error)) []manifest.SignerKey {
	r, err := open()
	if err != nil {
		return nil
	}
	defer r.Close()
	text, err := io.ReadAll(io.LimitReader(r, index.MaxKeys+1))
	if err != nil {
		return nil
	}
	keys, err := manifest.ParseSignerKeys(text, x.Signatures)
	if err != nil {
		return nil
	}
	return keys
}

// claimed adds to the refusal of a document its signers, and whose keys they are according to its source.
func (s *Sources) claimed(ctx context.Context, err error, place string, by manifest.Signatures) error {
	no, ok := errors.AsType[*bundle.NotAdmittedError](err)
	if ok && no.From == "" && no.Decision.Code == policy.UntrustedKey {
		c, _ := ReadClaim(ctx, s.o.Fetch, place) // without keys the refusal stays as it is
		no.From, no.Signatures, no.Keys = place, by, c.Keys
	}
	return err
}
