package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rye-build/rye/cas/fault"
)

func (s *Store) checkFormat() error {
	path := filepath.Join(s.dir, "format")
	b, err := readFile(path, 4096)
	if errors.Is(err, ErrFormat) {
		return notStore("%q is not a format file", path) // a directory, for example
	}
	if err != nil {
		return err
	}
	format, readers, ok := parseFormat(string(b))
	if !ok {
		return notStore("%q is not a format file", path)
	}
	// A reader may ignore parts that only newer versions know; a writer may not.
	if readers > Format || format < MinReader || format > Format && !s.readOnly {
		return &VersionError{s.dir, format, readers}
	}
	return nil
}

// parseFormat reads a format file. Only a newer format's file may have more than these two lines.
func parseFormat(text string) (format, readers int, ok bool) {
	if n, err := fmt.Sscanf(text, "rye store %d\nreaders %d\n", &format, &readers); n != 2 || err != nil {
		return 0, 0, false
	}
	rest, ok := strings.CutPrefix(text, formatText(format, readers))
	return format, readers, ok && format > 0 && readers > 0 && readers <= format && (rest == "" || format > Format)
}

func formatText(format, readers int) string {
	return fmt.Sprintf("rye store %d\nreaders %d\n", format, readers)
}

// notStore returns the error for a directory that is not a store.
func notStore(format string, args ...any) error {
	return fault.New(fault.Config, "not a store: "+format, args...).Try("rye config --explain")
}

// vacant returns an error if the directory holds anything that an unfinished store would not.
func (s *Store) vacant() error {
	names, err := os.ReadDir(s.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, n := range names {
		if !slices.Contains(folders, n.Name()) {
			if s.checkFormat() == nil {
				return nil // another process has created the store meanwhile
			}
			return notStore("%q holds %q", s.dir, n.Name())
		}
	}
	return nil
}

// folders are the directories of a store. They exist before its format file does.
var folders = []string{"packs", "refs", "tmp", writers, pins}

// create makes an empty store. Several processes may create it at once: each step is repeatable, and the format file,
// which turns the directory into a store, comes last.
func (s *Store) create() error {
	if err := s.makeDir(s.dir); err != nil {
		return err
	}
	for _, d := range folders {
		if err := s.files.mkdir(filepath.Join(s.dir, d)); err != nil {
			return err
		}
	}
	if err := s.files.syncDir(s.dir); err != nil {
		return err
	}
	tmp := filepath.Join(s.dir, "tmp", "format-"+randomName())
	err := s.files.writeFile(filepath.Join(s.dir, "format"), tmp, []byte(formatText(Format, MinReader)))
	if err != nil && s.checkFormat() == nil {
		// Another process created the store, and its janitor removed this process's temporary file as abandoned.
		return s.files.syncDir(s.dir)
	}
	return err
}

// makeDir makes a directory and its missing parents, durably.
func (s *Store) makeDir(dir string) error {
	parent := filepath.Dir(dir)
	if _, err := os.Stat(dir); err == nil || parent == dir {
		return err
	}
	if err := s.makeDir(parent); err != nil {
		return err
	}
	if err := s.files.mkdir(dir); err != nil {
		return err
	}
	return s.files.syncDir(parent)
}
