package osfile

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// In is a directory that no operation leaves, even through links. Names in it use the system's separator, or slashes.
type In struct {
	Root *os.Root
	Hook Hook // watches each step, also "rename" and "remove"; callers may add their own
	Lazy bool // skip syncs: the caller syncs all files at once, or can make them again
}

// Write creates or replaces a file, atomically and durably. With exclusive, an existing file is fs.ErrExist.
func (in In) Write(name string, mode fs.FileMode, exclusive bool, write func(*os.File) error) error {
	part := filepath.Join(filepath.Dir(name), Unfinished+rand.Text())
	err := in.Create(part, mode, write)
	if err == nil {
		err = in.Place(part, name, exclusive)
	}
	if err != nil {
		in.Root.Remove(part)
		return err
	}
	if in.Lazy {
		return nil
	}
	return in.SyncDirectory(filepath.Dir(name))
}

// Create creates a new file. Its content is durable, its name is not yet.
func (in In) Create(name string, mode fs.FileMode, write func(*os.File) error) error {
	if err := in.Hook.Do("create", name); err != nil {
		return err
	}
	// Nonblock has no effect on a regular file and saves Go four system calls.
	file, err := in.Root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL|Nonblock, mode)
	if err != nil {
		return err
	}
	if err = in.Hook.Do("write", name); err == nil {
		err = write(file)
	}
	if err == nil && !in.Lazy {
		if err = in.Hook.Do("sync", name); err == nil {
			err = file.Sync()
		}
	}
	return errors.Join(err, file.Close())
}

// Place renames a file. With exclusive, an existing file is fs.ErrExist.
func (in In) Place(from, to string, exclusive bool) error {
	if err := in.Hook.Do("rename", to); err != nil || !exclusive {
		if err == nil {
			err = in.Root.Rename(from, to)
		}
		return err
	}
	if err := in.Root.Link(from, to); err != nil { // a link never replaces a file
		return err
	}
	return in.Root.Remove(from)
}

// Remove removes a file or an empty directory.
func (in In) Remove(name string) error {
	if err := in.Hook.Do("remove", name); err != nil {
		return err
	}
	return in.Root.Remove(name)
}

// SyncDirectory makes the names in a directory durable.
func (in In) SyncDirectory(dir string) error {
	if err := in.Hook.Do("syncdir", dir); err != nil {
		return err
	}
	return SyncDirectoryIn(in.Root, dir)
}

// Sweep is the function Sweep for a directory below in.
func (in In) Sweep(dir string, now time.Time) {
	d, err := in.Root.Open(dir)
	if err != nil {
		return
	}
	defer d.Close()
	names, _ := d.Readdirnames(-1) // ReadDir would stat each file
	for _, base := range names {
		if !strings.HasPrefix(base, Unfinished) {
			continue
		}
		name := filepath.Join(dir, base)
		if strings.HasPrefix(base, sitePrefix) {
			sweepSite(in.Root, name)
			continue
		}
		if fi, err := in.Root.Lstat(name); err == nil && fi.Mode().IsRegular() &&
			now.Sub(fi.ModTime()) > UnfinishedAge {
			in.Root.Remove(name)
		}
	}
}
