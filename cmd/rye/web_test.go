package main

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/rye-build/rye/cas/fault"
	versions "github.com/rye-build/rye/lock/resolve"
	sources "github.com/rye-build/rye/lock/source"
	"github.com/rye-build/rye/lock/web"
)

// TestWebFaults gives each way to fail its code, and keeps the reason for programs.
func TestWebFaults(t *testing.T) {
	for _, c := range []struct {
		err    error
		from   string
		code   fault.Code
		reason any
	}{
		{&web.RefusedError{Reason: web.NotHTTPS}, "", fault.Validation, "not-https"},
		{&web.RefusedError{Reason: web.NotHTTPS}, "https://a.example/", fault.Policy, "not-https"},
		{&web.RefusedError{Reason: web.Inside}, "", fault.Policy, "inside"},
		{&web.ConnectError{Err: io.EOF}, "", fault.Unavailable, nil},
		{&web.ConnectError{Err: &tls.CertificateVerificationError{Err: io.EOF}}, "", fault.Policy, "certificate"},
		{&web.StatusError{Status: 404}, "", fault.NotFound, nil},
		{&web.StatusError{Status: 410}, "", fault.NotFound, nil},
		{&web.StatusError{Status: 401}, "", fault.AuthRequired, nil},
		{&web.StatusError{Status: 429, RetryAfter: time.Second}, "", fault.RateLimited, nil},
		{&web.StatusError{Status: 503}, "", fault.Unavailable, nil},
		{&web.StatusError{Status: 400}, "", fault.Registry, nil},
		{&web.AnswerError{Err: io.EOF}, "", fault.Registry, nil},
		{&web.ShortError{Got: 1, Declared: 2}, "", fault.Registry, nil},
		{&web.LimitError{Limit: 1, Declared: 2}, "", fault.Limit, nil},
		{&web.SlowError{Phase: web.Sending, After: time.Second}, "", fault.Timeout, nil},
	} {
		err := &web.Error{URL: "https://b.example/", From: c.from, Err: c.err}
		f := fault.Of(err)
		if f.Code != c.code || f.Details["reason"] != c.reason || f.Details["url"] != err.URL ||
			f.Text != err.Error() {
			t.Errorf("%v: %s, %v, %q", err, f.Code, f.Details, f.Text)
		}
		if _, ok := f.Details["from"]; ok != (c.from != "") {
			t.Errorf("%v: %v", err, f.Details)
		}
	}
	asked := fault.Of(&web.Error{URL: "https://b.example/mcp", Err: &web.StatusError{Status: 401, Bearer: true}})
	if !slices.Equal(asked.Hint, []string{"rye mcp add NAME --http https://b.example/mcp"}) {
		t.Error(asked.Hint)
	}
	for cause, want := range map[error]fault.Code{context.Canceled: fault.Cancelled,
		context.DeadlineExceeded: fault.Timeout} {
		if f := fault.Of(&web.Error{Err: cause}); f.Code != want || !errors.Is(f, cause) {
			t.Errorf("%v: %s", cause, f.Code)
		}
	}
}

// TestGoneFromTheWeb: an error of the network names its address, and names it once.
func TestGoneFromTheWeb(t *testing.T) {
	const at = "https://acme.example/a.rye"
	err := &versions.NoVersionError{Path: versions.Path{{ID: "acme/a", Range: "^1"}},
		Err: &sources.Error{ID: "acme/a", Where: at, Err: &web.Error{URL: at, Err: &web.StatusError{Status: 404}}}}
	f := fault.Of(err)
	if want := `"acme/a": "https://acme.example/a.rye": the server answered 404 Not Found`; f.Text != want ||
		f.Code != fault.NotFound || len(f.Hint) != 1 {
		t.Errorf("%s: %s, %q", f.Code, f.Text, f.Hint)
	}
}
