package mcp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rye-build/rye/cas/fault"
)

const (
	// burst and perSecond limit a server's requests and notifications; more are dropped.
	burst     = 200
	perSecond = 100
	// maxFlood bounds the dropped bytes between two answers; each dropped message counts as at least minFlood.
	maxFlood, minFlood = 16 << 20, 512
	// queue is how many messages may wait for a server that doesn't read.
	queue = 64
)

const toolsChanged = "notifications/tools/list_changed"

// longMessage begins the reason for ending a server that sent too long a message.
const longMessage = "it sent a message of more than "

// A brokenError describes how a server broke the protocol, which is why it was ended.
type brokenError struct {
	why    string
	output bool // it sent too much
}

func (e *brokenError) Error() string { return e.why }

// lines is the connection to a server that sends one message per line.
type lines struct {
	most    int64  // limit on a message in bytes
	changed func() // called when the server reports that its tools changed
	to      io.WriteCloser

	messages chan []byte // lines of the server; closed at their end
	out      chan []byte
	closed   chan struct{}
	once     sync.Once
	ended    atomic.Bool // the server has ended its output

	mu      sync.Mutex
	broken  *brokenError
	waiting map[jsonrpc.ID]*track
	tokens  float64
	filled  time.Time
	flood   int64 // bytes of messages dropped since the last answer
}

// A track notices the answer to the request sent with its context.
type track struct {
	sent    bool
	settled chan struct{}
}

type trackKey struct{}

func newLines(from io.Reader, to io.WriteCloser, most int64, changed func()) *lines {
	l := &lines{
		most: most, changed: changed, to: to, messages: make(chan []byte), out: make(chan []byte, queue),
		closed:  make(chan struct{}),
		waiting: map[jsonrpc.ID]*track{}, tokens: burst, filled: time.Now(),
	}
	go l.receive(bufio.NewReaderSize(from, 64<<10))
	go l.send()
	return l
}

// Connect implements mcp.Transport. A lines is its only connection.
func (l *lines) Connect(context.Context) (mcp.Connection, error) { return l, nil }

// SessionID implements mcp.Connection.
func (l *lines) SessionID() string { return "" }

// Close implements mcp.Connection.
func (l *lines) Close() error {
	l.once.Do(func() {
		close(l.closed)
		l.to.Close()
	})
	return nil
}

// fail closes the connection because the server broke the protocol.
func (l *lines) fail(e *brokenError) error {
	l.mu.Lock()
	if l.broken == nil {
		l.broken = e
	}
	e = l.broken
	l.mu.Unlock()
	l.Close()
	return e
}

// reason returns how the server broke the protocol, or nil.
func (l *lines) reason() *brokenError {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.broken
}

func (l *lines) receive(r *bufio.Reader) {
	defer close(l.messages)
	for {
		line, err := l.line(r)
		if line = bytes.TrimSpace(line); len(line) > 0 {
			select {
			case l.messages <- line:
			case <-l.closed:
				return
			}
		} else if err == nil && !l.drops(0) {
			return
		}
		if err != nil {
			l.ended.Store(true)
			return
		}
		if int64(len(line)) > l.most {
			return
		}
	}
}

// line reads a line, or the beginning of one that is too long.
func (l *lines) line(r *bufio.Reader) (line []byte, err error) {
	for {
		part, err := r.ReadSlice('\n')
		if line = append(line, part...); err != bufio.ErrBufferFull || int64(len(line)) > l.most+1 {
			return line, err
		}
	}
}

// Read implements mcp.Connection.
func (l *lines) Read(ctx context.Context) (jsonrpc.Message, error) {
	for {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-l.closed:
			return nil, io.EOF
		case line, ok := <-l.messages:
			if !ok {
				return nil, io.EOF
			}
			message, err := decode(line, l.most)
			if err != nil {
				return nil, l.fail(err)
			}
			if l.counts(message) {
				return message, nil
			}
			if !l.drops(len(line)) {
				return nil, l.reason()
			}
		}
	}
}

// decode parses a message of a server.
func decode(line []byte, most int64) (jsonrpc.Message, *brokenError) {
	if int64(len(line)) > most {
		return nil, &brokenError{fmt.Sprintf(longMessage+"%d bytes", most), true}
	}
	no := func(what string) (jsonrpc.Message, *brokenError) {
		return nil, &brokenError{fmt.Sprintf("its standard output is for messages, and it wrote %s: %q", what,
			fault.Clip(string(line), 200)), false}
	}
	if !json.Valid(line) { // Valid also bounds the nesting
		return no("a line that is not JSON")
	}
	message, err := jsonrpc.DecodeMessage(line)
	if err != nil {
		return no("JSON that is not a message")
	}
	return message, nil
}

// drops counts a dropped message, and reports whether the server is still within the limit; if not, it ends the
// connection.
func (l *lines) drops(size int) bool {
	l.mu.Lock()
	l.flood += int64(max(size, minFlood))
	over := l.flood > maxFlood
	l.mu.Unlock()
	if over {
		_ = l.fail(&brokenError{"it floods its standard output with notifications", false})
	}
	return !over
}

// counts reports whether the session should get a message. It filters unrequested answers, and notifications above
// the limit.
func (l *lines) counts(message jsonrpc.Message) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch response := message.(type) {
	case *jsonrpc.Response:
		t, asked := l.waiting[response.ID]
		delete(l.waiting, response.ID)
		if t != nil {
			close(t.settled)
		}
		if asked {
			l.flood = 0
		}
		return asked
	case *jsonrpc.Request:
		if response.Method == toolsChanged {
			l.changed()
		}
		now := time.Now()
		l.tokens = min(burst, l.tokens+now.Sub(l.filled).Seconds()*perSecond)
		l.filled = now
		if l.tokens < 1 {
			return false
		}
		l.tokens--
	}
	return true
}

// Write implements mcp.Connection.
func (l *lines) Write(ctx context.Context, message jsonrpc.Message) error {
	text, err := jsonrpc.EncodeMessage(message)
	if err != nil {
		return err
	}
	text = append(text, '\n')
	q, request := message.(*jsonrpc.Request)
	if request && q.IsCall() {
		t, _ := ctx.Value(trackKey{}).(*track)
		l.mu.Lock()
		if t != nil && !t.sent {
			t.sent = true
		} else {
			t = nil
		}
		l.waiting[q.ID] = t
		l.mu.Unlock()
	}
	if !request {
		select {
		case l.out <- text:
			return nil
		default: // the server sends requests and doesn't read the answers
			return l.fail(&brokenError{"it doesn't read the answers to its requests", false})
		}
	}
	select {
	case l.out <- text:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-l.closed:
		return io.ErrClosedPipe
	}
}

// send writes the queued messages to the server. Close interrupts it.
func (l *lines) send() {
	for {
		select {
		case text := <-l.out:
			if _, err := l.to.Write(text); err != nil {
				return // the server has ended, or will
			}
		case <-l.closed:
			return
		}
	}
}
