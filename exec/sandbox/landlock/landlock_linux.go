package landlock

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// firstRefer and the others are the versions that introduced a feature.
const (
	firstRefer, FirstTruncate, firstNet, firstIoctl, firstScope = 2, 3, 4, 5, 6
)

const (
	// ReadRights allow reading and executing.
	ReadRights = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR
	// fileRights are the rights that a rule for a file, not a directory, may have.
	fileRights = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE |
		unix.LANDLOCK_ACCESS_FS_WRITE_FILE |
		unix.LANDLOCK_ACCESS_FS_TRUNCATE
)

// Version returns the version of the kernel's interface.
func Version() (int, error) {
	v, _, e := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	switch e {
	case 0:
		return int(v), nil
	case unix.ENOSYS:
		return 0, errors.New("not built into this kernel")
	case unix.EOPNOTSUPP:
		return 0, errors.New("not enabled at boot (lsm=)")
	}
	return 0, e
}

// handled returns all rights over files in a version. Landlock allows everything that a ruleset doesn't handle.
func handled(version int) uint64 {
	rights := uint64(unix.LANDLOCK_ACCESS_FS_MAKE_SYM<<1 - 1)
	if version >= firstRefer {
		rights |= unix.LANDLOCK_ACCESS_FS_REFER
	}
	if version >= FirstTruncate {
		rights |= unix.LANDLOCK_ACCESS_FS_TRUNCATE
	}
	if version >= firstIoctl {
		rights |= unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	}
	return rights
}

// WriteRights returns all rights but those over devices.
func WriteRights(version int) uint64 {
	return handled(version) &^ (unix.LANDLOCK_ACCESS_FS_IOCTL_DEV | unix.LANDLOCK_ACCESS_FS_MAKE_CHAR |
		unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK)
}

// A Rule allows reading and executing, or also writing, a path and everything below it.
type Rule struct {
	Path   []byte
	Write  bool
	NoExec bool // nothing there may be executed
	// System marks a path that exists on most systems: it may be missing, or a link.
	System bool
}

// ConnectRights returns the rights of a rule that allows connecting to a port; 0 if a version can't limit that.
func ConnectRights(version int) uint64 {
	if version < firstNet {
		return 0
	}
	return unix.LANDLOCK_ACCESS_NET_CONNECT_TCP
}

// NewRuleset returns a ruleset as an open file. It allows executing program, if it isn't nil. Unless tcp is set, it
// allows no TCP.
func NewRuleset(version int, rules []Rule, program *os.File, tcp bool) (set *os.File, err error) {
	attr := unix.LandlockRulesetAttr{Handled_access_fs: handled(version)}
	if version >= firstNet && !tcp {
		attr.Handled_access_net = unix.LANDLOCK_ACCESS_NET_BIND_TCP | unix.LANDLOCK_ACCESS_NET_CONNECT_TCP
	}
	if version >= firstScope {
		attr.Scoped = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL
	}
	size := unsafe.Offsetof(attr.Quiet_access_fs)
	switch { // older kernels accept only a shorter struct
	case version < firstNet:
		size = unsafe.Offsetof(attr.Handled_access_net)
	case version < firstScope:
		size = unsafe.Offsetof(attr.Scoped)
	}
	fd, _, e := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), size, 0)
	if e != 0 {
		return nil, fmt.Errorf("landlock ruleset: %w", e)
	}
	set = os.NewFile(fd, "landlock ruleset")
	defer func() {
		if err != nil {
			set.Close()
		}
	}()
	for _, r := range rules {
		if err := allowPath(set, version, r); err != nil {
			return nil, err
		}
	}
	if program != nil {
		if err := allow(set, int(program.Fd()), ReadRights&fileRights); err != nil {
			return nil, fmt.Errorf("landlock rule for the program: %w", err)
		}
	}
	return set, nil
}

func allowPath(set *os.File, version int, rule Rule) error {
	open := openPath
	if rule.System {
		open = openLink
	}
	fd, err := open(string(rule.Path))
	if rule.System && (errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EACCES)) {
		return nil
	}
	if err != nil {
		return &os.PathError{Op: "open", Path: string(rule.Path), Err: err}
	}
	defer unix.Close(fd)
	rights := uint64(ReadRights)
	if rule.Write {
		rights = WriteRights(version)
	}
	if rule.NoExec {
		rights &^= unix.LANDLOCK_ACCESS_FS_EXECUTE
	}
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil {
		if st.Mode&unix.S_IFMT != unix.S_IFDIR {
			rights &= fileRights & handled(version)
		}
		err = allow(set, fd, rights)
	}
	if err != nil {
		return &os.PathError{Op: "landlock rule", Path: string(rule.Path), Err: err}
	}
	return nil
}

// allow adds a rule for an open file or directory.
func allow(set *os.File, fd int, rights uint64) error {
	// The kernel's struct is packed: 12 bytes.
	attr := struct {
		access uint64
		parent int32
	}{rights, int32(fd)}
	return addRule(set, unix.LANDLOCK_RULE_PATH_BENEATH, unsafe.Pointer(&attr))
}

func addRule(set *os.File, kind uintptr, attr unsafe.Pointer) error {
	if _, _, e := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, set.Fd(), kind, uintptr(attr), 0, 0, 0); e != 0 {
		return e
	}
	return nil
}

func openLink(path string) (int, error) { return unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0) }

// openPath follows no link: a program must not be able to choose the next program's files with a link in a directory
// that it may write to. Where openat2 is denied, as in a sandbox inside a sandbox, openPath opens one component at a
// time.
func openPath(path string) (int, error) {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS}
	if fd, err := unix.Openat2(unix.AT_FDCWD, path, &how); err == nil {
		return fd, nil
	}
	fd, err := openLink("/")
	for rest := strings.Trim(path, "/"); rest != "" && err == nil; {
		var name string
		name, rest, _ = strings.Cut(rest, "/")
		var next int
		next, err = unix.Openat(fd, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		unix.Close(fd)
		fd = next
	}
	if err != nil {
		return -1, err
	}
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil && st.Mode&unix.S_IFMT == unix.S_IFLNK {
		err = unix.ELOOP
	}
	if err != nil {
		unix.Close(fd)
	}
	return fd, err
}
