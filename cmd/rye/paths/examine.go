package paths

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/manifest/sign"
)

// This file opens files that the command line names.

// Open opens a file named on the command line. It refuses links, because their author chose where they lead.
func Open(a *cli.App, path string) (*os.File, error) {
	if err := RefuseLinks(a, path); err != nil {
		return nil, err
	}
	file, err := osfile.OpenRegular(path)
	if other, ok := errors.AsType[*fault.Error](err); ok {
		other.Code = fault.Validation // a directory is the wrong argument, not an unreadable file
	}
	if errors.Is(err, fs.ErrNotExist) {
		f := fault.Of(err)
		f.Text = fmt.Sprintf("file %q not found", path)
		return nil, f
	}
	if err != nil {
		return nil, err
	}
	opened, err := file.Stat()
	if err == nil {
		var named fs.FileInfo
		if named, err = os.Lstat(path); err == nil && !os.SameFile(opened, named) {
			err = sign.ErrChanged
		}
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// RefuseLinks refuses a path that is a link, or goes through one below the working directory or the project.
func RefuseLinks(a *cli.App, file string) error {
	wd, err := a.Getwd()
	if err != nil {
		return err
	}
	if p, err := Paths(a).OpenProject(); err == nil {
		return osfile.RefuseLinks(file, wd, p.Root)
	}
	return osfile.RefuseLinks(file, wd)
}
