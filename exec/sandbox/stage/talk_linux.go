package stage

import (
	"errors"
	"io"
	"os"
	"syscall"
	"time"
)

// A Plan is the work of a stage. Files are sent with it: standard output, standard error and input, the program, the
// lists of control groups, the ruleset.
type Plan struct {
	Probe     bool // only make the place
	Path, Dir []byte
	Args, Env [][]byte
	Input     bool // a file for standard input is sent; otherwise it is empty
	Program   bool // execute the file that is sent, not Path
	Cgroups   int  // how many lists of processes are sent
	Rlimits   []Rlimit
	Watch     bool // kill a program that exceeds Limits
	Limits    Limits
	Write     [][]byte // the writable paths
	Tops      []Top
	Mounts    []Mount
	Spaces    bool // the stage is the first process in namespaces of its own
	Hosts     bool // the network is a proxy: the stage sends back the listening socket
	Powerless bool // drop all capabilities

	Restrict bool   // give up new privileges, and enter Filter and the ruleset that is sent
	Proc     uint64 // rights over the /proc of the namespaces to add to the ruleset; 0: none
	Top      uint64 // rights over Tops to add to the ruleset
	Connect  uint64 // rights over the proxy's port to add to the ruleset; 0: none
	Filter   []byte // of system calls
}

// Limits bound all processes of a program together.
type Limits struct {
	CPU                        time.Duration
	Memory, Written, Processes int64
}

// An Rlimit is a limit of the kernel for each process.
type Rlimit struct{ Resource, Most, Hard uint64 }

// A Mount changes how the program sees a path.
type Mount struct {
	Path []byte
	How  int // Writable, Readable, Hidden or Data
}

// Writable and the others are the ways to mount a path.
const (
	Writable = iota
	Readable
	Hidden
	Data // writable, and nothing in it is executed
)

// A Report is a message of a stage.
type Report struct {
	Port   int           // of the proxy; its socket is sent with the message
	Placed bool          // the place for the program is made
	Unlaid bool          // the step that failed is laying out a Top
	Failed string        // the step that failed
	Err    string        // its error
	Errno  syscall.Errno // the error, if it is one of the system
	Done   *Done
}

// A Done reports how a program ended and its usage.
type Done struct {
	Code, Signal    int
	Wall, CPU       time.Duration
	MaxRSS, Written int64
	Ended           string // the limit that ended it
	Asides          []Aside
}

// Cause returns the error of a failed step.
func (r *Report) Cause() error {
	if r.Errno != 0 {
		return r.Errno
	}
	return errors.New(r.Err)
}

// A Message is a Plan or a Report.
type Message interface{ code(c *coder) }

func (p *Plan) code(coder *coder) {
	coder.flags(&p.Probe, &p.Input, &p.Program, &p.Watch, &p.Spaces, &p.Hosts, &p.Powerless, &p.Restrict)
	coder.text(&p.Path)
	coder.text(&p.Dir)
	coder.texts(&p.Args)
	coder.texts(&p.Env)
	coder.texts(&p.Write)
	coder.text(&p.Filter)
	number(coder, &p.Cgroups)
	number(coder, &p.Proc)
	number(coder, &p.Top)
	number(coder, &p.Connect)
	number(coder, &p.Limits.CPU)
	number(coder, &p.Limits.Memory)
	number(coder, &p.Limits.Written)
	number(coder, &p.Limits.Processes)
	for i := range list(coder, &p.Rlimits) {
		l := &p.Rlimits[i]
		number(coder, &l.Resource)
		number(coder, &l.Most)
		number(coder, &l.Hard)
	}
	for i := range list(coder, &p.Tops) {
		coder.text(&p.Tops[i].Path)
		coder.texts(&p.Tops[i].Keep)
	}
	for i := range list(coder, &p.Mounts) {
		coder.text(&p.Mounts[i].Path)
		number(coder, &p.Mounts[i].How)
	}
}

func (r *Report) code(coder *coder) {
	done := r.Done != nil
	coder.flags(&r.Placed, &r.Unlaid, &done)
	number(coder, &r.Port)
	number(coder, &r.Errno)
	coder.word(&r.Failed)
	coder.word(&r.Err)
	if !done {
		return
	}
	if r.Done == nil {
		r.Done = &Done{}
	}
	d := r.Done
	number(coder, &d.Code)
	number(coder, &d.Signal)
	number(coder, &d.Wall)
	number(coder, &d.CPU)
	number(coder, &d.MaxRSS)
	number(coder, &d.Written)
	coder.word(&d.Ended)
	for i := range list(coder, &d.Asides) {
		a := &d.Asides[i]
		coder.text(&a.Name)
		coder.text(&a.As)
		coder.text(&a.Why)
	}
}

// A coder writes the fields of a message, or reads them in the same order: a number as 8 bytes, big-endian; a flag as
// a number; a text or a list after its length.
type coder struct {
	data    []byte
	reading bool
	bad     bool
}

func number[T ~int | ~int64 | ~uint64 | ~uintptr](c *coder, n *T) {
	if !c.reading {
		for shift := 56; shift >= 0; shift -= 8 {
			c.data = append(c.data, byte(uint64(*n)>>shift))
		}
		return
	}
	var u uint64
	for _, b := range c.take(8) {
		u = u<<8 | uint64(b)
	}
	*n = T(u)
}

// take returns the next n bytes, or nil if there are fewer.
func (c *coder) take(n int) []byte {
	if n < 0 || n > len(c.data) {
		c.bad, c.data = true, nil
		return nil
	}
	part := c.data[:n:n]
	c.data = c.data[n:]
	return part
}

func (c *coder) flags(list ...*bool) {
	for _, b := range list {
		n := 0
		if *b {
			n = 1
		}
		number(c, &n)
		*b = n == 1
	}
}

func (c *coder) text(b *[]byte) {
	n := len(*b)
	number(c, &n)
	if c.reading {
		*b = c.take(n)
	} else {
		c.data = append(c.data, *b...)
	}
}

func (c *coder) word(s *string) {
	b := []byte(*s)
	c.text(&b)
	*s = string(b)
}

func (c *coder) texts(l *[][]byte) {
	for i := range list(c, l) {
		c.text(&(*l)[i])
	}
}

// list codes the length of a list, and returns it so that the caller codes the elements.
func list[T any](c *coder, l *[]T) []T {
	n := len(*l)
	number(c, &n)
	if c.reading {
		if n < 0 || n > len(c.data) { // an element has at least one byte
			c.bad, n = true, 0
		}
		*l = make([]T, n)
	}
	return *l
}

// maxMessage is far more than arguments and rules need.
const maxMessage = 64 << 20

// maxFiles is how many files a message carries at most: three standard files, a program, two lists of control groups
// and a ruleset.
const maxFiles = 7

// Send writes a message after its length in 8 bytes, and passes files with it.
func Send(conn *os.File, m Message, files ...*os.File) error {
	var c, length coder
	m.code(&c)
	n := len(c.data)
	number(&length, &n)
	data := append(length.data, c.data...)
	if len(files) > 0 {
		raw, err := conn.SyscallConn()
		if err != nil {
			return err
		}
		fds := make([]int, len(files))
		for i, f := range files {
			fds[i] = int(f.Fd())
		}
		sent := 0
		if e := raw.Write(func(fd uintptr) bool {
			sent, err = syscall.SendmsgN(int(fd), data, syscall.UnixRights(fds...), nil, 0)
			return !errors.Is(err, syscall.EAGAIN)
		}); e != nil {
			return e
		}
		if err != nil {
			return err
		}
		if data = data[sent:]; len(data) == 0 {
			return nil
		}
	}
	_, err := conn.Write(data)
	return err
}

// Receive reads a message, and the files sent with it.
func Receive(conn *os.File, message Message) ([]*os.File, error) {
	length := coder{data: make([]byte, 8), reading: true}
	files, err := firstBytes(conn, length.data)
	if err != nil {
		return nil, err
	}
	var n uint64
	number(&length, &n)
	if n > maxMessage {
		return files, errors.New("message too long")
	}
	c := coder{data: make([]byte, n), reading: true}
	if _, err := io.ReadFull(conn, c.data); err != nil {
		return files, err
	}
	message.code(&c)
	if c.bad || len(c.data) > 0 {
		return files, errors.New("malformed message")
	}
	return files, nil
}

// firstBytes fills data, and receives the files sent with it.
func firstBytes(conn *os.File, data []byte) (files []*os.File, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	oob := make([]byte, syscall.CmsgSpace(4*maxFiles))
	n, rights := 0, 0
	if e := raw.Read(func(fd uintptr) bool {
		n, rights, _, _, err = syscall.Recvmsg(int(fd), data, oob, syscall.MSG_CMSG_CLOEXEC)
		return !errors.Is(err, syscall.EAGAIN)
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
		if messages, err := syscall.ParseSocketControlMessage(oob[:rights]); err == nil && len(messages) == 1 {
			fds, _ := syscall.ParseUnixRights(&messages[0])
			for _, fd := range fds {
				files = append(files, os.NewFile(uintptr(fd), "received"))
			}
		}
	}
	if _, err = io.ReadFull(conn, data[n:]); errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return files, err
}
