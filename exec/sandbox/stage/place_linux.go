package stage

import (
	"errors"
	"os"
	"syscall"
	"unsafe"
)

// makePlace makes the file tree of every program: its own /proc, and everything else read-only. Writable paths are
// mounted over it later. Landlock alone would not prevent changes of mode, owner and time.
func makePlace() error {
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return step("make mounts private", err)
	}
	if err := syscall.Mount("proc", "/proc", "proc", syscall.MS_NOSUID|syscall.MS_NODEV|syscall.MS_NOEXEC,
		""); err != nil {
		return step("mount /proc", err)
	}
	if err := attributes("/", atRecursive, mountAttrRdonly|mountAttrNosuid, 0); err != nil {
		return step("mount all read-only", err)
	}
	return nil
}

func (m *Mount) mount() error {
	path := string(m.Path)
	if m.How == Hidden {
		return hide(path)
	}
	if err := syscall.Mount(path, path, "", syscall.MS_BIND|syscall.MS_REC, ""); err != nil {
		return &os.PathError{Op: "mount", Path: path, Err: err}
	}
	set, clear := uint64(0), uint64(mountAttrRdonly)
	switch m.How {
	case Readable:
		set, clear = clear, set
	case Data:
		set = mountAttrNoexec
	}
	// EPERM means that the file system itself is read-only.
	if err := attributes(path, 0, set, clear); err != nil && !errors.Is(err, syscall.EPERM) {
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
		err = syscall.Mount("none", path, "tmpfs", syscall.MS_RDONLY|syscall.MS_NOSUID|syscall.MS_NODEV,
			"size=4k,mode=0555")
	} else if err == nil {
		err = syscall.Mount("/dev/null", path, "", syscall.MS_BIND, "")
	}
	if err != nil {
		return &os.PathError{Op: "hide", Path: path, Err: err}
	}
	return nil
}

func attributes(path string, flags uintptr, set, clear uint64) error {
	name, err := syscall.BytePtrFromString(path)
	if err != nil {
		return err
	}
	attr, at := struct{ set, clear, propagation, namespace uint64 }{set: set, clear: clear}, atCwd
	if _, _, errno := syscall.Syscall6(sysMountSetattr, uintptr(at), uintptr(unsafe.Pointer(name)),
		flags|atSymlinkNofollow, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr), 0); errno != 0 {
		return errno
	}
	return nil
}

// listen creates a socket in the program's network and sends it to the process that started the stage, since only
// that process's network reaches the hosts.
func (s *stage) listen() (port uint16, err error) {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC|syscall.SOCK_NONBLOCK, 0)
	if err != nil {
		return 0, step("network", err)
	}
	file := os.NewFile(uintptr(fd), "socket")
	defer file.Close()
	request := struct {
		name  [16]byte
		flags uint16
		_     [22]byte
	}{name: [16]byte{'l', 'o'}, flags: syscall.IFF_UP}
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, uintptr(fd), syscall.SIOCSIFFLAGS,
		uintptr(unsafe.Pointer(&request))); errno != 0 {
		return 0, step("network", errno)
	}
	if err = syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err == nil {
		err = syscall.Listen(fd, syscall.SOMAXCONN)
	}
	if err != nil {
		return 0, step("listen", err)
	}
	name, err := syscall.Getsockname(fd)
	at, ok := name.(*syscall.SockaddrInet4)
	if err != nil || !ok {
		return 0, step("listen", err)
	}
	return uint16(at.Port), Send(s.conn, &Report{Port: at.Port}, file)
}

// proxyVariables replaces all variables that name a proxy by variables for ours.
func proxyVariables(env [][]byte, port uint16) (list [][]byte) {
	const end = "_proxy"
	for _, data := range env {
		name := data
		for i, c := range data {
			if c == '=' {
				name = data[:i]
				break
			}
		}
		n := len(name) - len(end)
		same := n >= 0
		for i := 0; same && i < len(end); i++ {
			same = name[n+i] == end[i] || name[n+i]|0x20 == end[i] && end[i] != '_'
		}
		if !same {
			list = append(list, data)
		}
	}
	for _, name := range []string{"http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"} {
		list = append(list, []byte(name+"=http://127.0.0.1:"+digits(int(port))))
	}
	return list
}
