package mcp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rye-build/rye/exec/primitive"
	"github.com/rye-build/rye/exec/primitive/httpclient"
	"github.com/rye-build/rye/exec/sandbox"
	"github.com/rye-build/rye/manifest/jcs"
)

// MaxMessage is the limit on a server's message unless output_mib declares another, in bytes.
const MaxMessage = 4 << 20

// A Client is the primitive.
type Client struct {
	Machine *sandbox.Machine
	HTTP    *httpclient.Client // connects to servers
	Version string             // of rye, sent to servers

	idle   time.Duration // 0: idleTime
	settle time.Duration // 0: lastWord

	mu     sync.Mutex
	closed bool
	kept   map[string]*connection // connections that take calls, by key
	all    sync.WaitGroup         // open connections
}

// Starts implements primitive.Starter.
func (c *Client) Starts(config map[string]any) []string {
	if command, ok := config["command"].(string); ok && config["transport"] == "stdio" {
		return []string{command}
	}
	return nil
}

// Asks implements primitive.Asker: the host of the url, with its port.
func (c *Client) Asks(config map[string]any) string {
	if config["transport"] != "http" {
		return ""
	}
	return c.HTTP.Asks(config)
}

var errTime = errors.New("the time is over")

// Run implements primitive.Primitive.
func (c *Client) Run(ctx context.Context, action *primitive.Action, to primitive.Sink) (*primitive.Result, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	request, err := newRequest(action)
	if err != nil {
		return nil, err
	}
	dial, err := c.dialer(action, request)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	limited, stop := context.WithTimeoutCause(ctx, request.wall, errTime)
	defer stop()
	inner, cancel := context.WithCancelCause(limited)
	defer cancel(nil)
	var k *connection
	var made *call
	for again := range 2 {
		if k, err = c.take(inner, action, request, dial); k == nil {
			return nil, err
		}
		made = &call{request: request, connection: k, to: to, left: request.output, cancel: cancel, began: began,
			notices: make(chan string, 64)}
		if err == nil {
			err = made.make(inner)
		}
		if again > 0 || !errors.Is(err, mcp.ErrSessionMissing) || inner.Err() != nil {
			break
		}
		// The server has forgotten the session, so nothing happened.
		c.give(k, true)
		if dial, err = c.dialer(action, request); err != nil {
			return nil, err
		}
	}
	if inside, ok := errors.AsType[*httpclient.InsideError](err); ok && !made.opened() {
		c.give(k, true)
		return nil, inside // no request was sent
	}
	if refused, ok := errors.AsType[*refusal](err); ok {
		c.give(k, false)
		return nil, refused.error
	}
	r := made.result(ctx, limited, err)
	if made.unusable {
		if err := k.peer.started(); err != nil {
			c.give(k, true)
			return nil, err
		}
	}
	c.give(k, made.unusable)
	return r, nil
}

// dialer returns a function that creates the peer for a server.
func (c *Client) dialer(action *primitive.Action, q *request) (func(func()) (peer, error), error) {
	switch action.Config["transport"] {
	case "stdio":
		cmd, err := command(action)
		if err != nil {
			return nil, err
		}
		return func(changed func()) (peer, error) { return c.start(action, *cmd, q.message, changed) }, nil
	case "http":
		r, err := c.remote(action, q)
		return func(func()) (peer, error) { return r, nil }, err
	}
	return nil, fmt.Errorf("config.transport must be stdio or http, not %v", action.Config["transport"])
}

// A refusal is an error before the server was asked to do anything.
type refusal struct{ error }

// A call is one action.
type call struct {
	*request
	*connection
	to      primitive.Sink // may be nil
	cancel  context.CancelCauseFunc
	began   time.Time
	notices chan string // progress messages
	left    int64       // remaining bytes for the sink

	sent     bool // the server was asked to make the call
	unusable bool // the connection is
	large    bool // the value is too long
	value    any
	failed   bool
	failure  string
}

// A sinkError is an error of the sink.
type sinkError struct{ error }

// make makes the call, or lists the server's announcement.
func (x *call) make(ctx context.Context) error {
	if x.tool == "" {
		v, err := x.announcement(ctx)
		if err != nil {
			x.unusable = ctx.Err() != nil // the server was asked, and may never answer
			return err
		}
		x.value = v
		return x.emit()
	}
	if err := x.check(ctx); err != nil {
		_, asked := errors.AsType[*listError](err)
		x.unusable = asked && ctx.Err() != nil
		return err
	}
	token := x.last.Add(1)
	x.calls.Store(token, x)
	defer x.calls.Delete(token)
	params := &mcp.CallToolParams{Name: x.tool, Arguments: x.arguments}
	params.SetProgressToken(token)
	type end struct {
		r   *mcp.CallToolResult
		err error
	}
	settled := &track{settled: make(chan struct{})}
	ended := make(chan end, 1)
	x.sent = true
	go func() {
		r, err := x.session.CallTool(context.WithValue(ctx, trackKey{}, settled), params)
		ended <- end{r, err}
	}()
	var lost error
	for {
		select {
		case text := <-x.notices:
			if x.left -= int64(len(text) + 1); lost == nil && x.to != nil && x.left >= 0 {
				if err := x.to.Emit(primitive.Stderr, []byte(text+"\n")); err != nil {
					lost = &sinkError{err}
					x.cancel(lost)
				}
			}
		case end := <-ended:
			if end.err == nil && ctx.Err() == nil {
				if err := x.read(end.r); err != nil {
					return err
				}
				return x.emit()
			}
			if ctx.Err() != nil {
				x.unusable = !x.settles(settled)
				return context.Cause(ctx)
			}
			return end.err
		}
	}
}

// settles reports whether the server answers a cancelled call in time.
func (x *call) settles(t *track) bool {
	if _, here := x.peer.(*process); !here {
		return true
	}
	timer := time.NewTimer(cmp.Or(x.client.settle, lastWord))
	defer timer.Stop()
	select {
	case <-t.settled:
		return true
	case <-timer.C:
		return false
	}
}

// progress passes on a server's progress messages to the running call.
func (k *connection) progress(_ context.Context, n *mcp.ProgressNotificationClientRequest) {
	token, ok := jcs.Number(n.Params.ProgressToken)
	if !ok {
		return
	}
	val, ok := k.calls.Load(int64(token))
	if !ok {
		return
	}
	p := n.Params
	text := fmt.Sprint(p.Progress)
	if p.Total > 0 {
		text += fmt.Sprintf(" of %v", p.Total)
	}
	if p.Message != "" {
		text += ": " + p.Message
	}
	select {
	case val.(*call).notices <- clean(strings.Join(strings.Fields(text), " ")):
	default: // more messages than the call reads
	}
}

// emit passes the value on to the sink.
func (x *call) emit() error {
	line, err := jcs.Append(nil, x.value)
	if text, ok := x.value.(string); ok && err == nil {
		line = []byte(strings.TrimSuffix(text, "\n"))
	}
	if err != nil {
		x.value, x.failed, x.failure = nil, true,
			fmt.Sprintf("the server %q answered what can't be passed on: %v", x.server, err)
		return nil
	}
	if int64(len(line))+1 > x.left {
		x.value, x.large = nil, true
		return &brokenError{fmt.Sprintf("the answer has more than %d bytes", x.output), true}
	}
	if x.to == nil {
		return nil
	}
	if err := x.to.Emit(primitive.Stdout, append(line, '\n')); err != nil {
		return &sinkError{err}
	}
	return nil
}

// result returns the Result of the call. ctx is the caller's; limited also has the call's time limit.
func (x *call) result(ctx, limited context.Context, err error) *primitive.Result {
	result := &primitive.Result{Value: x.value, Failed: x.failed, Failure: x.failure}
	said, wire := fmt.Sprintf("the server %q", x.server), (*jsonrpc.Error)(nil)
	sink, much := (*sinkError)(nil), (*brokenError)(nil)
	switch {
	case err == nil:
	case errors.As(err, &sink):
		result.Ended, result.Failure = "cancelled", "its output can't be passed on: "+sink.Error()
	case errors.As(err, &much) && much.output && x.large:
		result.Ended, result.Failure = "output", said+": "+much.why
	case ctx.Err() != nil:
		result.Ended, result.Failure = "cancelled", "cancelled"
		x.unusable = x.unusable || !x.opened()
	case limited.Err() != nil:
		result.Ended, result.Failure = "timeout", fmt.Sprintf("%s did not answer within %s", said, x.wall)
		x.unusable = x.unusable || !x.opened()
	case errors.As(err, &wire) && x.opened() && wire.Message == unsent:
		result.Failure = said + " failed during the call: " + x.explained(err)
	case errors.As(err, &wire) && x.opened():
		result.Failure = fmt.Sprintf("%s answered with the error %d: %s", said, wire.Code, clean(wire.Message))
	default:
		x.unusable = true
		result.Failure, result.Ended = x.broken(said, err)
	}
	result.Failed = result.Failed || err != nil
	result.Level, result.Enforced = x.peer.enforced()
	result.Usage = map[string]int64{"wall_ms": time.Since(x.began).Milliseconds()}
	if result.Failed && result.Ended == "" {
		result.Trouble = &primitive.Trouble{Undone: !x.sent}
		if x.unusable {
			result.Trouble.Type = "ConnectionError"
		}
		if p, ok := x.peer.(*remote); ok {
			p.trouble(result.Trouble)
		}
	}
	return result
}

// opened reports whether the connection was ever open.
func (x *call) opened() bool {
	select {
	case <-x.ready:
		return x.connection.err == nil
	default:
		return false
	}
}

// broken returns why a connection is unusable, and the limit that ended the server, if one did.
func (x *call) broken(said string, err error) (failure, ended string) {
	// so rye ended the server
	if _, version, ok := strings.Cut(err.Error(), "unsupported protocol version: "); ok && !x.opened() {
		x.peer.stop(0)
		return fmt.Sprintf("%s can't be used: it speaks MCP %s, which this rye doesn't", said, clean(version)), ""
	}
	why, ended := x.peer.broken()
	if ended == "output" && !x.declared && strings.HasPrefix(why, longMessage) {
		ended = "message"
	}
	why = cmp.Or(why, x.explained(err))
	verb := "can't be used"
	if x.opened() {
		verb = "failed during the call"
	}
	return fmt.Sprintf("%s %s: %s", said, verb, why), ended
}

// malformed matches encoding/json's error for a value of the wrong type, with Go's names for it.
var malformed = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(
		`(?s)json: cannot unmarshal .*? into Go (?:struct field \S*?\.((?:[a-z0-9_]\w*\.)*[a-z0-9_]\w*)|value) of type \S+`)
})

// unsent is the text of the SDK's error for a request that its transport refused.
const unsent = "rejected by transport"

// explained returns the text of an SDK error in words for people.
func (x *call) explained(err error) string {
	// url.Error's own text has the whole address, which may be secret
	if failed, ok := errors.AsType[*url.Error](err); ok {
		return clean("no connection: " + failed.Err.Error())
	}
	text := malformed().ReplaceAllString(strings.ReplaceAll(err.Error(), unsent+": ", ""),
		`the answer is malformed: ${1} has another type than MCP says`)
	text = strings.ReplaceAll(text, "malformed:  has", "malformed: it has")
	if _, rest, ok := strings.Cut(text, `: sending "`); ok {
		_, text, _ = strings.Cut(rest, `": `)
	}
	if p, ok := x.peer.(*remote); ok {
		if scope := p.wanted(); scope != "" {
			text += fmt.Sprintf(": the token lacks a scope: rye auth login --scope %q", scope)
		}
	}
	return clean(text)
}
