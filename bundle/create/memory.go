package create

import (
	"bufio"
	"context"
	"encoding/binary"
	"slices"

	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/admission"
)

// A Memory caches that a bundle's files passed all checks, so that Create needn't read them again while nothing
// changes. Verifying and running a bundle never use it.
type Memory struct {
	admission.Memory
	// Under is a digest of the other inputs of the checks: this rye, and the spaces of Options.Below. Zero disables
	// the Memory.
	Under cas.Digest
}

// state returns a digest of everything that decides whether files pass, except the policy and the time. Call it once
// the files are known.
func (c *creation) state() cas.Digest {
	if c.Memory == nil {
		return cas.Digest{}
	}
	hasher := cas.NewHasher()
	writer := bufio.NewWriterSize(hasher, 32<<10) // hashing large blocks is far faster
	text := func(s string) {
		writer.Write(binary.BigEndian.AppendUint32(writer.AvailableBuffer(), uint32(len(s))))
		writer.WriteString(s)
	}
	writer.Write(c.Memory.Under[:])
	text(c.Recipe.ID)
	for _, a := range c.Recipe.AllowSecret {
		text(a.Glob.String())
	}
	text("files")
	for i := range c.files {
		f := &c.files[i]
		text(f.Path)
		writer.Write(f.Digest[:])
		writer.WriteByte(byte(f.Mode))
	}
	text("left")
	for _, path := range c.left {
		text(path)
	}
	writer.Flush()
	return hasher.Digest()
}

// recall takes the items from memory, and reports whether all files passed then.
func (c *creation) recall(ctx context.Context, now cas.Digest) bool {
	if c.Memory == nil || c.Paranoid {
		return false
	}
	kept, ok := c.Memory.Recall(c.Trust, now)
	if !ok {
		return false
	}
	doc, err := cas.ParseDigest(string(kept))
	if err != nil {
		return false
	}
	bundle := c.old // its file name was the digest of its bytes when it was read
	if bundle == nil || bundle.ID != doc {
		if bundle, err = c.stored(ctx, doc); err != nil {
			return false
		}
	}
	if !slices.EqualFunc(bundle.Files, c.files, func(a, b manifest.File) bool {
		return a.Path == b.Path && a.Digest == b.Digest && a.Mode == b.Mode
	}) {
		return false
	}
	c.files = bundle.Files
	c.result.Remembered = true
	return true
}

// stored reads a bundle's document.
func (c *creation) stored(ctx context.Context, doc cas.Digest) (*bundle.Bundle, error) {
	o, err := c.Store.Get(ctx, cas.ID{Kind: cas.Document, Digest: doc})
	if err != nil {
		return nil, err
	}
	defer o.Close()
	return bundle.Read(o)
}
