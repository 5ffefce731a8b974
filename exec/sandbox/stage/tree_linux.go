package stage

import (
	"os"
	"syscall"
)

// Below lists the descendants of a process, parents first. Processes that start meanwhile may be missing.
func Below(pid int) []int {
	var list []int
	for at := -1; at < len(list); at++ {
		if at >= 0 {
			pid = list[at]
		}
		tasks := "/proc/" + digits(pid) + "/task"
		names, _ := os.ReadDir(tasks)
		for _, n := range names {
			kids, _ := Read(tasks + "/" + n.Name() + "/children")
			for _, kid := range words(kids) {
				if k, ok := parse(kid); ok {
					list = append(list, int(k))
				}
			}
		}
	}
	return list
}

// KeepFiles keeps every file from 3 on out of the program. Go already opens its files that way; this covers inherited
// ones.
func KeepFiles() {
	if _, _, errno := syscall.Syscall(sysCloseRange, 3, 1<<31-1, closeRangeCloexec); errno == 0 {
		return
	}
	names, _ := os.ReadDir("/proc/self/fd") // a kernel before 5.11
	for _, n := range names {
		if fd, ok := parse([]byte(n.Name())); ok && fd > 2 {
			syscall.CloseOnExec(int(fd))
		}
	}
}

// Read reads a file of /proc or /sys with less than half the system calls of os.ReadFile, which registers it with the
// poller.
func Read(path string) ([]byte, error) {
	fd, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer syscall.Close(fd)
	data := make([]byte, 0, 2048)
	for {
		n, err := syscall.Read(fd, data[len(data):cap(data)])
		switch {
		case err == syscall.EINTR:
			continue
		case err != nil:
			return nil, &os.PathError{Op: "read", Path: path, Err: err}
		case n == 0:
			return data, nil
		}
		if data = data[:len(data)+n]; len(data) == cap(data) {
			data = append(make([]byte, 0, 2*len(data)), data...)
		}
	}
}
