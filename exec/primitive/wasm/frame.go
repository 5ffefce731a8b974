package wasm

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
)

// MaxFrame is the most that a frame has.
const MaxFrame = 64 << 10

// maxPlan is the most that a plan has: its texts are as long as the parameters of a call may be.
const maxPlan = 64 << 20

// The kinds of frames.
const (
	kindOut     = 'o'
	kindErr     = 'e'
	kindExit    = 'x'
	kindTrap    = 't'
	kindRefused = 'n'
)

// A plan is what a child is to do.
type plan struct {
	Module string   `json:"module"`
	Cache  string   `json:"cache,omitempty"`
	Make   bool     `json:"make,omitempty"` // compile it into the cache, and nothing else
	Name   string   `json:"name"`           // the first argument
	Args   []string `json:"args,omitempty"`
	Env    []string `json:"env,omitempty"` // NAME=VALUE
	Pages  uint32   `json:"pages"`
	Pure   bool     `json:"pure,omitempty"`
	Root   string   `json:"root,omitempty"`
	Read   []string `json:"read,omitempty"`
	Write  []string `json:"write,omitempty"`
	Deny   []string `json:"deny,omitempty"`
}

// append writes a plan down.
func (p *plan) append(b []byte) ([]byte, error) {
	text, err := json.Marshal(p)
	if err == nil && len(text) > maxPlan {
		err = fmt.Errorf("arguments and variables have %d bytes; %d is the most", len(text), maxPlan)
	}
	return append(binary.BigEndian.AppendUint32(b, uint32(len(text))), text...), err
}

// readPlan reads one, and nothing behind it.
func readPlan(r io.Reader) (*plan, error) {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(size[:])
	if n > maxPlan {
		return nil, fmt.Errorf("a plan of %d bytes", n)
	}
	text := make([]byte, n)
	if _, err := io.ReadFull(r, text); err != nil {
		return nil, err
	}
	p := new(plan)
	return p, json.Unmarshal(text, p)
}

// A framer writes frames.
type framer struct {
	mu sync.Mutex
	to io.Writer
}

func (f *framer) frame(kind byte, b []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, err := f.to.Write(append(binary.BigEndian.AppendUint32([]byte{kind}, uint32(len(b))), b...))
	return err
}

// A framed is one stream of the module's.
type framed struct {
	*framer
	kind byte
}

func (f framed) Write(b []byte) (n int, err error) {
	for n < len(b) && err == nil {
		part := b[n:min(len(b), n+MaxFrame)]
		if err = f.frame(f.kind, part); err == nil {
			n += len(part)
		}
	}
	return n, err
}

var (
	errFrame  = errors.New("the child doesn't speak in frames")
	errOutput = errors.New("it has written more than it may")
)

// A hearer takes frames apart.
type hearer struct {
	out, errs io.Writer
	left      int64  // of what the module may write
	stop      func() // is called when that is too much, or nothing that can be understood

	counts   [2]int64
	rest     []byte // of a frame that hasn't come to its end
	err      error
	ended    byte // the last frame's kind
	exit     uint32
	complain string
}

// Write implements io.Writer.
func (h *hearer) Write(b []byte) (int, error) {
	if h.err != nil {
		return len(b), nil // what is to end it is on its way
	}
	h.rest = append(h.rest, b...)
	rest := h.rest
	for len(rest) >= 5 && h.err == nil {
		n := int(binary.BigEndian.Uint32(rest[1:]))
		if h.ended != 0 || n > MaxFrame {
			h.err = errFrame
			break
		}
		if len(rest) < 5+n {
			break
		}
		h.heard(rest[0], rest[5:5+n])
		rest = rest[5+n:]
	}
	h.rest = append(h.rest[:0], rest...)
	if h.err != nil {
		h.stop()
	}
	return len(b), nil
}

func (h *hearer) heard(kind byte, b []byte) {
	to, count := h.out, &h.counts[0]
	switch kind {
	case kindErr:
		to, count = h.errs, &h.counts[1]
	case kindOut:
	case kindExit, kindTrap, kindRefused:
		h.ended, h.complain = kind, string(b)
		if kind == kindExit && len(b) == 4 {
			h.exit, h.complain = binary.BigEndian.Uint32(b), ""
		} else if kind == kindExit {
			h.err = errFrame
		}
		return
	default:
		h.err = errFrame
		return
	}
	*count += int64(len(b))
	pass := b[:min(int64(len(b)), h.left)]
	h.left -= int64(len(pass))
	if len(pass) > 0 {
		to.Write(pass)
	}
	if len(pass) < len(b) {
		h.err = errOutput
	}
}
