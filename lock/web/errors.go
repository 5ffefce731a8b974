package web

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// An Error is what every error of Get, and of reading and closing what it returned, is or wraps.
type Error struct {
	URL  string // the address that it is about, fit to be shown
	From string // the address that redirected there; empty if it is the one given
	// Tries is how often it was tried where that is more than once: what may pass is tried again.
	Tries int
	Err   error // *RefusedError, *ConnectError, *StatusError, *AnswerError, *LimitError, *ShortError, *SlowError, or the context's
}

func (e *Error) Error() string {
	s := strconv.Quote(e.URL) + ": " + e.Err.Error()
	if e.From != "" {
		s += fmt.Sprintf(" (sent there by %q)", e.From)
	}
	if e.Tries > 1 {
		s += fmt.Sprintf(", tried %d times", e.Tries)
	}
	return s
}

func (e *Error) Unwrap() error { return e.Err }

// A Reason is why an address isn't fetched from.
type Reason string

const (
	NotAnAddress Reason = "not-an-address"
	NotHTTPS     Reason = "not-https"
	WithUser     Reason = "with-user"
	WithFragment Reason = "with-fragment"
	Inside       Reason = "inside"         // it leads to this machine, its link or a private network
	Nowhere      Reason = "nowhere"        // it leads to an address that no server has
	TooManySteps Reason = "redirect-limit" // one redirect too many
)

// A RefusedError is an address that isn't fetched from, whoever answers there.
type RefusedError struct {
	Reason Reason
	Addr   netip.Addr // where it leads, if that is why
	// Unnamed is what Options.Inside would have to have for the address to be fetched from; empty: that is no matter of
	// names.
	Unnamed string
}

func (e *RefusedError) Error() string {
	switch e.Reason {
	case NotHTTPS:
		return "it isn't an https address"
	case WithUser:
		return "an address with a name or password isn't fetched from"
	case WithFragment:
		return "an address with a fragment (#) isn't fetched from"
	case TooManySteps:
		return fmt.Sprintf("more than %d redirects", maxSteps)
	case Inside, Nowhere:
		where := "it leads to this machine"
		if e.Addr.IsValid() {
			where = "it leads to " + e.Addr.String()
		}
		if e.Reason == Nowhere {
			return where + ", which no server has"
		}
		return where + ", further inside than it may"
	}
	return "it isn't an address"
}

// A ConnectError is a server that wasn't reached, or that didn't show who it is.
type ConnectError struct {
	Proxy string // the host of the proxy that was asked, if any
	Err   error
}

func (e *ConnectError) Error() string {
	if e.Proxy != "" {
		return fmt.Sprintf("no connection by the proxy %q: %s", e.Proxy, clip(e.Err.Error()))
	}
	return "no connection: " + clip(e.Err.Error())
}

func (e *ConnectError) Unwrap() error { return e.Err }

// A StatusError is an answer that isn't the file. 404 and 410 are fs.ErrNotExist.
type StatusError struct {
	Status     int
	RetryAfter time.Duration // how long the server asks to wait, at most a day; 0 if it says nothing
}

func (e *StatusError) Error() string {
	s := fmt.Sprintf("the server answers %d", e.Status)
	if text := http.StatusText(e.Status); text != "" {
		s += " " + text
	}
	if e.RetryAfter > 0 {
		s += fmt.Sprintf(", to be asked again in %s", e.RetryAfter)
	}
	return s
}

// Is makes a file that isn't there the same on a server as on a disk.
func (e *StatusError) Is(target error) bool {
	return target == fs.ErrNotExist && (e.Status == http.StatusNotFound || e.Status == http.StatusGone)
}

// An AnswerError is an answer that is broken off, or not what was asked for.
type AnswerError struct{ Err error }

func (e *AnswerError) Error() string { return "no usable answer: " + clip(e.Err.Error()) }

func (e *AnswerError) Unwrap() error { return e.Err }

var (
	errEncoded  = errors.New("it is encoded, which wasn't asked for")
	errNoEnd    = errors.New("it doesn't say where it ends")
	errChanged  = errors.New("it was changed while it was read")
	errNoTarget = errors.New("a redirect to nowhere")
)

// A LimitError is a file with more bytes than the caller takes.
type LimitError struct {
	Limit    int64
	Declared int64 // what the server announced; -1 if it didn't
}

func (e *LimitError) Error() string {
	if e.Declared >= 0 {
		return fmt.Sprintf("it has %d bytes, at most %d are taken", e.Declared, e.Limit)
	}
	return fmt.Sprintf("it has more than %d bytes", e.Limit)
}

// A ShortError is a file that ended before its end. It is io.ErrUnexpectedEOF.
type ShortError struct {
	Got      int64
	Declared int64 // what the server announced; -1 if it didn't
}

func (e *ShortError) Error() string {
	if e.Declared >= 0 {
		return fmt.Sprintf("broken off after %d of %d bytes", e.Got, e.Declared)
	}
	return fmt.Sprintf("broken off after %d bytes", e.Got)
}

func (e *ShortError) Unwrap() error { return io.ErrUnexpectedEOF }

// A Phase is what took too long.
type Phase string

const (
	Connecting Phase = "connecting"
	Answering  Phase = "answering" // no header lines
	Sending    Phase = "sending"   // too few bytes of the body
	Everything Phase = "all of it" // the deadline of a whole fetch
)

// A SlowError is a server that took too long. The caller's own deadline is context.DeadlineExceeded instead.
type SlowError struct {
	Phase Phase
	After time.Duration
}

func (e *SlowError) Error() string {
	switch e.Phase {
	case Connecting:
		return fmt.Sprintf("no connection within %s", e.After)
	case Answering:
		return fmt.Sprintf("no answer within %s", e.After)
	case Sending:
		return fmt.Sprintf("less than %d bytes came within %s", minProgress, e.After)
	}
	return fmt.Sprintf("not finished within %s", e.After)
}

// Timeout makes it a timeout for whoever asks so.
func (e *SlowError) Timeout() bool { return true }

// clip bounds what a server can have said in an error.
func clip(s string) string {
	const most = 300
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
