package drift

import (
	"bufio"
	"context"
	"io"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/manifest"
)

// This file compares texts regardless of line ends.

// read reads a file of the working tree of any size.
func (d *drift) read(ctx context.Context, name string, w io.Writer) error {
	f, err := d.space.FS.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(w, cas.Until(ctx, f))
	return err
}

// sameText reports whether a file of the working tree and the pinned one differ only in line ends.
func (d *drift) sameText(ctx context.Context, pinned manifest.File) bool {
	o, err := d.Get(ctx, cas.ID{Kind: cas.Blob, Digest: pinned.Digest})
	if err != nil {
		return false
	}
	defer o.Close()
	old, now := newUnix(), newUnix()
	if _, err := io.Copy(old, cas.Until(ctx, o)); err != nil {
		return false
	}
	return d.read(ctx, pinned.Path, now) == nil && old.digest() == now.digest()
}

// A unix writer hashes its input as if all CR LF were LF.
type unix struct {
	h   cas.Hasher
	out *bufio.Writer
	cr  bool // the last byte was CR, and isn't written yet
}

func newUnix() *unix {
	u := &unix{h: cas.NewHasher()}
	u.out = bufio.NewWriter(u.h)
	return u
}

// Write never fails.
func (u *unix) Write(b []byte) (int, error) {
	for _, c := range b {
		if u.cr && c != '\n' {
			u.out.WriteByte('\r')
		}
		if u.cr = c == '\r'; !u.cr {
			u.out.WriteByte(c)
		}
	}
	return len(b), nil
}

// digest ends the input.
func (u *unix) digest() cas.Digest {
	if u.cr {
		u.out.WriteByte('\r')
	}
	u.out.Flush()
	return u.h.Digest()
}
