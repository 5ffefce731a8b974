package sandbox

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/rye-build/rye/exec/proc"
	"github.com/rye-build/rye/exec/sandbox/landlock"
	"github.com/rye-build/rye/manifest/policy/floor"
)

// A plan is what the second stage does. Fields that may hold any bytes are bytes.
type plan struct {
	Probe     bool // only make the place
	Path, Dir []byte
	Args, Env [][]byte
	Program   bool // execute file 4
	Cgroups   int  // the files after it are lists of processes
	Level     floor.Level
	Landlock  int // version
	Rules     []landlock.Rule
	Write     [][]byte // the paths that may be written
	Mounts    []mount
	Spaces    bool // the stage is the first process in namespaces of its own
	Inet      bool // allow sockets of the internet
	Hosts     bool // but only to a proxy: the stage sends the socket where it is to listen
	Powerless bool // drop all capabilities
	Limits    Limits
	Bound     bool // the control group bounds memory and processes
}

// A report is a message of the second stage.
type report struct {
	Port   int        `json:",omitempty"` // of the proxy, whose socket comes with the message
	Placed bool       `json:",omitempty"` // the place for the program is made
	Failed string     `json:",omitempty"` // the step that failed
	Err    string     `json:",omitempty"` // and why
	Errno  unix.Errno `json:",omitempty"` // the same, if it is an error of the system
	Done   *done      `json:",omitempty"`
}

// A done is how the program ended.
type done struct {
	proc.Exit
	Ended   string
	Written int64
}

// startError returns the error that a stage could not start a program.
func (r *report) startError(path string) error {
	return fmt.Errorf("start %q: %s: %w", path, r.Failed, r.cause())
}

func (r *report) cause() error {
	if r.Errno != 0 {
		return r.Errno
	}
	return errors.New(r.Err)
}

// failed is the report of an error.
func failed(err error) report {
	r := report{Failed: "prepare", Err: err.Error()}
	if errno, ok := errors.AsType[unix.Errno](err); ok {
		r.Errno, r.Failed = errno, strings.TrimSuffix(r.Err, ": "+errno.Error())
	}
	return r
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
		return file, errors.New("message too long")
	}
	data := make([]byte, n)
	if _, err := io.ReadFull(conn, data); err != nil {
		return file, err
	}
	return file, json.Unmarshal(data, message)
}

// firstBytes fills p, and takes a file that comes with it.
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
