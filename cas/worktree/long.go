package worktree

import (
	"errors"
	"io"
	"os"

	"github.com/rye-build/rye/cas"
)

// writeLong writes a file that doesn't fit into memory and then, once its digest is verified, copies it to the other
// places. The system copies it without passing the bytes through this process, and shares them if the file system can.
func (c *checkout) writeLong(object cas.Object, uniqueIDs *uniqueIDs, first int32) (err error) {
	f := &c.window[first]
	file, err := f.d.t.create(f.e.Name, f.e.Mode)
	if err != nil {
		return located(join(f.d.rel, f.e.Name), err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if err := c.copyLong(file, object); err != nil {
		return err
	}
	c.progress(1, 0)
	for at := uniqueIDs.next[first]; at >= 0; at = uniqueIDs.next[at] {
		f := &c.window[at]
		if err := clone(f, file); err != nil {
			return located(join(f.d.rel, f.e.Name), err)
		}
		c.progress(1, object.Size)
	}
	return nil
}

func (c *checkout) copyLong(w io.Writer, object cas.Object) error {
	buf := c.buffers.Get().(*[readWhole]byte)
	defer c.buffers.Put(buf)
	for left := object.Size; left > 0; {
		n, err := io.ReadFull(object, buf[:min(left, readWhole)])
		if err != nil {
			return damaged(object, err)
		}
		if _, err := w.Write(buf[:n]); err != nil {
			return err
		}
		left -= int64(n)
		c.progress(0, int64(n))
	}
	return atEnd(object)
}

// clone creates a file with the bytes of a file that was just written.
func clone(f *outFile, from *os.File) (err error) {
	if _, err := from.Seek(0, io.SeekStart); err != nil {
		return err
	}
	w, err := f.d.t.create(f.e.Name, f.e.Mode)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	n, err := w.ReadFrom(from)
	if err == nil && n != f.e.Size {
		err = io.ErrUnexpectedEOF
	}
	return err
}
