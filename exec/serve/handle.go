package serve

import (
	"context"
	"encoding/json"
	"math"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rye-build/rye/cas/fault"
)

type admittedKey struct{}

// An admitted request has a token, and a server that may end.
type admitted struct {
	token   *Token
	streams context.Context
}

// CallerOf returns the token of a request that Handle has let in, else nil.
func CallerOf(ctx context.Context) *Token {
	a, _ := ctx.Value(admittedKey{}).(admitted)
	return a.token
}

// Listening returns the context of a request that only waits for news: it ends as soon as the server begins to end.
func Listening(ctx context.Context) (context.Context, context.CancelFunc) {
	a, _ := ctx.Value(admittedKey{}).(admitted)
	ctx, cancel := context.WithCancel(ctx)
	if a.streams == nil {
		return ctx, cancel
	}
	stop := context.AfterFunc(a.streams, cancel)
	return ctx, func() { stop(); cancel() }
}

// Principal returns the name of a token in records of calls.
func Principal(t *Token) string { return ofToken + t.Name }

// ofToken begins the principals of tokens.
const ofToken = "token:"

// Left says why a call isn't made any more in the name of a caller that asked for it at some time, "" if it is: its
// token was removed, has expired, or is another one by now.
func Left(tokens *Tokens, principal, tenant string, asked time.Time) (why string, err error) {
	name, is := strings.CutPrefix(principal, ofToken)
	if !is { // the user
		return "", nil
	}
	if t, err := tokens.Find(name); err != nil || t != nil && t.Tenant == tenant && t.Has(Call) &&
		!t.Created.After(asked) {
		return "", err
	}
	return "the token " + name + " opens nothing any more", nil
}

// Handle serves a path to tokens with a scope. The context of a request ends with the client's connection, with its
// token, and after the grace when the server ends.
func (s *Server) Handle(path string, scope Scope, handler http.Handler) {
	s.mux.HandleFunc(path, func(response http.ResponseWriter, request *http.Request) {
		defer s.recovered()
		t, status, err := s.admit(request, scope)
		if err != nil {
			Refuse(response, status, err)
			return
		}
		defer s.leave(t)
		ctx, cancel := context.WithCancelCause(context.WithValue(request.Context(), admittedKey{},
			admitted{t, s.streams}))
		defer cancel(nil)
		l := &live{t, cancel}
		s.mu.Lock()
		s.live[l] = true
		s.mu.Unlock()
		defer func() {
			s.mu.Lock()
			delete(s.live, l)
			s.mu.Unlock()
		}()
		handler.ServeHTTP(response, request.WithContext(ctx))
	})
}

// Open registers a handler whose requests need no token of this package. It may check tokens of its own. Requests of
// one address count as those of one token do.
func (s *Server) Open(pattern string, handler http.Handler) {
	s.mux.HandleFunc(pattern, func(response http.ResponseWriter, request *http.Request) {
		defer s.recovered()
		visitor, status, err := s.admitVisitor(request)
		if err != nil {
			Refuse(response, status, err)
			return
		}
		defer s.leave(visitor)
		handler.ServeHTTP(response, request)
	})
}

// admitVisitor admits a request without a token.
func (s *Server) admitVisitor(r *http.Request) (*Token, int, error) {
	if err := s.hosts.check(r); err != nil {
		return nil, http.StatusForbidden, err
	}
	address, _, _ := net.SplitHostPort(r.RemoteAddr)
	visitor := &Token{Name: "of " + address, Digest: "visitor:" + address}
	if wait := s.rates.take(visitor.Digest); wait > 0 && !s.o.Proxied {
		return nil, http.StatusTooManyRequests, fault.New(fault.RateLimited,
			"this address has sent more than %d requests in a minute", s.o.Rate).
			On("retry_after", math.Ceil(wait.Seconds()))
	}
	if err := s.enter(visitor); err != nil {
		return nil, http.StatusServiceUnavailable, err
	}
	return visitor, 0, nil
}

// recovered reports a handler's panic, which ends its request and no other.
func (s *Server) recovered() {
	p := recover()
	if p == nil {
		return
	}
	if p != http.ErrAbortHandler {
		s.o.Warn(fault.New(fault.Unknown, "a request has failed: %v", p))
	}
	panic(http.ErrAbortHandler) // the client sees that the answer is not whole
}

// admit decides whether a request comes in, and counts one that does.
func (s *Server) admit(r *http.Request, scope Scope) (*Token, int, error) {
	if err := s.hosts.check(r); err != nil {
		return nil, http.StatusForbidden, err
	}
	secret, err := Bearer(r)
	if err != nil {
		return nil, http.StatusUnauthorized, err
	}
	token, err := s.o.Tokens.Check(secret)
	switch {
	case err != nil && fault.CodeOf(err) == fault.AuthFailed:
		return nil, http.StatusUnauthorized, err
	case err != nil:
		s.o.Warn(err) // the client needn't know where the tokens are
		return nil, http.StatusServiceUnavailable, fault.New(fault.Unavailable, "the server can't read its tokens")
	case !token.Has(scope):
		return nil, http.StatusForbidden, fault.New(fault.Denied, "the token %q has no scope %q", token.Name,
			scope).On("scope", string(scope)).
			Try(fault.Command("rye serve token add NAME --scope", string(scope)))
	}
	if wait := s.rates.take(token.Digest); wait > 0 {
		return nil, http.StatusTooManyRequests, fault.New(fault.RateLimited,
			"the token %q has sent more than %d requests in a minute", token.Name, s.o.Rate).
			On("retry_after", math.Ceil(wait.Seconds()))
	}
	if err := s.enter(token); err != nil {
		return nil, http.StatusServiceUnavailable, err
	}
	return token, 0, nil
}

// enter counts a request that begins, or refuses it. One token has at most half of all.
func (s *Server) enter(token *Token) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.draining.Load():
		return fault.New(fault.Unavailable, "the server is ending")
	case s.running >= s.o.Most:
		return fault.New(fault.Busy, "the server has %d requests already", s.o.Most)
	case s.of[token.Digest] >= max(1, s.o.Most/2):
		return fault.New(fault.Busy, "the token %q has %d requests already", token.Name, s.of[token.Digest])
	}
	s.running++
	s.of[token.Digest]++
	return nil
}

func (s *Server) leave(t *Token) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running--
	if s.of[t.Digest]--; s.of[t.Digest] == 0 {
		delete(s.of, t.Digest)
	}
}

// Bearer returns the token that a request carries.
func Bearer(r *http.Request) (string, error) {
	values := r.Header.Values("Authorization")
	if len(values) > 1 {
		return "", fault.New(fault.AuthRequired, "the request has %d headers Authorization; one is allowed",
			len(values))
	}
	if len(values) == 0 {
		return "", fault.New(fault.AuthRequired,
			"the request has no token: it needs the header Authorization: Bearer TOKEN").
			Try("rye serve token add NAME")
	}
	scheme, secret, _ := strings.Cut(values[0], " ")
	if !strings.EqualFold(scheme, "bearer") {
		return "", fault.New(fault.AuthRequired,
			"the header Authorization has no bearer token").Try("rye serve token add NAME")
	}
	return strings.TrimSpace(secret), nil
}

// Refuse answers a request with an error.
func Refuse(response http.ResponseWriter, status int, err error) {
	object := fault.Of(err).Object()
	header := response.Header()
	switch status {
	case http.StatusUnauthorized:
		header.Set("WWW-Authenticate", `Bearer realm="rye"`)
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		after := 1.0
		if details, ok := object.Details.(map[string]any); ok {
			if seconds, ok := details["retry_after"].(float64); ok {
				after = seconds
			}
		}
		header.Set("Retry-After", strconv.Itoa(int(after)))
	}
	Answer(response, status, map[string]any{"success": false, "error": object})
}

// health answers whether a server is well. Why it isn't is for its log, not for strangers.
func health(w http.ResponseWriter, err error) {
	status := http.StatusOK
	if err != nil {
		status = http.StatusServiceUnavailable
	}
	Answer(w, status, map[string]any{"ok": err == nil})
}

// Answer writes an object as JSON.
func Answer(w http.ResponseWriter, status int, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		status, b = http.StatusInternalServerError, []byte(`{"success":false}`)
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	w.Write(append(b, '\n'))
}

// rates counts the requests of each token. A token may send as many at once as in a minute, and gets them back evenly.
type rates struct {
	most int // in a minute
	now  func() time.Time

	mu    sync.Mutex
	spent map[string]bucket
}

type bucket struct {
	used float64
	at   time.Time
}

// take counts a request, or returns how long to wait for it.
func (r *rates) take(id string) (wait time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	if r.spent == nil || len(r.spent) > 2*MostTokens {
		r.spent = map[string]bucket{}
	}
	b := r.spent[id]
	b.used = max(0, b.used-now.Sub(b.at).Minutes()*float64(r.most))
	if b.used+1 > float64(r.most) {
		return time.Duration((b.used + 1 - float64(r.most)) / float64(r.most) * float64(time.Minute))
	}
	r.spent[id] = bucket{b.used + 1, now}
	return 0
}
