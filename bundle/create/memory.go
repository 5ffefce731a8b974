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

// A Memory remembers that the files of a bundle were checked and found good, so that Create need not read them again
// as long as everything is as it was. Verifying or running a bundle never uses it.
type Memory struct {
	admission.Memory
	// Under names whatever else an answer depends on: this rye, and what is in the spaces in Options.Below. Without
	// it nothing is remembered.
	Under cas.Digest
}

// state names everything that decides whether files are good, but the policy and the time. It is called when the files
// are known.
func (c *creation) state() cas.Digest {
	if c.Memory == nil {
		return cas.Digest{}
	}
	h := cas.NewHasher()
	w := bufio.NewWriterSize(h, 32<<10) // a hash takes much at once far faster than little
	text := func(s string) {
		w.Write(binary.BigEndian.AppendUint32(w.AvailableBuffer(), uint32(len(s))))
		w.WriteString(s)
	}
	w.Write(c.Memory.Under[:])
	text(c.Recipe.ID)
	for _, a := range c.Recipe.AllowSecret {
		text(a.Glob.String())
	}
	text("files")
	for i := range c.files {
		f := &c.files[i]
		text(f.Path)
		w.Write(f.Digest[:])
		w.WriteByte(byte(f.Mode))
	}
	text("left")
	for _, path := range c.left {
		text(path)
	}
	w.Flush()
	return h.Digest()
}

// recall takes from memory which files are items, and reports whether they are all good.
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
	b := c.old // which was named by the digest of its bytes when it was read
	if b == nil || b.ID != doc {
		if b, err = c.stored(ctx, doc); err != nil {
			return false
		}
	}
	if !slices.EqualFunc(b.Files, c.files, func(a, b manifest.File) bool {
		return a.Path == b.Path && a.Digest == b.Digest && a.Mode == b.Mode
	}) {
		return false
	}
	c.files = b.Files
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
