package guard

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"syscall"
	"time"

	"github.com/rye-build/rye/cas/fault"
)

// A StatusError is an answer that says to come again.
type StatusError struct {
	Status int
	After  time.Duration // the wait that the server asks for
}

func (e *StatusError) Error() string {
	s := fmt.Sprintf("the server answered %d %s", e.Status, http.StatusText(e.Status))
	if e.After > 0 {
		s += fmt.Sprintf(", retry after %s", e.After)
	}
	return s
}

// An AnswerError is an answer with another status than the expected one.
type AnswerError struct {
	Status int
	Errors []Said
}

// Said is one error in an answer of a registry.
type Said struct{ Code, Message string }

func (e *AnswerError) Error() string {
	return fmt.Sprintf("the registry answered %d %s", e.Status, http.StatusText(e.Status))
}

// A SlowError is a request whose bytes don't move.
type SlowError struct{ After time.Duration }

func (e *SlowError) Error() string {
	return fmt.Sprintf("fewer than %d bytes moved within %s", minProgress, e.After)
}

// Timeout implements net.Error.
func (e *SlowError) Timeout() bool { return true }

// Passing reports whether another try may succeed.
func Passing(err error) bool {
	var (
		status  *StatusError
		slow    *SlowError
		wrong   *fault.Error
		unknown *net.DNSError
		timeout net.Error
	)
	switch {
	case errors.As(err, &status), errors.As(err, &slow), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return true
	case errors.As(err, &wrong):
		return false
	case errors.As(err, &unknown):
		return unknown.IsTemporary
	case errors.As(err, &timeout) && timeout.Timeout():
		return true
	}
	return slices.ContainsFunc([]error{syscall.ECONNRESET, syscall.ECONNREFUSED, syscall.ECONNABORTED, syscall.EPIPE},
		func(e error) bool { return errors.Is(err, e) })
}
