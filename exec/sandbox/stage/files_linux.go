package stage

import (
	"os"
	"syscall"
	"unsafe"
)

// facts are those of a file, as the kernel's struct statx has them.
type facts struct {
	_            [4]uint32
	links        uint32
	uid, gid     uint32
	mode         uint16
	_            uint16
	inode, size  uint64
	_            [2]uint64
	_, born      moment
	_, written   moment
	_            [2]uint32
	major, minor uint32
	_            [14]uint64
}

// A moment is a time of a file.
type moment struct {
	seconds     int64
	nanoseconds uint32
	_           int32
}

func (m moment) after(other moment) bool {
	if m.seconds != other.seconds {
		return m.seconds > other.seconds
	}
	return m.nanoseconds > other.nanoseconds
}

func (f *facts) kind() uint16 { return f.mode & syscall.S_IFMT }

func (f *facts) same(other *facts) bool {
	return f.inode == other.inode && f.major == other.major && f.minor == other.minor
}

func (f *facts) stub() bool {
	return f.mode&0o7777 == stubMode && (f.kind() == syscall.S_IFDIR || f.kind() == syscall.S_IFREG && f.size == 0)
}

func stat(dir int, name string) (facts facts, err error) {
	path, err := syscall.BytePtrFromString(name)
	if err != nil {
		return facts, err
	}
	_, _, errno := syscall.Syscall6(sysStatx, uintptr(dir), uintptr(unsafe.Pointer(path)), atSymlinkNofollow, statxAll,
		uintptr(unsafe.Pointer(&facts)), 0)
	return facts, fail(errno)
}

func fail(errno syscall.Errno) error {
	if errno != 0 {
		return errno
	}
	return nil
}

// openDir opens a directory, and no link to one.
func openDir(dir int, name string) (int, error) {
	fd, err := syscall.Openat(dir, name,
		syscall.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW|syscall.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	return fd, nil
}

// names returns the names of the entries of a directory.
func names(dir int) ([]string, error) {
	fd, err := openDir(dir, ".")
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(fd), "directory")
	defer file.Close()
	return file.Readdirnames(-1)
}

// mountOver mounts a file or directory over another one, and returns the root of the mount. Links aren't followed, and
// can be mounted themselves.
func mountOver(from int, name string, to int, over string, readOnly bool) (int, error) {
	source, err := syscall.BytePtrFromString(name)
	if err != nil {
		return -1, err
	}
	target, err := syscall.BytePtrFromString(over)
	if err != nil {
		return -1, err
	}
	flags := uintptr(openTreeClone | syscall.O_CLOEXEC | atSymlinkNofollow)
	if name == "" {
		flags |= atEmptyPath
	} else {
		flags |= atRecursive
	}
	tree, _, errno := syscall.Syscall(sysOpenTree, uintptr(from), uintptr(unsafe.Pointer(source)), flags)
	if errno != 0 {
		return -1, errno
	}
	empty := new(byte)
	if readOnly {
		attr := struct{ set, clear, propagation, namespace uint64 }{set: mountAttrRdonly}
		_, _, errno = syscall.Syscall6(sysMountSetattr, tree, uintptr(unsafe.Pointer(empty)), atEmptyPath|atRecursive,
			uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr), 0)
	}
	if errno == 0 {
		flags = moveMountFromEmpty
		if over == "" {
			flags |= moveMountToEmpty
		}
		_, _, errno = syscall.Syscall6(sysMoveMount, tree, uintptr(unsafe.Pointer(empty)), uintptr(to),
			uintptr(unsafe.Pointer(target)), flags, 0)
	}
	if errno != 0 {
		syscall.Close(int(tree))
		return -1, errno
	}
	return int(tree), nil
}

// closed closes what mountOver returns.
func closed(fd int, err error) error {
	if err == nil {
		syscall.Close(fd)
	}
	return err
}

// between makes a system call with two names in two directories.
func between(call uintptr, from int, name string, to int, as string, flags uintptr) error {
	source, err := syscall.BytePtrFromString(name)
	if err != nil {
		return err
	}
	target, err := syscall.BytePtrFromString(as)
	if err != nil {
		return err
	}
	_, _, errno := syscall.Syscall6(call, uintptr(from), uintptr(unsafe.Pointer(source)), uintptr(to),
		uintptr(unsafe.Pointer(target)), flags, 0)
	return fail(errno)
}

func rename(from int, name string, to int, as string, flags uintptr) error {
	return between(sysRenameat2, from, name, to, as, flags)
}

func linkat(from int, name string, to int, as string) error {
	return between(syscall.SYS_LINKAT, from, name, to, as, 0)
}

func symlinkat(target string, dir int, name string) error {
	to, err := syscall.BytePtrFromString(target)
	if err != nil {
		return err
	}
	path, err := syscall.BytePtrFromString(name)
	if err != nil {
		return err
	}
	_, _, errno := syscall.Syscall(syscall.SYS_SYMLINKAT, uintptr(unsafe.Pointer(to)), uintptr(dir),
		uintptr(unsafe.Pointer(path)))
	return fail(errno)
}

func readlinkat(dir int, name string) (string, error) {
	path, err := syscall.BytePtrFromString(name)
	if err != nil {
		return "", err
	}
	var to [256]byte
	n, _, errno := syscall.Syscall6(syscall.SYS_READLINKAT, uintptr(dir), uintptr(unsafe.Pointer(path)),
		uintptr(unsafe.Pointer(&to)), uintptr(len(to)), 0, 0)
	if errno != 0 {
		return "", errno
	}
	return string(to[:n]), nil
}

func unlinkat(dir int, name string, flags uintptr) error {
	path, err := syscall.BytePtrFromString(name)
	if err != nil {
		return err
	}
	_, _, errno := syscall.Syscall(syscall.SYS_UNLINKAT, uintptr(dir), uintptr(unsafe.Pointer(path)), flags)
	return fail(errno)
}
