package worktree

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"os"

	"github.com/rye-build/rye/cas/statcache"
	"golang.org/x/sys/unix"
)

// listBuffer is the memory for reading directories.
type listBuffer struct {
	b     []byte
	arena []byte // the names of one directory, one after the other
	ends  []int32
}

// An fdFolder is a folder on top of the system calls that take a directory's descriptor. It takes a third of os.Root's
// time, because os.Root looks everything up twice.
type fdFolder int

const openDirFlags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC

func openDir(path string) (folder, folderInfo, error) {
	fd, err := openat(unix.AT_FDCWD, path, openDirFlags)
	if err != nil {
		return nil, folderInfo{}, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return dirInfo(fd)
}

// dirInfo closes fd when it fails.
func dirInfo(fd int) (folder, folderInfo, error) {
	var st unix.Stat_t
	if err := retry(func() error { return unix.Fstat(fd, &st) }); err != nil {
		unix.Close(fd)
		return nil, folderInfo{}, err
	}
	return fdFolder(fd), folderInfo{dev: uint64(st.Dev), stamps: statcache.OwnStamps(uintptr(fd))}, nil
}

func openat(dir int, name string, flags int) (fd int, err error) {
	err = retry(func() error {
		fd, err = unix.Openat(dir, name, flags, 0)
		return err
	})
	return fd, err
}

// retry repeats a call that a signal interrupted.
func retry(f func() error) error {
	for {
		if err := f(); err != unix.EINTR {
			return err
		}
	}
}

const execBit = unix.S_IXUSR

// list allocates all names as one string, so that a directory costs two allocations.
func (f fdFolder) list(listBuffer *listBuffer, into []name) ([]name, error) {
	if listBuffer.b == nil {
		listBuffer.b = make([]byte, 64<<10)
	}
	listBuffer.arena, listBuffer.ends = listBuffer.arena[:0], listBuffer.ends[:0]
	for {
		n, err := unix.ReadDirent(int(f), listBuffer.b)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return nil, err
		}
		if n <= 0 {
			break
		}
		if into, err = listBuffer.parse(listBuffer.b[:n], into); err != nil {
			return nil, err
		}
	}
	all, from := string(listBuffer.arena), int32(0)
	for i, end := range listBuffer.ends {
		into[i].name = all[from:end]
		from = end
	}
	return into, nil
}

var errDirent = errors.New("the kernel returned a malformed directory entry")

// parse reads entries as getdents64 returns them: inode (8), offset (8), length (2), type (1), name, NUL.
func (b *listBuffer) parse(data []byte, into []name) ([]name, error) {
	const head = 19
	for len(data) > 0 {
		if len(data) < head {
			return nil, errDirent
		}
		n := int(binary.NativeEndian.Uint16(data[16:]))
		if n <= head || n > len(data) {
			return nil, errDirent
		}
		text := data[head:n]
		if end := bytes.IndexByte(text, 0); end >= 0 {
			text = text[:end]
		}
		if ino := binary.NativeEndian.Uint64(data); ino != 0 && string(text) != "." && string(text) != ".." {
			b.arena = append(b.arena, text...)
			b.ends = append(b.ends, int32(len(b.arena)))
			into = append(into, name{mode: direntMode(data[18])})
		}
		data = data[n:]
	}
	return into, nil
}

func direntMode(t byte) fs.FileMode {
	switch t {
	case unix.DT_REG:
		return 0
	case unix.DT_DIR:
		return fs.ModeDir
	case unix.DT_LNK:
		return fs.ModeSymlink
	case unix.DT_FIFO:
		return fs.ModeNamedPipe
	case unix.DT_SOCK:
		return fs.ModeSocket
	case unix.DT_BLK, unix.DT_CHR:
		return fs.ModeDevice
	case unix.DT_UNKNOWN:
		return unknownMode
	}
	return fs.ModeIrregular
}

func (f fdFolder) stat(name string) (statcache.Stamp, error) {
	var st unix.Stat_t
	err := unix.Fstatat(int(f), name, &st, unix.AT_SYMLINK_NOFOLLOW)
	for err == unix.EINTR {
		err = unix.Fstatat(int(f), name, &st, unix.AT_SYMLINK_NOFOLLOW)
	}
	return stampOfStat(&st), err
}

func stampOfStat(st *unix.Stat_t) statcache.Stamp {
	return statcache.Stamp{
		Dev: uint64(st.Dev), Ino: uint64(st.Ino), Size: st.Size, Mode: uint32(st.Mode),
		Mtime: int64(st.Mtim.Sec)*1e9 + int64(st.Mtim.Nsec),
		Ctime: int64(st.Ctim.Sec)*1e9 + int64(st.Ctim.Nsec),
	}
}

// open opens a name that was listed as a regular file. O_NONBLOCK keeps it from blocking on a FIFO in the file's
// place.
func (f fdFolder) open(name string) (io.ReadCloser, statcache.Stamp, error) {
	fd, err := openat(int(f), name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC)
	if err == unix.ELOOP {
		err = &KindError{symbolicLink}
	}
	if err != nil {
		return nil, statcache.Stamp{}, err
	}
	var st unix.Stat_t
	err = retry(func() error { return unix.Fstat(fd, &st) })
	if err == nil && st.Mode&unix.S_IFMT != unix.S_IFREG {
		err = describe(modeOf(uint32(st.Mode)))
	}
	if err != nil {
		unix.Close(fd)
		return nil, statcache.Stamp{}, err
	}
	return fdFile(fd), stampOfStat(&st), nil
}

// modeOf returns the type bits of a system mode.
func modeOf(mode uint32) fs.FileMode {
	return direntMode(byte(mode & unix.S_IFMT >> 12)) // DT_REG is S_IFREG>>12, and so on
}

func (f fdFolder) sub(name string) (folder, folderInfo, error) {
	fd, err := openat(int(f), name, openDirFlags|unix.O_NOFOLLOW)
	if err != nil {
		return nil, folderInfo{}, err
	}
	return dirInfo(fd)
}

func (f fdFolder) close() error { return unix.Close(int(f)) }

// An fdFile is a regular file open for reading.
type fdFile int

func (f fdFile) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for {
		n, err := unix.Read(int(f), p)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return 0, err
		}
		if n == 0 {
			return 0, io.EOF
		}
		return n, nil
	}
}

func (f fdFile) Close() error { return unix.Close(int(f)) }
