package mcp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/exec/primitive"
	"github.com/rye-build/rye/manifest/policy/floor"
)

const (
	// maxIdle is how many servers are kept that do nothing, and idleTime for how long.
	maxIdle  = 16
	idleTime = time.Minute
	// handshake is how long a server may take until it can be used.
	handshake = time.Minute
	// lastWord is how long a server may take to answer a cancelled call, or to end when its input has.
	lastWord = time.Second
)

// A connection is to one server.
type connection struct {
	client *Client
	key    string
	peer   peer
	ready  chan struct{} // closed when it is open, or failed to
	err    error         // it failed to

	// Of the client's mutex:
	users   int
	retired bool // it takes no more calls
	idle    time.Time
	timer   *time.Timer

	session *mcp.ClientSession
	calls   sync.Map // of *call by progress token
	last    atomic.Int64

	listing chan struct{} // held by one that looks at the tools
	stale   atomic.Bool
	tools   map[string]definition
	tokens  float64 // listings that may be made at once
	filled  time.Time
}

// A peer is the way to a server.
type peer interface {
	mcp.Transport
	// enforced says what the server is confined by.
	enforced() (floor.Level, []string)
	// stop ends the way and the server, if that was started, and returns when nothing is left.
	stop(grace time.Duration)
	// broken stops it, and says how the server broke the protocol or ended, "" if it did neither, and the limit that
	// ended it.
	broken() (why, ended string)
	// started returns the error that nothing was started, after broken; nil if it was.
	started() error
	// dead reports whether it has ended.
	dead() bool
}

// A definition is what a server announces of a tool: its digest, or why it has none.
type definition struct {
	digest cas.Digest
	err    error
}

var errClosed = errors.New("the program is ending")

// take returns an open connection for an action. The caller gives it back. An error with a connection says that this
// one is of no use.
func (c *Client) take(ctx context.Context, a *primitive.Action, q *request,
	dial func(changed func()) (peer, error)) (*connection, error) {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil, errClosed
	}
	k := c.kept[q.key]
	if k != nil && k.peer.dead() {
		c.drop(k)
		if k.users == 0 {
			go k.end(0)
		}
		k = nil
	}
	if k == nil {
		k = &connection{client: c, key: q.key, ready: make(chan struct{}), listing: make(chan struct{}, 1),
			tokens: maxListings, filled: time.Now()}
		k.stale.Store(true)
		p, err := dial(func() { k.stale.Store(true) })
		if err != nil {
			c.mu.Unlock()
			return nil, err
		}
		k.peer = p
		if c.kept == nil {
			c.kept = map[string]*connection{}
		}
		c.kept[q.key] = k
		c.all.Add(1)
		go k.open()
	}
	k.users++
	if k.timer != nil {
		k.timer.Stop()
		k.timer = nil
	}
	c.mu.Unlock()
	select {
	case <-k.ready:
		return k, k.err
	case <-ctx.Done():
		return k, context.Cause(ctx)
	}
}

// open makes the connection ready.
func (k *connection) open() {
	defer close(k.ready)
	ctx, stop := context.WithTimeoutCause(context.Background(), handshake,
		fmt.Errorf("it did not answer within %s", handshake))
	defer stop()
	client := mcp.NewClient(&mcp.Implementation{Name: "rye", Version: k.client.Version}, &mcp.ClientOptions{
		Capabilities:                &mcp.ClientCapabilities{},
		ToolListChangedHandler:      func(context.Context, *mcp.ToolListChangedRequest) { k.stale.Store(true) },
		ProgressNotificationHandler: k.progress,
	})
	session, err := client.Connect(ctx, k.peer, nil)
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		k.err = err
		return
	}
	k.session = session
}

// give ends the use of a connection. What is retired and has no user ends before give returns.
func (c *Client) give(k *connection, retire bool) {
	c.mu.Lock()
	if retire && !k.retired {
		k.retired = true
		if c.kept[k.key] == k {
			delete(c.kept, k.key)
		}
	}
	k.users--
	var over []*connection
	if k.users == 0 {
		if k.retired {
			over = append(over, k)
		} else {
			k.idle = time.Now()
			k.timer = time.AfterFunc(cmp.Or(c.idle, idleTime), func() { c.expire(k) })
			over = c.surplus()
		}
	}
	c.mu.Unlock()
	for _, o := range over {
		if o == k {
			o.end(0)
		} else {
			go o.end(lastWord)
		}
	}
}

// surplus takes away the longest idle connections of too many. The mutex is held.
func (c *Client) surplus() []*connection {
	var idle []*connection
	for _, k := range c.kept {
		if k.users == 0 {
			idle = append(idle, k)
		}
	}
	if len(idle) <= maxIdle {
		return nil
	}
	slices.SortFunc(idle, func(x, y *connection) int { return x.idle.Compare(y.idle) })
	idle = idle[:len(idle)-maxIdle]
	for _, k := range idle {
		c.drop(k)
	}
	return idle
}

// drop lets a connection take no more calls. The mutex is held.
func (c *Client) drop(k *connection) {
	k.retired = true
	delete(c.kept, k.key)
	if k.timer != nil {
		k.timer.Stop()
	}
}

// expire ends a connection that was idle for long enough.
func (c *Client) expire(k *connection) {
	c.mu.Lock()
	if k.users > 0 || k.retired {
		c.mu.Unlock()
		return
	}
	c.drop(k)
	c.mu.Unlock()
	k.end(lastWord)
}

// end ends the server of a connection that takes no more calls.
func (k *connection) end(grace time.Duration) {
	defer k.client.all.Done()
	k.peer.stop(grace)
	<-k.ready
	if k.session != nil {
		k.session.Close()
	}
	k.peer.stop(0)
}

// Close implements primitive.Closer. Calls that still run fail.
func (c *Client) Close() error {
	c.mu.Lock()
	c.closed = true
	var idle []*connection
	for _, k := range c.kept {
		if k.users == 0 {
			c.drop(k)
			idle = append(idle, k)
		} else {
			k.retired = true
			delete(c.kept, k.key)
			go k.peer.stop(0)
		}
	}
	c.mu.Unlock()
	for _, k := range idle {
		go k.end(lastWord)
	}
	c.all.Wait()
	return nil
}
