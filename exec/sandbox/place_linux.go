package sandbox

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// A mount changes what stands at a path, in the program's namespace of mounts.
type mount struct {
	Path []byte
	How  int
}

const (
	writable = iota
	readable
	hidden
)

// makePlace makes the tree of files that any program sees: its own /proc, and nothing to be changed. What this one may
// write is mounted over it. Landlock, which comes on top, doesn't see changes of mode, owner and time.
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

func (m mount) put() error {
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
	if err := attributes(path, 0, set, clear); err != nil && !errors.Is(err, unix.EPERM) { // it was read-only before
		return &os.PathError{Op: "mount", Path: path, Err: err}
	}
	return nil
}

// hide puts nothing over what is at a path.
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

// listen makes a socket in the program's network, and hands it to the process that started us, which is in
// another and can reach the hosts.
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
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	tcp, ok := l.(*net.TCPListener)
	if !ok {
		return 0, errors.ErrUnsupported
	}
	file, err := tcp.File()
	if err != nil {
		return 0, err
	}
	defer file.Close()
	port := tcp.Addr().(*net.TCPAddr).Port
	return uint16(port), send(s.conn, news{Port: port}, file)
}

// proxyVariables tell programs of the proxy, and of no other.
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
