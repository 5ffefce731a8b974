package oci

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/errcode"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/oci/guard"
)

// explain gives an error its code. Addresses are left out: what a registry sends elsewhere has secrets in them.
func explain(err error) *fault.Error {
	var (
		status   *guard.StatusError
		slow     *guard.SlowError
		answer   *errcode.ErrorResponse
		at       *url.Error
		unknown  *net.DNSError
		unproven *tls.CertificateVerificationError
	)
	if errors.As(err, &at) {
		if f, ok := fault.Find(at.Err); ok { // of the transport, which knows what it may show
			return f
		}
	} else if f, ok := fault.Find(err); ok {
		return f
	}
	switch {
	case errors.Is(err, errdef.ErrNotFound):
		return notFound("the manifest").From(err)
	case errors.As(err, &status):
		f := fault.New(fault.Unavailable, "%s", status).On("status", status.Status)
		if status.After > 0 {
			f.On("retry_after", int64(status.After/time.Second))
		}
		if status.Status == http.StatusTooManyRequests {
			f.Code = fault.RateLimited
		}
		return f.From(err)
	case errors.As(err, &slow):
		return fault.New(fault.Timeout, "%s", slow).From(err)
	case errors.As(err, &answer):
		return refused(answer)
	case errors.Is(err, auth.ErrBasicCredentialNotFound):
		return fault.New(fault.AuthRequired, "the registry wants a user and a password").From(err)
	case errors.As(err, &unproven):
		return fault.New(fault.Policy, "%s", fault.Clip(unproven.Error(), 300)).From(err).On("reason", "certificate").
			Because("this system does not trust the server's certificate; SSL_CERT_FILE names a file with further authorities")
	case errors.Is(err, http.ErrSchemeMismatch):
		return fault.New(fault.Policy, "the server speaks plain HTTP").From(err).On("reason", "not-https").Try("--plain-http")
	case errors.As(err, &unknown), errors.As(err, new(*net.OpError)):
		return fault.New(fault.Unavailable, "cannot connect: %s", fault.Clip(innermost(err), 300)).From(err)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return fault.New(fault.Registry, "the connection closed too early").From(err)
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return fault.Of(err)
	case errors.As(err, &at):
		return fault.New(fault.Registry, "%s", fault.Clip(innermost(err), 300)).From(err)
	}
	return fault.Wrap(err, "%s", err)
}

// innermost is the text of an error without the address that it is about.
func innermost(err error) string {
	if at, ok := errors.AsType[*url.Error](err); ok {
		return at.Err.Error()
	}
	return err.Error()
}

// refused says what an answer of a registry means.
func refused(e *errcode.ErrorResponse) *fault.Error {
	f := fault.New(fault.Registry, "the registry answered %d %s", e.StatusCode, http.StatusText(e.StatusCode)).From(e).On("status", e.StatusCode)
	for _, one := range e.Errors {
		f.List(fault.Clip(one.Error(), 200))
	}
	switch {
	case e.StatusCode == http.StatusUnauthorized:
		f.Code = fault.AuthRequired
		f.Try("rye docs oci")
	case e.StatusCode == http.StatusForbidden:
		f.Code = fault.AuthFailed
		f.Try("rye docs oci")
	case e.StatusCode == http.StatusNotFound:
		f.Code = fault.NotFound
	case e.StatusCode >= 500:
		f.Code = fault.Unavailable
	}
	return f
}
