package web

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"time"

	"github.com/rye-build/rye/cas/fault"
)

// An Error is the error of Get, and of reading and closing what Get returned.
type Error struct {
	URL   string // the address, without secrets
	From  string // the address that redirected to URL; empty for the first
	Tries int    // the number of attempts, if more than one
	// *RefusedError, *ConnectError, *StatusError, *AnswerError, *LimitError, *ShortError, *SlowError, or the context's
	Err error
}

func (e *Error) Error() string {
	s := strconv.Quote(e.URL) + ": " + e.Err.Error()
	if e.From != "" {
		s += fmt.Sprintf(" (redirected from %q)", e.From)
	}
	if e.Tries > 1 {
		s += fmt.Sprintf(" (%d attempts)", e.Tries)
	}
	return s
}

func (e *Error) Unwrap() error { return e.Err }

// Fault implements the interface of package fault.
func (e *Error) Fault() *fault.Error {
	if errors.Is(e.Err, context.Canceled) || errors.Is(e.Err, context.DeadlineExceeded) {
		return fault.Of(e.Err)
	}
	if own, ok := errors.AsType[*fault.Error](e.Err); ok { // of Options.Token
		return own
	}
	failure := fault.New(fault.Registry, "%s", e).From(e).On("url", e.URL)
	if e.From != "" {
		failure.On("from", e.From)
	}
	var (
		refused *RefusedError
		connect *ConnectError
		status  *StatusError
		limit   *LimitError
		slow    *SlowError
	)
	switch {
	case errors.As(e.Err, &refused):
		refused.explain(failure, e.From != "")
	case errors.As(e.Err, &connect):
		connect.explain(failure)
	case errors.As(e.Err, &status):
		status.explain(failure, e.URL)
	case errors.As(e.Err, &limit):
		failure.Code = fault.Limit
	case errors.As(e.Err, &slow):
		failure.Code = fault.Timeout
	}
	return failure
}

// A Reason is why an address is refused.
type Reason string

const (
	NotAnAddress Reason = "not-an-address"
	NotHTTPS     Reason = "not-https"
	WithUser     Reason = "with-user"
	WithFragment Reason = "with-fragment"
	Inside       Reason = "inside"  // this machine, its link, or a DepthPrivate network
	Nowhere      Reason = "nowhere" // a reserved address
	TooManySteps Reason = "redirect-limit"
)

// A RefusedError is the reason why rye does not fetch from an address.
type RefusedError struct {
	Reason  Reason
	Addr    netip.Addr // the address that the name resolves to, if it is the reason
	Plain   bool       // Options.PlainHTTP would allow it
	Unnamed string     // the host that Options.Inside would have to contain; empty if that would not help
}

func (e *RefusedError) Error() string {
	switch e.Reason {
	case NotHTTPS:
		return "not an https address"
	case WithUser:
		return "an address must not contain a user name or password"
	case WithFragment:
		return "an address must not contain a fragment (#)"
	case TooManySteps:
		return fmt.Sprintf("more than %d redirects", maxSteps)
	case Inside, Nowhere:
		switch {
		case !e.Addr.IsValid():
			return "it leads to this machine"
		case e.Reason == Nowhere:
			return fmt.Sprintf("it leads to %s, a reserved address", e.Addr)
		}
		return fmt.Sprintf("it leads to %s, a local or private address", e.Addr)
	}
	return "invalid address"
}

// explain fills in a fault. An address from a server or a name service is refused; an address from the user is a
// mistake.
func (e *RefusedError) explain(failure *fault.Error, redirected bool) {
	failure.On("reason", string(e.Reason)).Code = fault.Policy
	if e.Plain {
		failure.Because("http addresses lead to this machine only, unless --plain-http allows every host").
			Try("--plain-http")
	}
	switch {
	case !redirected && e.Reason != Inside:
		failure.Code = fault.Validation
	case e.Unnamed != "":
		failure.Because(
			"a project must not make rye connect to this machine or a private network unless your policy names the host:",
			"inside: ["+strconv.Quote(e.Unnamed)+"]").On("inside", e.Unnamed).Try("rye docs policy")
	case e.Reason == Inside:
		failure.Because("only an address that you give yourself may lead to this machine or a private network")
	}
}

// A ConnectError is a server that is unreachable or has no valid certificate.
type ConnectError struct {
	Proxy string // the host of the proxy, if there is one
	Err   error
}

// plain reports whether the server has answered in plain HTTP where TLS was asked for.
func (e *ConnectError) plain() bool {
	record, ok := errors.AsType[tls.RecordHeaderError](e.Err)
	return ok && string(record.RecordHeader[:]) == "HTTP/" && e.Proxy == ""
}

func (e *ConnectError) Error() string {
	if e.plain() {
		return "the server speaks plain HTTP, without TLS"
	}
	if e.Proxy != "" {
		return fmt.Sprintf("cannot connect through the proxy %q: %s", e.Proxy, fault.Clip(e.Err.Error(), 300))
	}
	return "cannot connect: " + fault.Clip(e.Err.Error(), 300)
}

func (e *ConnectError) explain(failure *fault.Error) {
	failure.Code = fault.Unavailable
	if e.Proxy != "" {
		failure.On("proxy", e.Proxy)
	}
	if e.plain() {
		failure.Code = fault.Policy
		failure.On("reason", string(NotHTTPS)).
			Because("http addresses lead to this machine only, unless --plain-http allows every host").
			Try("--plain-http")
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](e); ok {
		failure.Code = fault.Policy
		failure.On("reason", "certificate").
			Because(
				"this system does not trust the server's certificate; SSL_CERT_FILE names a file with further authorities")
	}
}

func (e *ConnectError) Unwrap() error { return e.Err }

// A StatusError is a response other than 200. 404 and 410 are fs.ErrNotExist.
type StatusError struct {
	Status     int
	RetryAfter time.Duration // the wait that the server requests, at most a day
	Bearer     bool          // the server asks for a bearer token, as those of tools do
	Token      bool          // the request had a token
}

func (e *StatusError) Error() string {
	s := fmt.Sprintf("the server answered %d", e.Status)
	if text := http.StatusText(e.Status); text != "" {
		s += " " + text
	}
	if e.RetryAfter > 0 {
		s += fmt.Sprintf(", retry after %s", e.RetryAfter)
	}
	return s
}

func (e *StatusError) explain(failure *fault.Error, address string) {
	failure.On("status", e.Status)
	if e.RetryAfter > 0 {
		failure.On("retry_after", int64(e.RetryAfter/time.Second))
	}
	switch {
	case errors.Is(e, fs.ErrNotExist):
		failure.Code = fault.NotFound
	case e.Status == http.StatusUnauthorized || e.Status == http.StatusForbidden:
		failure.Code = fault.AuthRequired
		if e.Token {
			failure.Code = fault.AuthFailed
			failure.Because("the server refuses the token that rye has for it")
			if u, err := url.Parse(address); err == nil {
				failure.Try("rye login " + fault.Quote(u.Scheme+"://"+u.Host))
			}
			return
		}
		failure.Because("rye sends no credentials")
		if e.Bearer {
			failure.Because("if it is an MCP server, such as one of rye serve, add it as one").
				Try("rye mcp add NAME --http " + fault.Quote(address))
		}
	case e.Status == http.StatusTooManyRequests:
		failure.Code = fault.RateLimited
	case e.Status >= 500:
		failure.Code = fault.Unavailable
	}
}

// Is makes a missing file on a server equal to one on a disk.
func (e *StatusError) Is(target error) bool {
	return target == fs.ErrNotExist && (e.Status == http.StatusNotFound || e.Status == http.StatusGone)
}

// An AnswerError is an invalid or broken response.
type AnswerError struct{ Err error }

func (e *AnswerError) Error() string { return "invalid response: " + fault.Clip(e.Err.Error(), 300) }

func (e *AnswerError) Unwrap() error { return e.Err }

var (
	errEncoded  = errors.New("it is compressed, which rye did not ask for")
	errNoEnd    = errors.New("it has neither a length nor chunks")
	errChanged  = errors.New("the file changed during the download")
	errTag      = errors.New("its ETag is not the tag of one version of a file")
	errOtherTag = errors.New("it says that the file is unchanged, and gives the ETag of another version")
	errNoTarget = errors.New("a redirect without a location")
)

// A LimitError is a file that is larger than the caller allows.
type LimitError struct {
	Limit    int64
	Declared int64 // the announced size; -1 if unknown
}

func (e *LimitError) Error() string {
	if e.Declared >= 0 {
		return fmt.Sprintf("%d bytes, more than the limit of %d", e.Declared, e.Limit)
	}
	return fmt.Sprintf("larger than the limit of %d bytes", e.Limit)
}

// A ShortError is a connection that closed too early. It is io.ErrUnexpectedEOF.
type ShortError struct {
	Got      int64
	Declared int64 // the announced size; -1 if unknown
}

func (e *ShortError) Error() string {
	if e.Declared >= 0 {
		return fmt.Sprintf("the connection closed after %d of %d bytes", e.Got, e.Declared)
	}
	return fmt.Sprintf("the connection closed after %d bytes", e.Got)
}

func (e *ShortError) Unwrap() error { return io.ErrUnexpectedEOF }

// A Phase is the part of a fetch that took too long.
type Phase string

const (
	Connecting Phase = "connecting"
	Answering  Phase = "answering" // no header lines
	Sending    Phase = "sending"   // too few bytes of the body
	Everything Phase = "all of it" // the deadline of a whole fetch
)

// A SlowError is a server that is too slow. The caller's own deadline is context.DeadlineExceeded instead.
type SlowError struct {
	Phase Phase
	After time.Duration
}

func (e *SlowError) Error() string {
	switch e.Phase {
	case Connecting:
		return fmt.Sprintf("no connection within %s", e.After)
	case Answering:
		return fmt.Sprintf("no response within %s", e.After)
	case Sending:
		return fmt.Sprintf("fewer than %d bytes received within %s", minProgress, e.After)
	}
	return fmt.Sprintf("not finished within %s", e.After)
}

// Timeout implements net.Error.
func (e *SlowError) Timeout() bool { return true }
