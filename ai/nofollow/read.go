package nofollow

import (
	"bytes"
	"io"
	"io/fs"
	"path"

	"github.com/rye-build/rye/cas/osfile"
)

// ReadSmall reads a whole regular file. The error of one with more than most bytes is osfile.ErrLarge.
func (d *FS) ReadSmall(name string, most int64) ([]byte, error) {
	b, _, err := d.ReadInto(name, nil, most)
	return b, err
}

// ReadInto is ReadSmall into a buffer of the caller, if that is large enough, and returns the file's mode.
func (d *FS) ReadInto(name string, into []byte, most int64) (data []byte, mode fs.FileMode, err error) {
	if !validName(name) {
		return nil, 0, pathError("open", name, fs.ErrInvalid)
	}
	r, done, err := d.in(path.Dir(name))
	if err != nil {
		return nil, 0, pathError("open", name, err)
	}
	defer done()
	if self := r.file(); self != nil && d.seen == nil {
		data, mode, err = readEntry(self, path.Base(name), into, most)
	} else {
		data, mode, err = d.readIn(r, name, most)
	}
	if err != nil {
		return nil, 0, pathError("open", name, err)
	}
	return data, mode, nil
}

// Names lists the names in a directory in no order, without a stat of each.
func (d *FS) Names(dir string) ([]string, error) {
	r, done, err := d.in(dir)
	if err != nil {
		return nil, pathError("readdir", dir, err)
	}
	defer done()
	f, err := r.Open(".")
	if err != nil {
		return nil, pathError("readdir", dir, err)
	}
	defer f.Close()
	names, err := f.Readdirnames(-1)
	if err != nil {
		return nil, pathError("readdir", dir, err)
	}
	return names, nil
}

// readIn reads a file of a directory that isn't kept, or whose reads are recorded.
func (d *FS) readIn(r *folder, name string, most int64) ([]byte, fs.FileMode, error) {
	file, info, err := d.openIn(r, name)
	if err != nil {
		return nil, 0, err
	}
	defer file.Close()
	switch {
	case !info.Mode().IsRegular():
		return nil, 0, ErrSpecial
	case info.Size() > most:
		return nil, 0, osfile.ErrLarge
	}
	var b bytes.Buffer
	b.Grow(int(info.Size()) + bytes.MinRead)
	// A file may have grown since it was opened.
	if _, err := b.ReadFrom(io.LimitReader(file, most+1)); err != nil {
		return nil, 0, err
	}
	if int64(b.Len()) > most {
		return nil, 0, osfile.ErrLarge
	}
	return b.Bytes(), info.Mode(), nil
}
