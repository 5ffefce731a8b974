package sink

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/coder/websocket"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/primitive"
)

// noServer returns the error for an unreachable server; lost is how many messages may not have arrived.
func noServer(host string, lost int, err error) error {
	e := fault.New(fault.Unavailable, "can't reach %q: %v", host, err)
	if lost > 0 {
		e.Text = fmt.Sprintf("lost the connection to %q, which may not have received %s: %v", host,
			fault.Count(int64(lost), "message"), err)
	}
	return e.On("host", host).On("lost", lost).From(err)
}

// stall is how long a connection may make no progress.
const stall = 30 * time.Second

// A server sends lines as messages to a server.
type server struct {
	Opener
	ctx   context.Context
	url   *url.URL
	conn  *websocket.Conn
	lines splitter

	pending [][]byte // written, but perhaps not arrived
	size    int      // of pending in bytes
	err     error    // the first error; nothing is sent after it
}

func (o Opener) connect(ctx context.Context, u *url.URL) (*server, error) {
	if o.stall == 0 {
		o.stall = stall
	}
	if o.sleep == nil {
		o.sleep = cas.Sleep
	}
	s := &server{Opener: o, ctx: ctx, url: u}
	if err := s.dial(); err != nil {
		return nil, s.failed(err)
	}
	return s, nil
}

func (s *server) failed(err error) error {
	if s.ctx.Err() != nil {
		return context.Cause(s.ctx)
	}
	return noServer(s.url.Host, len(s.pending), err)
}

// dial opens a connection.
func (s *server) dial() error {
	ctx, stop := context.WithTimeout(s.ctx, s.stall)
	defer stop()
	one := new(http.Protocols)
	one.SetHTTP1(true)
	transport := &http.Transport{TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: s.Roots},
		Protocols: one}
	client := &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}
	conn, _, err := websocket.Dial(ctx, s.url.String(), &websocket.DialOptions{HTTPClient: client})
	if err != nil {
		return err
	}
	s.conn = conn
	// Pongs arrive only while something reads. After a read error a ping fails too.
	go func() {
		defer conn.CloseNow()
		for {
			if _, _, err := conn.Read(s.ctx); err != nil {
				return
			}
		}
	}()
	return nil
}

// Emit implements primitive.Sink.
func (s *server) Emit(stream primitive.Stream, b []byte) error {
	if stream != primitive.Stdout || s.err != nil {
		return s.err
	}
	s.err = s.lines.feed(b, s.send)
	return s.err
}

// send writes a message, and then waits if too many messages are pending.
func (s *server) send(line []byte) error {
	s.pending, s.size = append(s.pending, line), s.size+len(line)
	return s.again(func() error {
		if err := s.write(line); err != nil {
			return err
		}
		if len(s.pending) < MaxPending && s.size < MaxPendingBytes {
			return nil
		}
		return s.arrive()
	})
}

// again calls do. If the connection breaks, it reconnects, resends all pending messages and waits for them.
func (s *server) again(do func() error) error {
	err := do()
	for n := 0; err != nil && n < MaxReconnects && s.ctx.Err() == nil; n++ {
		s.conn.CloseNow()
		if no := s.sleep(s.ctx, time.Second/2<<n); no != nil {
			break
		}
		if err = s.dial(); err == nil {
			err = s.resend()
		}
	}
	if err != nil {
		return s.failed(err)
	}
	return nil
}

// resend writes all pending messages, and waits until they have arrived.
func (s *server) resend() error {
	for _, line := range s.pending {
		if err := s.write(line); err != nil {
			return err
		}
	}
	return s.arrive()
}

func (s *server) write(line []byte) error {
	ctx, stop := context.WithTimeout(s.ctx, s.stall)
	defer stop()
	return s.conn.Write(ctx, websocket.MessageText, line)
}

// arrive waits until the server has read all messages.
func (s *server) arrive() error {
	ctx, stop := context.WithTimeout(s.ctx, s.stall)
	defer stop()
	if err := s.conn.Ping(ctx); err != nil {
		return err
	}
	s.pending, s.size = nil, 0
	return nil
}

// Close implements Sink.
func (s *server) Close() error {
	if s.err == nil {
		s.err = s.lines.end(s.send)
	}
	if s.err == nil && len(s.pending) > 0 {
		s.err = s.again(s.arrive)
	}
	if s.err != nil {
		s.conn.CloseNow()
		return s.err
	}
	// The server has everything, so an error of the closing handshake doesn't matter.
	s.conn.Close(websocket.StatusNormalClosure, "")
	return nil
}
