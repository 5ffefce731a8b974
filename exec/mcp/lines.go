package mcp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/manifest/jcs"
)

// MaxLine is how long a message may be.
const MaxLine = 4 << 20

// Lines is a transport with a message on each line.
func Lines(r io.Reader, w io.Writer) mcp.Transport { return lines{r, w} }

type lines struct {
	r io.Reader
	w io.Writer
}

// Connect implements mcp.Transport.
func (l lines) Connect(context.Context) (mcp.Connection, error) {
	c := &lineConn{w: l.w, in: make(chan []byte), closed: make(chan struct{}), ids: map[jsonrpc.ID]bool{}}
	go c.read(bufio.NewReaderSize(l.r, 64<<10))
	return c, nil
}

// A lineConn reads and writes messages, and answers invalid lines itself.
type lineConn struct {
	in     chan []byte // lines; closed at the end of the input
	closed chan struct{}
	once   sync.Once

	mu sync.Mutex
	w  io.Writer

	idMu sync.Mutex
	ids  map[jsonrpc.ID]bool // of requests without an answer
}

// read sends the lines on. A reader can't be interrupted: it ends with its input.
func (c *lineConn) read(r *bufio.Reader) {
	defer close(c.in)
	for {
		line, err := longLine(r)
		if line = bytes.TrimSpace(line); len(line) > 0 {
			select {
			case c.in <- line:
			case <-c.closed:
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// longLine reads a line. Of one that is too long it returns more than MaxLine bytes, and passes over the rest.
func longLine(r *bufio.Reader) (line []byte, err error) {
	for {
		part, err := r.ReadSlice('\n')
		if len(line) <= MaxLine {
			line = append(line, part...)
		}
		if err != bufio.ErrBufferFull {
			return line, err
		}
	}
}

// Read implements mcp.Connection.
func (c *lineConn) Read(ctx context.Context) (jsonrpc.Message, error) {
	for {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-c.closed:
			return nil, io.EOF
		case line, ok := <-c.in:
			if !ok {
				return nil, io.EOF
			}
			message, wrong := decode(line)
			if wrong == nil && !c.begin(message) {
				wrong = &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest,
					Message: "a request with this id has no answer yet"}
			}
			if wrong == nil {
				return message, nil
			}
			if err := c.refuse(wrong); err != nil {
				return nil, err
			}
		}
	}
}

// begin remembers the id of a request; false: another one has it. The SDK would drop the second without an answer.
func (c *lineConn) begin(m jsonrpc.Message) bool {
	q, ok := m.(*jsonrpc.Request)
	if !ok || !q.IsCall() {
		return true
	}
	c.idMu.Lock()
	defer c.idMu.Unlock()
	if c.ids[q.ID] {
		return false
	}
	c.ids[q.ID] = true
	return true
}

// decode reads a message, or returns why it is invalid.
func decode(line []byte) (jsonrpc.Message, *jsonrpc.Error) {
	switch {
	case len(line) > MaxLine:
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "the message is too long"}
	case line[0] == '[':
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "batches are not accepted"}
	}
	// It has one meaning: no name twice, nothing nested too deep.
	v, err := jcs.Parse(line)
	if err != nil {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeParseError, Message: fault.Clip(err.Error(), 200)}
	}
	if m, ok := v.(map[string]any); ok && !isID(m) {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest,
			Message: "the id must be a string, or an integer of at most 53 bits"}
	}
	message, err := jsonrpc.DecodeMessage(line)
	if q, ok := message.(*jsonrpc.Request); err == nil && ok && q.Method == "" {
		err = errors.New("the method is empty")
	}
	if err != nil {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: fault.Clip(err.Error(), 200)}
	}
	return message, nil
}

// isID reports whether a message has no id, or one that its answer can have. The SDK makes an integer of every number,
// which would be the id of another request.
func isID(message map[string]any) bool {
	id, ok := message["id"]
	_, text := id.(string)
	_, answers := message["error"]
	n, number := jcs.Number(id)
	return !ok || text || id == nil && answers || number && n == math.Trunc(n) && math.Abs(n) <= 1<<53-1
}

func refusal(wrong *jsonrpc.Error) any {
	return map[string]any{"jsonrpc": "2.0", "id": nil, "error": wrong}
}

// refuse answers an invalid line, whose id is unknown.
func (c *lineConn) refuse(wrong *jsonrpc.Error) error {
	b, err := json.Marshal(refusal(wrong))
	if err != nil {
		return err
	}
	return c.write(b)
}

// Write implements mcp.Connection.
func (c *lineConn) Write(_ context.Context, message jsonrpc.Message) error {
	b, err := jsonrpc.EncodeMessage(message)
	if err != nil {
		return err
	}
	if r, ok := message.(*jsonrpc.Response); ok {
		c.idMu.Lock()
		delete(c.ids, r.ID)
		c.idMu.Unlock()
	}
	return c.write(b)
}

func (c *lineConn) write(line []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-c.closed:
		return io.ErrClosedPipe
	default:
	}
	_, err := c.w.Write(append(line, '\n'))
	return err
}

// Close implements mcp.Connection.
func (c *lineConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return nil
}

// SessionID implements mcp.Connection.
func (c *lineConn) SessionID() string { return "" }
