package main

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"testing"
	"time"

	versions "github.com/rye-build/rye/lock/resolve"
	sources "github.com/rye-build/rye/lock/source"
	"github.com/rye-build/rye/lock/web"
)

// TestWebFaults gives each way to fail its code, and keeps the reason for programs.
func TestWebFaults(t *testing.T) {
	for _, c := range []struct {
		err    error
		from   string
		code   code
		reason any
	}{
		{&web.RefusedError{Reason: web.NotHTTPS}, "", codeValidation, "not-https"},
		{&web.RefusedError{Reason: web.NotHTTPS}, "https://a.example/", "POLICY_DENIED", "not-https"},
		{&web.RefusedError{Reason: web.Inside}, "", "POLICY_DENIED", "inside"},
		{&web.ConnectError{Err: io.EOF}, "", "UNAVAILABLE", nil},
		{&web.ConnectError{Err: &tls.CertificateVerificationError{Err: io.EOF}}, "", "POLICY_DENIED", "certificate"},
		{&web.StatusError{Status: 404}, "", codeItem, nil},
		{&web.StatusError{Status: 410}, "", codeItem, nil},
		{&web.StatusError{Status: 401}, "", "AUTH_REQUIRED", nil},
		{&web.StatusError{Status: 429, RetryAfter: time.Second}, "", "RATE_LIMITED", nil},
		{&web.StatusError{Status: 503}, "", "UNAVAILABLE", nil},
		{&web.StatusError{Status: 400}, "", "REGISTRY_ERROR", nil},
		{&web.AnswerError{Err: io.EOF}, "", "REGISTRY_ERROR", nil},
		{&web.ShortError{Got: 1, Declared: 2}, "", "REGISTRY_ERROR", nil},
		{&web.LimitError{Limit: 1, Declared: 2}, "", "LIMIT_EXCEEDED", nil},
		{&web.SlowError{Phase: web.Sending, After: time.Second}, "", codeTimeout, nil},
	} {
		err := &web.Error{URL: "https://b.example/", From: c.from, Err: c.err}
		f := classify(err)
		if f.code != c.code || f.details["reason"] != c.reason || f.details["url"] != err.URL || f.message != err.Error() {
			t.Errorf("%v: %s, %v, %q", err, f.code, f.details, f.message)
		}
		if _, ok := f.details["from"]; ok != (c.from != "") {
			t.Errorf("%v: %v", err, f.details)
		}
	}
	for cause, want := range map[error]code{context.Canceled: codeCancelled, context.DeadlineExceeded: codeTimeout} {
		if f := classify(&web.Error{Err: cause}); f.code != want || !errors.Is(f, cause) {
			t.Errorf("%v: %s", cause, f.code)
		}
	}
}

// TestGoneFromTheWeb: an answer of the network names its address, which is told once.
func TestGoneFromTheWeb(t *testing.T) {
	const at = "https://acme.example/a.rye"
	err := &versions.NoVersionError{Path: versions.Path{{ID: "acme/a", Range: "^1"}},
		Err: &sources.Error{ID: "acme/a", Where: at, Err: &web.Error{URL: at, Err: &web.StatusError{Status: 404}}}}
	f := classify(err)
	if want := `"acme/a" can't be had: "https://acme.example/a.rye": the server answers 404 Not Found`; f.message != want || f.code != codeItem || len(f.hint) != 1 {
		t.Errorf("%s: %s, %q", f.code, f.message, f.hint)
	}
}
