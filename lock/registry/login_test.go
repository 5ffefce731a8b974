package registry_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/lock/registry"
	"github.com/rye-build/rye/lock/web"
)

// An answer is what a registry says, with a status.
type answer struct {
	status int
	body   string
}

// serveAnswers serves a registry that begins logins with one answer, and then answers in order.
func serveAnswers(t *testing.T, begin answer, polls ...answer) *registry.Session {
	t.Helper()
	next := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a := begin
		if r.URL.Path == "/v1/token" {
			if a = polls[min(next, len(polls)-1)]; r.FormValue("device_code") != "secret" {
				t.Errorf("another device code: %v", r.Form)
			}
			next++
		}
		w.WriteHeader(a.status)
		fmt.Fprint(w, a.body)
	}))
	t.Cleanup(server.Close)
	return &registry.Session{URL: server.URL, Client: web.New(web.Options{})}
}

var begun = answer{200, `{"device_code":"secret","user_code":"ABCD-EFGH",` +
	`"verification_uri":"https://r.example/device","expires_in":60,"interval":7}`}

// TestAwaitLogin: the client waits as the registry says, slows down, and ends with the registry's reason.
func TestAwaitLogin(t *testing.T) {
	pending, slow := answer{400, `{"error":"authorization_pending"}`}, answer{400, `{"error":"slow_down"}`}
	token := answer{200, `{"access_token":"ryer_x","token_type":"bearer"}`}
	for name, c := range map[string]struct {
		begin answer
		polls []answer
		token string
		code  fault.Code
		waits string
	}{
		"allowed":   {begun, []answer{pending, slow, pending, token}, "ryer_x", "", "[7s 12s 12s]"},
		"unhealthy": {begun, []answer{{503, `{"error":{"code":"UNAVAILABLE","message":"later"}}`}, token}, "ryer_x", "", "[12s]"},
		"at once": {answer{200, `{"device_code":"secret","user_code":"A","verification_uri":"http://r.example/d",` +
			`"expires_in":6000,"interval":0}`}, []answer{pending, token}, "ryer_x", "", "[1s]"},
		"default": {answer{200, `{"device_code":"secret","user_code":"A","verification_uri":"http://r.example/d",` +
			`"expires_in":10}`}, []answer{pending}, "", fault.SessionExpired, "[5s 5s]"},
		"denied":   {begun, []answer{pending, {400, `{"error":"access_denied"}`}}, "", fault.Denied, "[7s]"},
		"expired":  {begun, []answer{{400, `{"error":"expired_token"}`}}, "", fault.SessionExpired, "[]"},
		"unknown":  {begun, []answer{{400, `{"error":"invalid_grant"}`}}, "", fault.SessionExpired, "[]"},
		"too fast": {begun, []answer{slow}, "", fault.SessionExpired, "[12s 17s 22s 27s]"},
		"other":    {begun, []answer{{400, `{"error":"invalid_client"}`}}, "", fault.AuthFailed, "[]"},
		"no token": {begun, []answer{{200, `{"access_token":"","token_type":"bearer"}`}}, "", fault.Registry, "[]"},
		"mac":      {begun, []answer{{200, `{"access_token":"x","token_type":"mac"}`}}, "", fault.Registry, "[]"},
		"no json":  {begun, []answer{{200, `<html>`}}, "", fault.Registry, "[]"},
		"no error": {begun, []answer{{404, `<html>`}}, "", fault.Registry, "[]"},
		"a number": {begun, []answer{{400, `{"error":7}`}}, "", fault.Registry, "[]"},
		"ours": {begun, []answer{{500, `{"error":{"code":"REGISTRY_ERROR","message":"no"}}`}}, "", fault.Registry,
			"[]"},
	} {
		t.Run(name, func(t *testing.T) {
			s := serveAnswers(t, c.begin, c.polls...)
			code, err := s.RequestLogin(t.Context(), registry.Login{Label: "x", Scopes: []string{"read"},
				Names: []string{"a/**"}, Life: time.Hour})
			if err != nil {
				t.Fatal(err)
			}
			waits := []time.Duration{}
			got, err := s.AwaitLogin(t.Context(), code, func(_ context.Context, d time.Duration) error {
				waits = append(waits, d)
				return nil
			})
			if got != c.token || c.code != "" && fault.CodeOf(err) != c.code || c.code == "" && err != nil ||
				fmt.Sprint(waits) != c.waits {
				t.Errorf("%q, %v (%s), %v", got, err, fault.CodeOf(err), waits)
			}
		})
	}
	s := serveAnswers(t, begun, pending)
	code, err := s.RequestLogin(t.Context(), registry.Login{Label: "x"})
	if err != nil {
		t.Fatal(err)
	}
	stop := errors.New("stop")
	if _, err := s.AwaitLogin(t.Context(), code, func(context.Context, time.Duration) error {
		return stop
	}); err != stop {
		t.Error(err)
	}
}

// TestRequestLogin: a registry without this flow, or with one that a person can't follow, is named.
func TestRequestLogin(t *testing.T) {
	for _, a := range []answer{
		{404, "404 page not found"}, {200, "{}"}, {200, "["},
		{200, `{"device_code":"s","user_code":"A\u001b[2J","verification_uri":"https://r.example","expires_in":9}`},
		{200, `{"device_code":"s","user_code":"A","verification_uri":"javascript:alert(1)","expires_in":9}`},
		{200, `{"device_code":"","user_code":"A","verification_uri":"https://r.example","expires_in":9}`},
		{200, `{"device_code":"s","user_code":"A","verification_uri":"https://r.example","expires_in":-9}`},
	} {
		_, err := serveAnswers(t, a).RequestLogin(t.Context(), registry.Login{Label: "x"})
		if fault.CodeOf(err) != fault.Registry {
			t.Errorf("%+v: %v", a, err)
		}
	}
	_, err := serveAnswers(t, answer{429, `{"success":false,"error":{"code":"RATE_LIMITED","message":"too many"}}`}).
		RequestLogin(t.Context(), registry.Login{Label: "x"})
	if fault.CodeOf(err) != fault.RateLimited {
		t.Error(err)
	}
}
