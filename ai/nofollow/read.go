package nofollow

import (
	"bytes"
	"io"
	"io/fs"
	"path"

	"github.com/rye-build/rye/cas/osfile"
)

// ReadSmall reads a regular file whole. One that has more than so many bytes is an osfile.ErrLarge.
func (d *FS) ReadSmall(name string, most int64) (b []byte, err error) {
	if !validName(name) {
		return nil, pathError("open", name, fs.ErrInvalid)
	}
	r, done, err := d.in(path.Dir(name))
	if err != nil {
		return nil, pathError("open", name, err)
	}
	defer done()
	if self := r.file(); self != nil && d.seen == nil {
		b, err = readEntry(self, path.Base(name), most)
	} else {
		b, err = d.readIn(r, name, most)
	}
	if err != nil {
		return nil, pathError("open", name, err)
	}
	return b, nil
}

// readIn reads a file of a directory that nothing is known of but its Root, or with a note of what was seen.
func (d *FS) readIn(r *folder, name string, most int64) ([]byte, error) {
	f, info, err := d.openIn(r, name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	switch {
	case !info.Mode().IsRegular():
		return nil, ErrSpecial
	case info.Size() > most:
		return nil, osfile.ErrLarge
	}
	var b bytes.Buffer
	b.Grow(int(info.Size()) + bytes.MinRead)
	// A file may have grown since it was opened.
	if _, err := b.ReadFrom(io.LimitReader(f, most+1)); err != nil {
		return nil, err
	}
	if int64(b.Len()) > most {
		return nil, osfile.ErrLarge
	}
	return b.Bytes(), nil
}
