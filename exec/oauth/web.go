package oauth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
	"unicode"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/lock/web"
)

const (
	maxAnswer = 64 << 10
	maxHeader = 64 << 10
	patience  = 30 * time.Second // limit on one answer
)

// A client sends requests only to addresses within a depth.
type client struct {
	depths web.Depths
	most   atomic.Int64 // a web.Depth
	plain  *http.Client // follows no redirects
	guided *http.Client // follows redirects that package oauthex allows
}

func newClient() *client {
	client := &client{depths: web.NewDepths()}
	dialer := net.Dialer{Timeout: patience, Control: func(_, address string, _ syscall.RawConn) error {
		to, err := netip.ParseAddrPort(address)
		if err != nil {
			return err
		}
		if client.depths.Of(to.Addr()) > web.Depth(client.most.Load()) {
			return fmt.Errorf("%s is not on the internet, as the server is", to.Addr())
		}
		return nil
	}}
	direct := web.NewTransport(dialer, nil, maxHeader)
	proxied := web.NewTransport(net.Dialer{Timeout: patience}, nil, maxHeader)
	proxied.Proxy = http.ProxyFromEnvironment
	by := transport(func(r *http.Request) (*http.Response, error) {
		if proxy, err := http.ProxyFromEnvironment(r); proxy != nil || err != nil {
			return proxied.RoundTrip(r)
		}
		return direct.RoundTrip(r)
	})
	client.plain = &http.Client{Transport: by, Timeout: patience,
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		}}
	client.guided = &http.Client{Transport: by, Timeout: patience}
	return client
}

type transport func(*http.Request) (*http.Response, error)

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) { return t(r) }

// within lets the client reach addresses as private as the server's, which the user gave.
func (c *client) within(ctx context.Context, server *url.URL) {
	most := web.DepthPublic
	addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip", server.Hostname())
	if err != nil {
		return // the request to the server fails with the reason
	}
	for _, a := range addrs {
		most = max(most, c.depths.Of(a))
	}
	c.most.Store(int64(min(most, web.DepthLocal)))
}

// Address parses the address of a server.
func Address(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.Opaque != "":
		return nil, fault.New(fault.Validation, "%q is not a server address", text)
	case u.User != nil || u.Fragment != "":
		return nil, fault.New(fault.Validation, "the address %q has a user or a fragment in it", text)
	case u.Scheme != "https" && (u.Scheme != "http" || !loopback(u.Hostname())):
		return nil, fault.New(fault.Validation, "the address %q is not https; http is for this machine alone", text)
	}
	return u, nil
}

func loopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback() || host == "localhost"
}

// unreachable returns the error for a server that doesn't answer.
func unreachable(at string, err error) error {
	if failed, ok := errors.AsType[*url.Error](err); ok {
		err = failed.Err
	}
	return fault.New(fault.Unavailable, "%s can't be reached: %s", hostOf(at), clip(err.Error())).On("address",
		at).From(err)
}

func hostOf(at string) string {
	if u, err := url.Parse(at); err == nil && u.Host != "" {
		return u.Host
	}
	return at
}

func clip(s string) string { return fault.Clip(s, 200) }

// denied returns the error for a failed sign-in.
func denied(format string, args ...any) *fault.Error {
	return fault.New(fault.AuthFailed, format, args...)
}

// post sends a form to a token endpoint and parses the answer.
func (c *client) post(ctx context.Context, at string, form url.Values, grant *Grant) (*tokens, error) {
	if grant.ClientSecret != "" && grant.SecretIn == "form" {
		form.Set("client_secret", grant.ClientSecret)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, at, strings.NewReader(form.Encode()))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Accept", "application/json")
	if grant.ClientSecret != "" && grant.SecretIn == "" {
		r.SetBasicAuth(url.QueryEscape(grant.ClientID), url.QueryEscape(grant.ClientSecret))
	}
	answer, err := c.plain.Do(r)
	if err != nil {
		return nil, unreachable(at, err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer+1))
	if err != nil {
		return nil, unreachable(at, err)
	}
	tokens := new(tokens)
	kind, _, _ := mime.ParseMediaType(answer.Header.Get("Content-Type"))
	switch {
	case len(text) > maxAnswer:
		return nil, denied("%s answers with more than %d bytes", hostOf(at), maxAnswer)
	case kind != "application/json" || json.Unmarshal(text, tokens) != nil:
		return nil, denied("%s answers with status %d and nothing that is readable", hostOf(at), answer.StatusCode)
	case tokens.Error != "":
		return nil, &refusedError{denied("%s refuses: %s", hostOf(at),
			clip(strings.TrimSpace(tokens.Error+" "+tokens.Why))).On("error", clip(tokens.Error)), tokens.Error}
	case answer.StatusCode != http.StatusOK:
		return nil, denied("%s answers with status %d", hostOf(at), answer.StatusCode)
	case tokens.Access == "" || !strings.EqualFold(tokens.Type, "bearer"):
		return nil, denied("%s gives no bearer token", hostOf(at))
	case hasControl(tokens.Access) || hasControl(tokens.Refresh):
		return nil, denied("%s gives a token with a control character", hostOf(at))
	}
	return tokens, nil
}

// hasControl reports whether a token has a control character, such as a line break. No header can carry such a token.
func hasControl(token string) bool { return strings.ContainsFunc(token, unicode.IsControl) }

// tokens is the answer of a token endpoint.
type tokens struct {
	Access  string      `json:"access_token"`
	Type    string      `json:"token_type"`
	Refresh string      `json:"refresh_token"`
	Seconds json.Number `json:"expires_in"`
	Scope   string      `json:"scope"`
	Error   string      `json:"error"`
	Why     string      `json:"error_description"`
}

// A refusedError is a refusal by an authorization server.
type refusedError struct {
	err  *fault.Error
	code string
}

func (e *refusedError) Error() string { return e.err.Error() }
func (e *refusedError) Unwrap() error { return e.err }
