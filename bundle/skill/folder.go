package skill

import (
	"errors"
	"io"
	"io/fs"
	"path"
	"strings"

	"github.com/rye-build/rye/cas/fault"
)

// A Listed is a file that ReadFolder may read.
type Listed struct {
	Path string
	Size int64
	Exec bool
}

// ReadFolder reads the skill in a folder of a file system. all are the files in it, and files above it among which are
// its licences.
func ReadFolder(root fs.FS, dir string, all []Listed) (*Skill, error) {
	source := folderSource{root: root}
	for _, f := range all {
		above := !strings.HasPrefix(f.Path, dir+"/")
		entry := entry{path: f.Path, size: f.Size, kind: plain}
		if f.Exec {
			entry.kind = executable
		}
		if above && (path.Base(f.Path) == Main || !mayBeCarried(&entry)) {
			continue
		}
		source.entries = append(source.entries, entry)
	}
	found, err := find(source, false)
	if err != nil {
		return nil, err
	}
	return found[0], found[0].Err
}

// A folderSource is one skill and the licences above it.
type folderSource struct {
	root    fs.FS
	entries []entry
}

func (s folderSource) list() ([]entry, error) { return s.entries, nil }

func (s folderSource) read(all []entry) error {
	for i := range all {
		if !all[i].wanted {
			continue
		}
		if err := s.one(&all[i]); err != nil {
			return err
		}
	}
	return nil
}

func (s folderSource) one(entry *entry) error {
	file, err := s.root.Open(entry.path)
	if err != nil {
		return err
	}
	defer file.Close()
	return entry.take(file)
}

// take reads an entry, which has exactly its size.
func (e *entry) take(file fs.File) error {
	e.b = make([]byte, e.size)
	_, err := io.ReadFull(file, e.b)
	if n, more := file.Read(make([]byte, 1)); err != nil && !errors.Is(err, io.EOF) &&
		!errors.Is(err, io.ErrUnexpectedEOF) {
		return err
	} else if err != nil || n > 0 || more != io.EOF {
		return fault.New(fault.Conflict, "%q changed while it was read", e.path).On("file", e.path)
	}
	return nil
}
