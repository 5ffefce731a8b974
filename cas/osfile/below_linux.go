package osfile

import (
	"errors"
	"io"
	"io/fs"

	"golang.org/x/sys/unix"
)

// createBelow makes a file in a directory of the site, through no link, with one call of the system where os.Root
// takes several for each directory on the way. Where there is no such call, or it is forbidden, that is
// errors.ErrUnsupported.
func (s *site) createBelow(name string, mode fs.FileMode, write func(io.Writer) error) error {
	how := unix.OpenHow{Flags: unix.O_WRONLY | unix.O_CREAT | unix.O_EXCL | unix.O_CLOEXEC, Mode: uint64(mode.Perm()),
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS}
	fd := -1
	err := again(func() (err error) {
		fd, err = unix.Openat2(int(s.dir.Fd()), name, &how)
		return err
	})
	switch err {
	case nil:
	case unix.ENOSYS, unix.EPERM, unix.EAGAIN:
		return errors.ErrUnsupported
	default:
		return &fs.PathError{Op: "open", Path: name, Err: err}
	}
	f := &newFile{fd, name}
	err = write(f)
	if err == nil {
		err = s.setMode(f, mode)
	}
	if cerr := unix.Close(fd); err == nil && cerr != nil && cerr != unix.EINTR { // after which it is closed, too
		err = &fs.PathError{Op: "close", Path: name, Err: cerr}
	}
	return err
}

// setMode gives a file the mode that it was made with, if this process has a mask or its directory a rule that changes
// it. All files of a site have the same.
func (s *site) setMode(f *newFile, mode fs.FileMode) error {
	asMade, known := s.modes.Load(mode)
	if !known {
		var st unix.Stat_t
		if err := again(func() error { return unix.Fstat(f.fd, &st) }); err != nil {
			return &fs.PathError{Op: "stat", Path: f.name, Err: err}
		}
		asMade = fs.FileMode(st.Mode).Perm() == mode.Perm()
		s.modes.Store(mode, asMade)
	}
	if asMade.(bool) {
		return nil
	}
	if err := again(func() error { return unix.Fchmod(f.fd, uint32(mode.Perm())) }); err != nil {
		return &fs.PathError{Op: "chmod", Path: f.name, Err: err}
	}
	return nil
}

// A newFile is written.
type newFile struct {
	fd   int
	name string
}

func (f *newFile) Write(b []byte) (done int, err error) {
	for done < len(b) {
		n := 0
		if err := again(func() (err error) {
			n, err = unix.Write(f.fd, b[done:])
			return err
		}); err != nil {
			return done, &fs.PathError{Op: "write", Path: f.name, Err: err}
		}
		done += n
	}
	return done, nil
}
