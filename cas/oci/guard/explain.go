package guard

import (
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/rye-build/rye/cas/fault"
)

// Explain gives an error of a request its code. It drops addresses, which may contain secrets of a redirect, and the
// cause with them, since --debug shows causes.
func Explain(err error) *fault.Error {
	var (
		ours interface { // around it may stand an address
			error
			Fault() *fault.Error
		}
		status   *StatusError
		slow     *SlowError
		answer   *AnswerError
		dialled  *net.OpError
		unproven *tls.CertificateVerificationError
	)
	switch {
	case errors.As(err, &ours):
		return fault.Of(ours)
	case errors.As(err, &status):
		f := fault.New(fault.Unavailable, "%s", status).On("status", status.Status)
		if status.After > 0 {
			f.On("retry_after", int64(status.After/time.Second))
		}
		if status.Status == http.StatusTooManyRequests {
			f.Code = fault.RateLimited
		}
		return f
	case errors.As(err, &slow):
		return fault.New(fault.Timeout, "%s", slow)
	case errors.As(err, &answer):
		return refused(answer)
	case errors.As(err, &unproven):
		return fault.New(fault.Policy, "%s", fault.Clip(unproven.Error(), 300)).On("reason", "certificate").
			Because("this system does not trust the server's certificate; SSL_CERT_FILE names a file with " +
				"further authorities")
	case errors.Is(err, http.ErrSchemeMismatch):
		return fault.New(fault.Policy, "the server speaks plain HTTP").On("reason", "not-https").Try("--plain-http")
	case errors.As(err, &dialled) && dialled.Op != "dial":
		return fault.New(fault.Unavailable, "the connection broke: %s", innermost(err))
	case errors.As(err, &dialled), errors.As(err, new(*net.DNSError)):
		return fault.New(fault.Unavailable, "cannot connect: %s", innermost(err))
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return fault.New(fault.Registry, "the connection closed too early")
	}
	f := fault.Of(err)
	if f.Code == fault.Unknown {
		f = fault.New(fault.Registry, "invalid answer: %s", innermost(err))
	}
	return f
}

// Addresses are quoted, after the method of a request or elsewhere.
var (
	request = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`[A-Z][A-Za-z]+ "[^"]*[/?][^"]*": `) })
	address = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`"[^"]*[/?][^"]*"`) })
)

// innermost returns the text of an error without addresses.
func innermost(err error) string {
	return fault.Clip(address().ReplaceAllString(request().ReplaceAllString(err.Error(), ""), "…"), 300)
}

// maxAnswer is how many bytes of an error's body are read.
const maxAnswer = 8 << 10

// Answer returns the error of an answer with another status than the expected one, with the registry's explanation.
func Answer(resp *http.Response) *AnswerError {
	var body struct{ Errors []Said }
	if json.NewDecoder(io.LimitReader(resp.Body, maxAnswer)).Decode(&body) != nil {
		body.Errors = nil
	}
	return &AnswerError{resp.StatusCode, body.Errors}
}

// shown returns a registry's text with a blank for each character that isn't printable.
func shown(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) && r != utf8.RuneError {
			return r
		}
		return ' '
	}, s)
}

// refused returns the error for a status of a registry.
func refused(answerError *AnswerError) *fault.Error {
	failure := fault.New(fault.Registry, "%s", answerError).On("status", answerError.Status)
	var said []string
	for _, one := range answerError.Errors {
		said = append(said, fault.Clip(shown(one.Code+": "+one.Message), 200))
	}
	failure.List(said...)
	switch {
	case answerError.Status == http.StatusUnauthorized:
		failure.Code = fault.AuthRequired
		failure.Try("rye docs oci")
	case answerError.Status == http.StatusForbidden:
		failure.Code = fault.AuthFailed
		failure.Try("rye docs oci")
	case answerError.Status == http.StatusNotFound:
		failure.Code = fault.NotFound
	case answerError.Status >= 500:
		failure.Code = fault.Unavailable
	}
	return failure
}
