package sandbox

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rye-build/rye/exec/proc"
	"github.com/rye-build/rye/manifest/policy/floor"
)

// A plan tells the second stage what to do. Fields that may hold any bytes are bytes.
type plan struct {
	Probe     bool // say what works, and run nothing
	Path, Dir []byte
	Args, Env [][]byte
	Program   bool // file 4 is executed
	Cgroups   int  // the files behind it are lists of processes
	Level     floor.Level
	Landlock  int // version
	Rules     []rule
	Write     [][]byte // what may be written
	Mounts    []mount
	Spaces    bool // it is the first in namespaces of its own
	Inet      bool // may have sockets of the internet
	Hosts     bool // but only to a proxy: it sends us where that listens
	Powerless bool
	Limits    Limits
	Bound     bool // the control group bounds memory and processes
}

// A news is what the second stage says, one or more times.
type news struct {
	Port    int    `json:",omitempty"` // of the proxy, whose socket comes along
	Placed  bool   `json:",omitempty"` // there is a place for the program
	Failed  string `json:",omitempty"` // what could not be done
	Err     string `json:",omitempty"` // and why
	Errno   int    `json:",omitempty"` // the same, if the system said it
	NoPlace bool   `json:",omitempty"` // the machine has no such place for a program
	Done    *done  `json:",omitempty"`
}

// failure returns what a stage failed in, or nil.
func (n *news) failure(path string) error {
	if n.Failed == "" {
		return nil
	}
	return &StartError{Path: path, Step: n.Failed, Err: n.cause()}
}

func (n *news) cause() error {
	if n.Errno != 0 {
		return unix.Errno(n.Errno)
	}
	return errors.New(n.Err)
}

// failed is the news of an error.
func failed(err error) news {
	n := news{Failed: "prepare", Err: err.Error()}
	if start, ok := errors.AsType[*StartError](err); ok {
		n.Failed, n.Err = start.Step, start.Err.Error()
	}
	if errno, ok := errors.AsType[unix.Errno](err); ok {
		n.Errno = int(errno)
		if n.Failed == "prepare" {
			n.Failed = strings.TrimSuffix(err.Error(), ": "+errno.Error())
		}
	}
	return n
}

// A done tells how it ended.
type done struct {
	Code    int
	Signal  string
	Ended   string
	Wall    time.Duration
	CPU     time.Duration
	MaxRSS  int64
	Written int64
}

func (d *done) exit() proc.Exit {
	return proc.Exit{Code: d.Code, Signal: d.Signal, Wall: d.Wall, CPU: d.CPU, MaxRSS: d.MaxRSS}
}

// maxMessage is far more than arguments and rules can be.
const maxMessage = 64 << 20

// send writes a message with its length before it, and a file beside it if there is one.
func send(conn *os.File, message any, file *os.File) error {
	data, err := json.Marshal(message)
	if err != nil {
		return err
	}
	data = append(binary.BigEndian.AppendUint32(nil, uint32(len(data))), data...)
	if file == nil {
		_, err = conn.Write(data)
		return err
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	sent := 0
	if e := raw.Write(func(fd uintptr) bool {
		sent, err = unix.SendmsgN(int(fd), data, unix.UnixRights(int(file.Fd())), nil, 0)
		return !errors.Is(err, unix.EAGAIN)
	}); e != nil {
		return e
	}
	if err == nil && sent < len(data) {
		err = io.ErrShortWrite
	}
	return err
}

// receive reads a message, and a file if one is beside it.
func receive(conn *os.File, message any) (*os.File, error) {
	var length [4]byte
	file, err := firstBytes(conn, length[:])
	if err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(length[:])
	if n > maxMessage {
		return file, errors.New("a message is too long")
	}
	data := make([]byte, n)
	if _, err := io.ReadFull(conn, data); err != nil {
		return file, err
	}
	return file, json.Unmarshal(data, message)
}

// firstBytes fills p, and takes a file that comes with them.
func firstBytes(conn *os.File, p []byte) (file *os.File, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	oob := make([]byte, unix.CmsgSpace(4))
	n, rights := 0, 0
	if e := raw.Read(func(fd uintptr) bool {
		n, rights, _, _, err = unix.Recvmsg(int(fd), p, oob, unix.MSG_CMSG_CLOEXEC)
		return !errors.Is(err, unix.EAGAIN)
	}); e != nil {
		return nil, e
	}
	switch {
	case err != nil:
		return nil, err
	case n == 0:
		return nil, io.EOF
	}
	if rights > 0 {
		if messages, err := unix.ParseSocketControlMessage(oob[:rights]); err == nil && len(messages) == 1 {
			if fds, err := unix.ParseUnixRights(&messages[0]); err == nil && len(fds) == 1 {
				file = os.NewFile(uintptr(fds[0]), "socket")
			}
		}
	}
	if _, err = io.ReadFull(conn, p[n:]); errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return file, err
}
