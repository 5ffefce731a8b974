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
	// maxIdle is how many idle servers are kept, and idleTime how long.
	maxIdle  = 16
	idleTime = time.Minute
	// handshake is how long a server may take to become usable.
	handshake = time.Minute
	// lastWord is how long a server may take to answer a cancelled call, or to end after its input has ended.
	lastWord = time.Second
)

// A connection is to one server.
type connection struct {
	client *Client
	key    string
	peer   peer
	ready  chan struct{} // closed when the connection is open or has failed
	err    error         // why it failed

	// Guarded by the client's mutex:
	users   int
	retired bool // it takes no more calls
	idle    time.Time
	timer   *time.Timer

	session *mcp.ClientSession
	calls   sync.Map // of *call by progress token
	last    atomic.Int64

	listing chan struct{} // a lock for listing the tools
	stale   atomic.Bool
	tools   map[string]definition
	tokens  float64 // listings that may start now
	filled  time.Time
}

// A peer is the transport to a server, and its process if it has one.
type peer interface {
	mcp.Transport
	// enforced returns the server's confinement.
	enforced() (floor.Level, []string)
	// stop ends the transport and the server's process, and returns when nothing of them is left.
	stop(grace time.Duration)
	// broken stops the peer, and returns how the server broke the protocol or ended, or "", and the limit that ended
	// it.
	broken() (why, ended string)
	// started returns an error if no process was started. It is called after broken.
	started() error
	// dead reports whether the peer has ended.
	dead() bool
}

// A definition is the digest of a tool's definition, or the error of an invalid one.
type definition struct {
	digest cas.Digest
	err    error
}

var errClosed = errors.New("the program is ending")

// take returns an open connection for an action, which the caller returns with give. A connection returned with an
// error is unusable.
func (c *Client) take(ctx context.Context, a *primitive.Action, request *request,
	dial func(changed func()) (peer, error)) (*connection, error) {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil, errClosed
	}
	k := c.kept[request.key]
	if k != nil && k.peer.dead() {
		c.drop(k)
		if k.users == 0 {
			go k.end(0)
		}
		k = nil
	}
	if k == nil {
		k = &connection{client: c, key: request.key, ready: make(chan struct{}), listing: make(chan struct{}, 1),
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
		c.kept[request.key] = k
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

// open completes the handshake.
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

// give ends one use of a connection. A retired connection without users ends before give returns.
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

// surplus removes the longest idle connections above the limit. The caller holds the mutex.
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

// drop removes a connection from those that take calls. The caller holds the mutex.
func (c *Client) drop(k *connection) {
	k.retired = true
	delete(c.kept, k.key)
	if k.timer != nil {
		k.timer.Stop()
	}
}

// expire ends a connection that was idle for too long.
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

// end ends the server of a retired connection.
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
