package sandbox

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// What Landlock handles, from what version on, and for what.
const (
	readRights                                                  = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR
	firstRefer, firstTruncate, firstNet, firstIoctl, firstScope = 2, 3, 4, 5, 6
	fileRights                                                  = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE |
		unix.LANDLOCK_ACCESS_FS_TRUNCATE
)

// landlockVersion returns the version of Landlock's interface.
func landlockVersion() (int, error) {
	v, _, e := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	switch e {
	case 0:
		return int(v), nil
	case unix.ENOSYS:
		return 0, errors.New("not built into this kernel")
	case unix.EOPNOTSUPP:
		return 0, errors.New("not switched on when this machine was started (lsm=)")
	}
	return 0, e
}

// handled returns all rights over files that a version knows. What a domain doesn't handle is allowed in it.
func handled(version int) uint64 {
	rights := uint64(unix.LANDLOCK_ACCESS_FS_MAKE_SYM<<1 - 1)
	if version >= firstRefer {
		rights |= unix.LANDLOCK_ACCESS_FS_REFER
	}
	if version >= firstTruncate {
		rights |= unix.LANDLOCK_ACCESS_FS_TRUNCATE
	}
	if version >= firstIoctl {
		rights |= unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	}
	return rights
}

// A rule allows something below a path.
type rule struct {
	Path  []byte
	Write bool
	// System marks what is there on most systems: it may be missing, and be a link.
	System bool
}

// writeRights are all but those over devices.
func writeRights(version int) uint64 {
	return handled(version) &^ (unix.LANDLOCK_ACCESS_FS_IOCTL_DEV | unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK)
}

// newRuleset returns a ruleset as an open file. Ports are the only ones that may be connected to over TCP; nil: any.
func newRuleset(version int, rules []rule, program *os.File, tcp bool, port uint16) (*os.File, error) {
	attr := unix.LandlockRulesetAttr{Handled_access_fs: handled(version)}
	if version >= firstNet && !tcp {
		attr.Handled_access_net = unix.LANDLOCK_ACCESS_NET_BIND_TCP | unix.LANDLOCK_ACCESS_NET_CONNECT_TCP
	}
	if version >= firstScope {
		attr.Scoped = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL
	}
	size := unsafe.Offsetof(attr.Quiet_access_fs)
	switch { // an older kernel takes less
	case version < firstNet:
		size = unsafe.Offsetof(attr.Handled_access_net)
	case version < firstScope:
		size = unsafe.Offsetof(attr.Scoped)
	}
	fd, _, e := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), size, 0)
	if e != 0 {
		return nil, fmt.Errorf("landlock ruleset: %w", e)
	}
	set := os.NewFile(fd, "landlock ruleset")
	for _, r := range rules {
		if err := allowPath(set, version, r); err != nil {
			set.Close()
			return nil, err
		}
	}
	if program != nil {
		if err := allowFile(set, int(program.Fd()), readRights&fileRights); err != nil {
			set.Close()
			return nil, fmt.Errorf("landlock rule for the program: %w", err)
		}
	}
	if port != 0 && attr.Handled_access_net != 0 {
		r := struct{ access, port uint64 }{unix.LANDLOCK_ACCESS_NET_CONNECT_TCP, uint64(port)}
		if _, _, e := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, fd, landlockRuleNetPort, uintptr(unsafe.Pointer(&r)), 0, 0, 0); e != 0 {
			set.Close()
			return nil, fmt.Errorf("landlock rule for port %d: %w", port, e)
		}
	}
	return set, nil
}

const landlockRuleNetPort = 2

func allowPath(set *os.File, version int, r rule) error {
	open := openPath
	if r.System {
		open = openLink
	}
	fd, err := open(string(r.Path))
	if r.System && (errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EACCES)) {
		return nil
	}
	if err != nil {
		return &os.PathError{Op: "open", Path: string(r.Path), Err: err}
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return &os.PathError{Op: "stat", Path: string(r.Path), Err: err}
	}
	rights := uint64(readRights)
	if r.Write {
		rights = writeRights(version)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		rights &= fileRights & handled(version)
	}
	if err := allowFile(set, fd, rights); err != nil {
		return &os.PathError{Op: "landlock rule", Path: string(r.Path), Err: err}
	}
	return nil
}

func allowFile(set *os.File, fd int, rights uint64) error {
	// The kernel's struct is packed: 12 bytes.
	attr := struct {
		access uint64
		parent int32
	}{rights, int32(fd)}
	_, _, e := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, set.Fd(), unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&attr)), 0, 0, 0)
	if e != 0 {
		return e
	}
	return nil
}

func openLink(path string) (int, error) { return unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0) }

// openPath follows no link: one that a program made where it may write must not choose what the next one gets. It goes step
// by step, as the one call that does it all isn't there in a sandbox in a sandbox.
func openPath(path string) (int, error) {
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
