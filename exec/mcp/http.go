package mcp

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/serve"
)

const (
	idle = 30 * time.Minute
	// sessionless is the first revision whose clients have no session over HTTP.
	sessionless = "2026-07-28"
	// Sessions at once: of all clients, and of those with one token.
	maxSessions = 1000
	maxOwn      = 250
	// Messages over HTTP that are longer than this take turns: so many are in memory at once.
	longMessage = 256 << 10
	maxLong     = 16
)

// Handler serves clients over Streamable HTTP that package serve has let in. A session belongs to the token that began
// it.
func (s *Server) Handler() http.Handler {
	sdk := func(*http.Request) *mcp.Server { return s.sdk }
	// Package serve checks Host and Origin, also behind a proxy; bodies are read here.
	o := mcp.StreamableHTTPOptions{DisableLocalhostProtection: true, MaxRequestBodyBytes: -1,
		SessionTimeout: cmp.Or(s.o.Idle, idle)}
	sessions := mcp.NewStreamableHTTPHandler(sdk, &o)
	o.Stateless, o.PropagateRequestCancellation = true, true
	single := mcp.NewStreamableHTTPHandler(sdk, &o)
	long := make(chan struct{}, maxLong)
	known := auth.RequireBearerToken(tokenInfo, &auth.RequireBearerTokenOptions{AllowMissingExpiration: true})
	return known(http.HandlerFunc(func(response http.ResponseWriter, request *http.Request) {
		if request.Method == http.MethodPost && (request.ContentLength < 0 || request.ContentLength > longMessage) {
			select {
			case long <- struct{}{}:
				defer func() { <-long }()
			case <-request.Context().Done():
				return
			}
		}
		message := readBody(response, request)
		if message == nil {
			return
		}
		if request.Method == http.MethodGet || request.Header.Get("Mcp-Method") == "subscriptions/listen" {
			ctx, cancel := serve.Listening(request.Context())
			defer cancel()
			request = request.WithContext(ctx)
		}
		if request.Header.Get("MCP-Protocol-Version") >= sessionless ||
			bytes.Contains(message, []byte(mcp.MetaKeyProtocolVersion)) {
			single.ServeHTTP(response, request)
			return
		}
		sessions.ServeHTTP(response, request)
	}))
}

// tokenInfo identifies the caller to the SDK, which binds sessions to the user ID.
func tokenInfo(ctx context.Context, _ string, _ *http.Request) (*auth.TokenInfo, error) {
	t := serve.CallerOf(ctx)
	if t == nil {
		return nil, auth.ErrInvalidToken
	}
	return &auth.TokenInfo{UserID: t.Digest, Expiration: t.Expires, Extra: map[string]any{"token": t, "request": ctx}},
		nil
}

// readBody reads and checks the message of a request; nil: it was refused. A request without body has an empty
// message.
func readBody(response http.ResponseWriter, request *http.Request) []byte {
	if request.Method != http.MethodPost {
		request.Body = io.NopCloser(new(bytes.Buffer))
		return []byte{}
	}
	control := http.NewResponseController(response)
	// a connection without deadlines, as in tests, doesn't wait
	control.SetReadDeadline(time.Now().Add(serve.BodyTime))
	message, err := io.ReadAll(http.MaxBytesReader(response, request.Body, MaxLine))
	if _, long := errors.AsType[*http.MaxBytesError](err); long {
		serve.Refuse(response, http.StatusRequestEntityTooLarge,
			fault.New(fault.Limit, "the message has more than %d bytes", MaxLine))
		return nil
	}
	if err != nil {
		serve.Refuse(response, http.StatusBadRequest, fault.New(fault.Validation, "the message has not arrived"))
		return nil
	}
	control.SetReadDeadline(time.Time{})
	if message = bytes.TrimSpace(message); len(message) == 0 {
		refuseMessage(response, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "the message is empty"})
		return nil
	}
	if _, wrong := decode(message); wrong != nil {
		refuseMessage(response, wrong)
		return nil
	}
	request.Body = io.NopCloser(bytes.NewReader(message))
	return message
}

// refuseMessage answers an invalid message, whose id is unknown.
func refuseMessage(w http.ResponseWriter, wrong *jsonrpc.Error) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusBadRequest)
	json.NewEncoder(w).Encode(refusal(wrong)) // a client that has gone needs no answer
}

// A caller is who makes a call, for its record; it is zero on standard input and output, where it is the user.
type caller struct{ principal, person, tenant string }

// callerOf returns who makes a call. A call over HTTP ends with its request, because its answer would reach its client
// no more.
func callerOf(ctx context.Context, q *mcp.CallToolRequest) (caller, context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	t, request := tokenOf(q.Extra)
	if t == nil {
		return caller{}, ctx, cancel
	}
	stop := context.AfterFunc(request, cancel)
	return caller{serve.Principal(t), t.Holder(), t.Tenant}, ctx, func() { stop(); cancel() }
}

func tokenOf(extra *mcp.RequestExtra) (*serve.Token, context.Context) {
	if extra == nil || extra.TokenInfo == nil {
		return nil, nil
	}
	t, _ := extra.TokenInfo.Extra["token"].(*serve.Token)
	request, _ := extra.TokenInfo.Extra["request"].(context.Context)
	return t, request
}

// clients are the sessions that were begun over HTTP.
type clients struct {
	mu  sync.Mutex
	all int
	of  map[string]int // by the digest of the token
}

// admit counts sessions, and refuses one too many.
func (c *clients) admit(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, message mcp.Request) (mcp.Result, error) {
		if method != "initialize" {
			return next(ctx, method, message)
		}
		t, _ := tokenOf(message.GetExtra())
		session, ok := message.GetSession().(*mcp.ServerSession)
		if t == nil || !ok || session.ID() == "" {
			return next(ctx, method, message)
		}
		if !c.begin(t.Digest) {
			return nil, wire(fault.New(fault.Busy, "there are too many sessions: end one, or wait until one ends"))
		}
		go func() {
			session.Wait() // how it ended doesn't matter
			c.end(t.Digest)
		}()
		return next(ctx, method, message)
	}
}

func (c *clients) begin(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all >= maxSessions || c.of[id] >= maxOwn {
		return false
	}
	if c.of == nil {
		c.of = map[string]int{}
	}
	c.all++
	c.of[id]++
	return true
}

func (c *clients) end(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all--
	if c.of[id]--; c.of[id] == 0 {
		delete(c.of, id)
	}
}
