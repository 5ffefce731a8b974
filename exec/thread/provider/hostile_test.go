package provider_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/classification"
	"github.com/rye-build/rye/exec/thread/provider"
	"github.com/rye-build/rye/exec/thread/provider/modeltest"
	"github.com/rye-build/rye/exec/thread/provider/wire"
)

// failure makes a model call that has to fail.
func (w *world) failure(what string, p *provider.Provider, stream bool) *provider.Failure {
	w.t.Helper()
	hi := []provider.Message{{Role: provider.User, Text: "Hi"}}
	w.secret = p.Secrets != nil
	a, err := w.ask(p, provider.Request{Model: p.Tiers["fast"], Stream: stream, Messages: hi}, provider.Deltas{})
	f, ok := errors.AsType[*provider.Failure](err)
	if !ok {
		w.t.Fatalf("%s, %s, stream %v: answered: %v, %v", what, p.Name, stream, a != nil, err)
	}
	return f
}

// TestWrongMedia: a page of a proxy, and what is neither JSON nor a stream, is no answer and gets no second try.
func TestWrongMedia(t *testing.T) {
	s := modeltest.New(t)
	w := library(t, s)
	for _, name := range someShipped() {
		p := w.provider("rye/agent/providers/" + name)
		for _, stream := range []bool{false, true} {
			for _, turn := range []modeltest.Turn{
				{Body: "<html>Please log in</html>", Media: "text/html"},
				{Body: "\x00\x01\xff", Media: "application/octet-stream"},
				{Body: "hello", Media: "no media at all"},
				{Body: "data: <html>\n\n", Media: "text/event-stream"},
				{Body: ": nothing\n\n", Media: "text/event-stream"},
			} {
				s.Add(turn)
				f := w.failure(turn.Media, p, stream)
				if f.Status >= 400 || fault.CodeOf(f) != fault.Failed && f.Type != "ConnectionError" {
					t.Errorf("%s, %q, stream %v: %+v", name, turn.Body, stream, f)
				}
			}
		}
	}
}

// TestEndless: an answer that doesn't end is cut off at the limit of an answer, and is none.
func TestEndless(t *testing.T) {
	if testing.Short() {
		t.Skip("with the race detector each takes ten seconds, and the goroutines are those of TestStreamEnds")
	}
	s := modeltest.New(t)
	w := library(t, s)
	for _, name := range shipped {
		p := w.provider("rye/agent/providers/" + name)
		s.Add(modeltest.Turn{Text: strings.Repeat("and so on ", 100_000), Endless: true})
		if f := w.failure("endless", p, true); f.Type != "AnswerError" && f.Type != "LimitError" {
			t.Errorf("%s: %+v", name, f)
		}
	}
}

// TestRedirect: a service that sends the request elsewhere doesn't get it there, with or without the key.
func TestRedirect(t *testing.T) {
	s, other := modeltest.New(t), modeltest.New(t, modeltest.Turn{Text: "Got it."})
	w := library(t, s)
	for _, name := range someShipped() {
		p := w.provider("rye/agent/providers/" + name)
		for _, stream := range []bool{false, true} {
			s.Add(modeltest.Turn{Redirect: other.URL + "/v1/messages"})
			if f := w.failure("redirect", p, stream); fault.CodeOf(f) == fault.Unavailable {
				t.Errorf("%s: it would be tried again: %+v", name, f)
			}
		}
	}
	if n := len(other.Requests()); n != 0 {
		t.Errorf("the other host got %d requests", n)
	}
}

// TestRetryAfter: a service can't have rye wait for more than a day, whatever it writes.
func TestRetryAfter(t *testing.T) {
	s := modeltest.New(t)
	w := library(t, s)
	merged, err := w.Config(t.Context(), classification.Name)
	must(t, err)
	rules, err := classification.Read(merged.Value)
	must(t, err)
	p := w.provider("rye/agent/providers/local")
	for _, after := range []string{"", "0", "-5", "soon", "1e9", "99999999999999999999",
		"Wed, 21 Oct 2015 07:28:00 GMT",
		"Wed, 21 Oct 2099 07:28:00 GMT", "3600000"} {
		s.Add(modeltest.Turn{Status: 429, RetryAfter: after, Message: "slow down"})
		f := w.failure("busy "+after, p, true)
		class := rules.Of(f.Doc())
		if wait := class.Policy.Wait(1, f.After); !class.Retryable || wait < 0 || wait > 24*time.Hour {
			t.Errorf("Retry-After %q: after %s, waits %s", after, f.After, wait)
		}
	}
}

// TestKeyEchoed: a key that a service repeats when it refuses it is redacted.
func TestKeyEchoed(t *testing.T) {
	s := modeltest.New(t)
	w := library(t, s)
	for _, name := range someShipped() {
		p := w.provider("rye/agent/providers/" + name)
		for _, stream := range []bool{false, true} {
			s.Add(modeltest.Turn{Status: 401, Message: "invalid key " + secret + ", Bearer " + secret})
			f := w.failure("401", p, stream)
			if f.Status != 401 || p.Secrets != nil && strings.Contains(f.Error(), secret) {
				t.Errorf("%s: %+v", name, f)
			}
		}
	}
	w.secret = true
	w.clean("log", w.logged())
}

// TestLyingUsage: whatever a service says it has used, the cost is never negative and never wraps.
func TestLyingUsage(t *testing.T) {
	s := modeltest.New(t)
	w := library(t, s)
	for _, name := range someShipped() {
		p := w.provider("rye/agent/providers/" + name)
		for _, usage := range []wire.Usage{
			{Input: 1<<53 - 1, Output: 1<<53 - 1}, {Input: 1, Output: 1, CacheRead: 1<<53 - 1},
			{Output: 1, Reasoning: 1},
		} {
			s.Add(modeltest.Turn{Text: "Hi", Usage: usage})
			hi := []provider.Message{{Role: provider.User, Text: "Hi"}}
			r := provider.Request{Model: p.Tiers["fast"], Stream: true, Messages: hi}
			a, err := w.ask(p, r, provider.Deltas{})
			if err != nil {
				t.Fatalf("%s, %+v: %v", name, usage, err)
			}
			if n, known := p.Cost(r.Model, a.Usage); known && n < 0 {
				t.Errorf("%s, %+v: costs %d", name, usage, n)
			}
		}
	}
}
