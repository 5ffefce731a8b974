package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/host"
	"github.com/rye-build/rye/exec/session"
)

// TestOfObject: every schema of RGP is of an object, so that its clients can check it.
func TestOfObject(t *testing.T) {
	for _, c := range []struct {
		declared any
		schema   string
		wrapped  bool
	}{
		{nil, `{"properties":{},"type":"object"}`, false},
		{object{"type": "object"}, `{"properties":{},"type":"object"}`, false},
		{object{"properties": object{"a": text()}}, `{"properties":{"a":{"type":"string"}},"type":"object"}`, false},
		{object{"type": "integer"}, `{"properties":{"value":{"type":"integer"}},"required":["value"],"type":"object"}`,
			true},
		{object{"anyOf": []any{}}, `{"properties":{"value":{"anyOf":[]}},"required":["value"],"type":"object"}`, true},
	} {
		schema, wrapped := ofObject(c.declared)
		if got, err := json.Marshal(schema); err != nil || string(got) != c.schema || wrapped != c.wrapped {
			t.Errorf("%v: %s, %t", c.declared, got, wrapped)
		}
	}
	for _, c := range []struct {
		wraps bool
		value any
		want  string
	}{{false, object{"a": 1}, `{"a":1}`}, {true, object{"a": 1}, `{"value":{"a":1}}`}, {false, "x", `{"value":"x"}`},
		{false, nil, `{"value":null}`}} {
		if got, _ := json.Marshal((&Tool{wraps: c.wraps}).output(c.value)); string(got) != c.want {
			t.Errorf("%v: %s", c.value, got)
		}
	}
}

// TestPacks: a pack is there once, however many tools it has, and the project's own tools are of none.
func TestPacks(t *testing.T) {
	base, one, two := "acme/base", "1.0.0", "2.0.0"
	more := "acme/more"
	c := &Catalog{Tools: []*Tool{{pack: &more, version: &two}, {}, {pack: &base, version: &one},
		{pack: &base, version: &one}}}
	got, err := json.Marshal(c.packs())
	if err != nil || string(got) != `[{"name":"acme/base","version":"1.0.0"},{"name":"acme/more","version":"2.0.0"}]` {
		t.Errorf("%s, %v", got, err)
	}
}

// TestErrors: an error says no more than RGP allows, and one that nothing explains is the server's own.
func TestErrors(t *testing.T) {
	long := errorOf(fault.New(fault.Denied, "%s", strings.Repeat("é", 3000)), "c")
	if long.Type != Forbidden || len(long.Message) > maxMessage || !strings.HasSuffix(long.Message, "é") {
		t.Errorf("%s, %d bytes", long.Type, len(long.Message))
	}
	e := errorOf(errors.New("x"), "c")
	if e.Type != Internal || *e.Upstream != "UNKNOWN_ERROR" || e.Correlation != "c" {
		t.Errorf("%+v", e)
	}
	if got := clip(strings.Repeat("é", 2000)); len(got) != maxDescription || !strings.HasSuffix(got, "é") {
		t.Errorf("%d bytes", len(got))
	}
}

// TestUnready: where no set can be opened, requests are refused with the reason, and calls have a result that says it.
func TestUnready(t *testing.T) {
	h := host.New(host.Options{Now: time.Now, Warn: func(error) {},
		Open: func(context.Context) (*session.Session, func() error, error) {
			return nil, nil, fault.New(fault.LockMismatch, "rye.lock is another one")
		}})
	g := &Gateway{Host: h, Warn: func(error) {}}
	if h.Open(t.Context()) == nil || h.Ready() == nil {
		t.Error("it is ready")
	}
	answer := httptest.NewRecorder()
	g.with(func(http.ResponseWriter, *http.Request, *Catalog) { t.Error("there are tools") })(answer,
		httptest.NewRequestWithContext(t.Context(), "GET", "/v1/tools", nil))
	if answer.Code != http.StatusServiceUnavailable || !strings.Contains(answer.Body.String(),
		`"detail":"LOCK_MISMATCH"`) {
		t.Errorf("%d %s", answer.Code, answer.Body)
	}
	if r := g.made(t.Context(), &order{correlation: "c"}, "x"); r.OK || r.Error.Type != Blocked {
		t.Errorf("%+v", r)
	}
}
