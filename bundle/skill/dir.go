package skill

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"strconv"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/cas/portable"
)

func itoa(n int) string { return strconv.Itoa(n) }

// ReadDir reads the skills in a directory: it is one, or has some below it. No link in it is followed.
func ReadDir(dir string) ([]*Skill, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return find(dirSource{root}, false)
}

type dirSource struct{ root *os.Root }

func (s dirSource) list() (all []entry, err error) {
	err = fs.WalkDir(s.root.FS(), ".", func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && p != "." && (d.Name() == ".git" || portable.Droppings(d.Name())):
			all = append(all, entry{path: p}) // to be named among what is left out
			return fs.SkipDir
		case d.IsDir():
			return nil
		}
		e := entry{path: p, kind: special}
		fi, err := d.Info()
		if err != nil {
			return err
		}
		switch {
		case fi.Mode()&fs.ModeSymlink != 0:
			e.kind = link
		case fi.Mode().IsRegular() && fi.Mode().Perm()&0o100 != 0:
			e.kind = executable
		case fi.Mode().IsRegular():
			e.kind = plain
		}
		e.size = fi.Size()
		if all = append(all, e); len(all) > MaxEntries {
			return refused("files", s.root.Name(), "has more than %d files", MaxEntries)
		}
		return nil
	})
	return all, err
}

func (s dirSource) read(all []entry, want []bool) error {
	for i := range all {
		if want[i] {
			if err := s.one(&all[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s dirSource) one(e *entry) error {
	f, err := s.root.OpenFile(e.path, os.O_RDONLY|osfile.NoFollow|osfile.Nonblock, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return err
	}
	if !fi.Mode().IsRegular() {
		return refused("special", e.path, "is not a regular file")
	}
	e.b = make([]byte, e.size)
	_, err = io.ReadFull(f, e.b)
	if n, more := f.Read(make([]byte, 1)); err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return err
	} else if err != nil || n > 0 || more != io.EOF {
		return fault.New(fault.Conflict, "%q changed while it was read", e.path).On("file", e.path)
	}
	return nil
}
