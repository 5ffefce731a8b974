package osfile

import (
	"errors"
	"io"
	"io/fs"

	"golang.org/x/sys/unix"
)

// createBelow creates a file in a directory of the site and follows no link. It needs one system call; os.Root
// needs several for each directory of the path. It returns errors.ErrUnsupported if the call is missing or
// forbidden.
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
	if cerr := unix.Close(fd); err == nil && cerr != nil && cerr != unix.EINTR { // EINTR closes it too
		err = &fs.PathError{Op: "close", Path: name, Err: cerr}
	}
	return err
}

// setMode sets the mode of a new file if the process's umask or a default ACL of the directory has changed it. It
// checks only one file of each mode, because all files of a site have the same umask and ACL.
func (s *site) setMode(newFile *newFile, mode fs.FileMode) error {
	asMade, known := s.modes.Load(mode)
	if !known {
		var st unix.Stat_t
		if err := again(func() error { return unix.Fstat(newFile.fd, &st) }); err != nil {
			return &fs.PathError{Op: "stat", Path: newFile.name, Err: err}
		}
		asMade = fs.FileMode(st.Mode).Perm() == mode.Perm()
		s.modes.Store(mode, asMade)
	}
	if asMade.(bool) {
		return nil
	}
	if err := again(func() error { return unix.Fchmod(newFile.fd, uint32(mode.Perm())) }); err != nil {
		return &fs.PathError{Op: "chmod", Path: newFile.name, Err: err}
	}
	return nil
}

// A newFile is a file that is being written.
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
