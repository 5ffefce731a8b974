package sandbox

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// A mount changes how the program sees a path.
type mount struct {
	Path []byte
	How  int // writable, readable or hidden
}

const (
	writable = iota
	readable
	hidden
)

// makePlace makes the file tree of every program: its own /proc, and everything read-only. What a program may write is mounted
// over it. Landlock alone would not prevent changes of mode, owner and time.
func makePlace() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	if err := attributes("/", unix.AT_RECURSIVE, unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOSUID, 0); err != nil {
		return fmt.Errorf("mount all read-only: %w", err)
	}
	return nil
}

func (m mount) mount() error {
	path := string(m.Path)
	if m.How == hidden {
		return hide(path)
	}
	if err := unix.Mount(path, path, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return &os.PathError{Op: "mount", Path: path, Err: err}
	}
	set, clear := uint64(0), uint64(unix.MOUNT_ATTR_RDONLY)
	if m.How == readable {
		set, clear = clear, set
	}
	if err := attributes(path, 0, set, clear); err != nil && !errors.Is(err, unix.EPERM) { // the file system is read-only
		return &os.PathError{Op: "mount", Path: path, Err: err}
	}
	return nil
}

// hide mounts an empty directory, or an empty device, over a path.
func hide(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err == nil && info.IsDir() {
		err = unix.Mount("none", path, "tmpfs", unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV, "size=4k,mode=0555")
	} else if err == nil {
		err = unix.Mount("/dev/null", path, "", unix.MS_BIND, "")
	}
	if err != nil {
		return &os.PathError{Op: "hide", Path: path, Err: err}
	}
	return nil
}

func attributes(path string, flags uint, set, clear uint64) error {
	return unix.MountSetattr(unix.AT_FDCWD, path, flags|unix.AT_SYMLINK_NOFOLLOW, &unix.MountAttr{Attr_set: set, Attr_clr: clear})
}

// listen makes a socket in the program's network and sends it to the process that started this one: in its network it can
// reach the hosts.
func (s *stage) listen() (uint16, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, fmt.Errorf("network: %w", err)
	}
	defer unix.Close(fd)
	request, err := unix.NewIfreq("lo")
	if err != nil {
		return 0, err
	}
	request.SetUint16(unix.IFF_UP)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, request); err != nil {
		return 0, fmt.Errorf("network: %w", err)
	}
	l, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return 0, err
	}
	defer l.Close()
	file, err := l.File()
	if err != nil {
		return 0, err
	}
	defer file.Close()
	port := l.Addr().(*net.TCPAddr).Port
	return uint16(port), send(s.conn, report{Port: port}, file)
}

// proxyVariables replaces all variables that name a proxy by those of ours.
func proxyVariables(env [][]byte, port uint16) (list [][]byte) {
	for _, v := range env {
		name, _, _ := bytes.Cut(v, []byte("="))
		if !bytes.HasSuffix(bytes.ToLower(name), []byte("_proxy")) {
			list = append(list, v)
		}
	}
	for _, name := range []string{"http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"} {
		list = append(list, fmt.Appendf(nil, "%s=http://127.0.0.1:%d", name, port))
	}
	return list
}
