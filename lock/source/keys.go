package source

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/bundle/archive"
	"github.com/rye-build/rye/bundle/foreign"
	"github.com/rye-build/rye/bundle/plugin"
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

// packedKeys reads the keys of the signers of the plugin in an archive of another program.
func packedKeys(ctx context.Context, r io.Reader) ([]manifest.SignerKey, error) {
	packed, err := plugin.ReadArchive(ctx, r, -1, "")
	if err != nil {
		return nil, err
	}
	text, err := packed.File(ctx, bundle.PluginKeys, maxSigners)
	if text == nil || err != nil {
		return nil, err
	}
	return manifest.ReadSigners(bytes.NewReader(text))
}

// ReadClaim reads the claim of an archive, an index or a project. place is an address, a file, or a directory.
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
	if keys, err := projectKeys(place); keys != nil || err != nil {
		return Claim{Keys: keys}, err
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
	} else if foreign.Is(first) {
		keys, err := packedKeys(ctx, r)
		if err != nil {
			err = inSource("", "", place, err)
		}
		return Claim{Keys: keys}, err
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

// SignersFile is the file below .ai that has the public keys of those who signed what the lock pins.
const SignersFile = "signers.yaml"

// projectKeys reads the keys of the signers of a project or a plugin, or returns nil if place is neither the directory
// of one nor a file in .ai.
func projectKeys(place string) ([]manifest.SignerKey, error) {
	ofPlugin, err := ReadSigners(filepath.Join(place, filepath.FromSlash(bundle.PluginKeys)))
	if ofPlugin != nil || err != nil {
		return ofPlugin, err
	}
	dir := filepath.Join(place, ".ai")
	if in, _, ok := strings.Cut(filepath.ToSlash(place)+"/", "/.ai/"); ok {
		dir = filepath.Join(filepath.FromSlash(in), ".ai")
	}
	return ReadSigners(filepath.Join(dir, SignersFile))
}

// ReadSigners reads a project's list of signers; nil without one.
func ReadSigners(file string) ([]manifest.SignerKey, error) {
	b, err := osfile.ReadIfThere("the list of signers", file, maxSigners)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
			err = nil
		}
		return nil, err
	}
	keys, err := manifest.ReadSigners(bytes.NewReader(b))
	if err != nil {
		return nil, inSource("", "", file, err)
	}
	return keys, nil
}

// maxSigners is the most bytes of a list of signers.
const maxSigners = 1 << 20

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
		at := place
		for _, u := range s.archives.all.found(func(known string) bool { return known == place }) {
			if u != nil {
				at = u.dir
			}
		}
		c, _ := ReadClaim(ctx, s.o.Fetch, at) // without keys the refusal stays as it is
		no.From, no.Signatures, no.Keys = place, by, c.Keys
	}
	return err
}
