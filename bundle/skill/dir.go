package skill

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/cas/portable"
)

// ReadDir reads the skills in a directory, which is a skill or has some below it. It follows no symbolic link. A hard
// link is a file like any other: nothing tells it from the first name of its file.
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
	err = fs.WalkDir(s.root.FS(), ".", func(p string, info fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case info.IsDir() && p != "." && (info.Name() == ".git" || portable.Droppings(info.Name())):
			all = append(all, entry{path: p}) // so that it is reported as left out
			return fs.SkipDir
		case info.IsDir():
			return nil
		}
		entry := entry{path: p, kind: special}
		fi, err := info.Info()
		if err != nil {
			return err
		}
		switch {
		case fi.Mode()&fs.ModeSymlink != 0:
			entry.kind = link
		case fi.Mode().IsRegular() && fi.Mode().Perm()&0o100 != 0:
			entry.kind = executable
		case fi.Mode().IsRegular():
			entry.kind = plain
		}
		entry.size = fi.Size()
		if all = append(all, entry); len(all) > MaxEntries {
			return refused("files", s.root.Name(), "has more than %d files", MaxEntries)
		}
		return nil
	})
	return all, err
}

func (s dirSource) read(all []entry) error {
	for i := range all {
		if all[i].wanted {
			if err := s.one(&all[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s dirSource) one(entry *entry) error {
	file, err := s.root.OpenFile(entry.path, os.O_RDONLY|osfile.NoFollow|osfile.Nonblock, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	fi, err := file.Stat()
	if err != nil {
		return err
	}
	if !fi.Mode().IsRegular() {
		return refused("special", entry.path, "is not a regular file")
	}
	return entry.take(file)
}

// WriteDir writes the files of a skill into a new folder, which appears only when it is complete.
func WriteDir(dir string, files []File) error {
	missing := func() error {
		_, err := os.Lstat(dir)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		}
		return fault.New(fault.Validation, "%q exists already", dir).From(fs.ErrExist).On("file", dir).On("reason",
			"exists").Because("nothing was written")
	}
	up := filepath.Dir(dir)
	err := missing()
	if err == nil {
		err = os.MkdirAll(up, 0o777)
	}
	if err != nil {
		return err
	}
	sweep(up, time.Now())
	tmp := filepath.Join(up, unfinished+rand.Text())
	if err := os.Mkdir(tmp, 0o777); err != nil {
		return err
	}
	if err = writeInto(tmp, files); err == nil {
		err = missing() // a rename would replace an empty directory
	}
	if err == nil {
		err = os.Rename(tmp, dir)
	}
	if err != nil {
		return errors.Join(err, os.RemoveAll(tmp))
	}
	return osfile.SyncDirectory(up)
}

// unfinished is the prefix of incomplete folders. No tree includes such a name.
const unfinished = ".rye-tmp-skill-"

// sweep removes the folders left by processes that crashed, recognized by their age.
func sweep(dir string, now time.Time) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return
	}
	defer root.Close()
	entries, _ := fs.ReadDir(root.FS(), ".")
	for _, e := range entries {
		if fi, err := e.Info(); strings.HasPrefix(e.Name(), unfinished) && err == nil && fi.IsDir() &&
			now.Sub(fi.ModTime()) > osfile.UnfinishedAge {
			_ = root.RemoveAll(e.Name())
		}
	}
}

func writeInto(dir string, files []File) error {
	d, err := osfile.OpenDir(dir, 0o777)
	if err != nil {
		return err
	}
	defer d.Close()
	for i := range files {
		if err := d.Write(files[i].Path, files[i].Perm(), true, files[i].Bytes); err != nil {
			return err
		}
	}
	return nil
}
