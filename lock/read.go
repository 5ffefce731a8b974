package lock

import (
	"errors"
	"io/fs"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/cas"
)

var errNoFile = errors.New("not a regular file")

// ModeOf returns the mode of a file in a space: executable or not.
func ModeOf(s *ai.Space, name string) (cas.Mode, error) {
	info, err := fs.Lstat(s.FS, name)
	switch {
	case err != nil:
		return 0, err
	case !info.Mode().IsRegular():
		return 0, &fs.PathError{Op: "read", Path: name, Err: errNoFile}
	case s.Exec != nil && s.Exec(name, info), s.Exec == nil && info.Mode().Perm()&0o100 != 0:
		return cas.Exec, nil
	}
	return cas.File, nil
}
