package mcp

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/exec/primitive"
	"github.com/rye-build/rye/exec/primitive/httpclient"
	"github.com/rye-build/rye/lock/web"
	"github.com/rye-build/rye/manifest/policy/floor"
)

const (
	// maxRedirects is how often a server may redirect a request to itself.
	maxRedirects = 5
	// maxRetries is how often the SDK reopens a stream that ended too early.
	maxRetries = 2
)

// A remote is a server reached over Streamable HTTP.
type remote struct {
	mcp.Transport
	guard  *httpclient.Guard
	header http.Header
	agent  string
	most   int64 // limit on a message in bytes
	means  string

	over context.Context // ends all requests
	end  context.CancelFunc

	mu      sync.Mutex
	reason  *brokenError
	tokens  float64 // events that may arrive now
	filled  time.Time
	refused *http.Response // the last answer with an error status, without its body
}

// remote returns the peer for a server. It sends nothing yet.
func (c *Client) remote(action *primitive.Action, request *request) (*remote, error) {
	raw, _ := action.Config["url"].(string)
	guard, err := c.HTTP.Guard(action.Sandbox.Network, raw)
	if err != nil {
		return nil, err
	}
	remote := &remote{guard: guard, header: http.Header{}, agent: "rye/" + c.Version, most: request.message,
		means: "network:hosts", tokens: burst, filled: time.Now()}
	if action.Sandbox.Network.All {
		remote.means = "network:public"
	}
	lines, _ := action.Config["headers"].(map[string]any)
	for name, v := range lines {
		text, ok := v.(string)
		if !ok {
			return nil, fmt.Errorf("the header %q must be a string, not %T", name, v)
		}
		if key := http.CanonicalHeaderKey(name); strings.HasPrefix(key, "Mcp-") || key == "Accept" ||
			key == "Content-Type" || key == "Last-Event-Id" {
			return nil, fmt.Errorf("the header %q can't be set: it is the protocol's", name)
		}
		if err := httpclient.SetHeader(remote.header, name, text); err != nil {
			return nil, err
		}
	}
	remote.over, remote.end = context.WithCancel(context.Background())
	remote.Transport = &mcp.StreamableClientTransport{
		Endpoint: guard.URL.String(), MaxRetries: maxRetries, MaxEventSize: int(min(request.message, 1<<30)),
		HTTPClient: &http.Client{Transport: remote, CheckRedirect: func(_ *http.Request, via []*http.Request) error {
			if len(via) > maxRedirects {
				return fmt.Errorf("the server redirects more than %d times", maxRedirects)
			}
			return nil
		}},
	}
	return remote, nil
}

// RoundTrip implements http.RoundTripper.
func (r *remote) RoundTrip(q *http.Request) (*http.Response, error) {
	ctx, stop := context.WithCancelCause(q.Context())
	free := context.AfterFunc(r.over, func() { stop(context.Canceled) })
	q = q.Clone(ctx)
	q.Header.Set("User-Agent", r.agent)
	for name, v := range r.header {
		q.Header[name] = v
	}
	resp, err := r.guard.RoundTrip(q)
	if err != nil {
		free()
		stop(nil)
		return nil, err
	}
	if resp.StatusCode >= 400 {
		r.mu.Lock()
		r.refused = &http.Response{StatusCode: resp.StatusCode, Header: resp.Header}
		r.mu.Unlock()
	}
	b := &body{ReadCloser: resp.Body, remote: r, ctx: ctx, done: func() { free(); stop(nil) }}
	b.events = strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream")
	resp.Body = b
	return resp, nil
}

// A body limits a server's answer: the bytes of a message, and the events of a stream per second.
type body struct {
	io.ReadCloser
	remote *remote
	ctx    context.Context
	done   func()
	events bool // the body is a stream of events
	size   int64
	// longest is the size of the longest event so far.
	longest int64
	blank   bool // the current line is empty so far
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if !b.events {
		b.size += int64(n)
	} else if slow := b.count(p[:n]); slow > 0 {
		if cas.Sleep(b.ctx, slow) != nil {
			return 0, context.Cause(b.ctx)
		}
	}
	if max(b.size, b.longest) > b.remote.most {
		e := &brokenError{fmt.Sprintf(longMessage+"%d bytes", b.remote.most), true}
		b.remote.broke(e)
		return 0, e
	}
	return n, err
}

// count counts the bytes and events in p, and returns how long to wait if there were too many events.
func (b *body) count(p []byte) (slow time.Duration) {
	ended := 0
	for line := range bytes.Lines(p) {
		text := bytes.Trim(line, "\r\n")
		b.size += int64(len(line))
		if len(text) > 0 {
			b.blank = false
		}
		if line[len(line)-1] == '\n' {
			if b.blank {
				ended++
				b.longest = max(b.longest, b.size-int64(len(line)))
				b.size = 0
			}
			b.blank = true
		}
	}
	if ended == 0 {
		return 0
	}
	r := b.remote
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	r.tokens = min(burst, r.tokens+now.Sub(r.filled).Seconds()*eventsPerSecond) - float64(ended)
	r.filled = now
	if r.tokens >= 0 {
		return 0
	}
	return time.Duration(-r.tokens / eventsPerSecond * float64(time.Second))
}

// eventsPerSecond limits a server's events, answers included. More are read later.
const eventsPerSecond = 2000

func (b *body) Close() error {
	defer b.done()
	return b.ReadCloser.Close()
}

func (r *remote) broke(e *brokenError) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.reason == nil {
		r.reason = e
	}
}

// enforced implements peer.
func (r *remote) enforced() (floor.Level, []string) {
	return floor.Namespace, []string{"in-process", r.means}
}

// stop implements peer.
func (r *remote) stop(grace time.Duration) {
	if grace > 0 {
		time.AfterFunc(grace, r.end) // for the session's last request
		return
	}
	r.end()
	r.guard.Close()
}

// broken implements peer.
func (r *remote) broken() (why, ended string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e := r.reason; e != nil {
		r.end()
		return e.why, "output"
	}
	return "", ""
}

// started implements peer.
func (r *remote) started() error { return nil }

// dead implements peer.
func (r *remote) dead() bool { return r.over.Err() != nil }

// wanted returns the OAuth scope that the token lacks, if the server's last answer reported that.
func (r *remote) wanted() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.refused == nil || r.refused.StatusCode != http.StatusForbidden {
		return ""
	}
	all, err := oauthex.ParseWWWAuthenticate(r.refused.Header.Values("WWW-Authenticate"))
	if err != nil {
		return ""
	}
	for _, c := range all {
		if c.Scheme == "bearer" && c.Params["error"] == "insufficient_scope" {
			return clean(c.Params["scope"])
		}
	}
	return ""
}

// trouble describes the last answer with an error status.
func (r *remote) trouble(t *primitive.Trouble) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.refused == nil {
		return
	}
	t.Status, t.After = r.refused.StatusCode, web.RetryAfter(r.refused.Header)
	t.Undone = t.Undone || t.Status == http.StatusTooManyRequests || t.Status == http.StatusUnauthorized
	if t.Status == http.StatusServiceUnavailable && t.After > 0 {
		t.Undone = true
	}
}
