package web

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

// shortly pauses so that no test waits for it.
func shortly() []time.Duration { return []time.Duration{time.Millisecond, time.Millisecond} }

// status answers with a status alone.
func status(code int) http.HandlerFunc {
	return func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(code) }
}

// part sends the beginning of a file of so many bytes, and breaks the connection.
func part(text string, size int) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Length", strconv.Itoa(size))
		send("%s", text)(rw, r)
		rw.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
}

// wait asks to be asked later.
func wait(header string) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Retry-After", header)
		rw.WriteHeader(http.StatusTooManyRequests)
	}
}

// chunks sends a file without saying how long it is.
func chunks(text string) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		rw.(http.Flusher).Flush()
		send("%s", text)(rw, r)
	}
}

func broken(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

// TestAgain: what passes is tried again, what doesn't isn't, and no byte is of two files.
func TestAgain(t *testing.T) {
	for name, c := range map[string]struct {
		answers []http.HandlerFunc // one after the other; the last stays
		want    string             // what is read, or how the error ends
		asked   int
	}{
		"overloaded": {[]http.HandlerFunc{status(503), status(502), send("whole")}, "whole", 3},
		"for too long": {[]http.HandlerFunc{status(503)},
			": the server answered 503 Service Unavailable (3 attempts)", 3},
		"not there": {[]http.HandlerFunc{status(404), send("never")}, ": the server answered 404 Not Found",
			1},
		"not for us": {[]http.HandlerFunc{status(403), send("never")}, ": the server answered 403 Forbidden",
			1},
		"soon": {[]http.HandlerFunc{wait("0"), send("whole")}, "whole", 2},
		"in an hour": {[]http.HandlerFunc{wait("3600"), send("never")},
			": the server answered 429 Too Many Requests, retry after 1h0m0s", 1},
		"no answer":           {[]http.HandlerFunc{broken, send("whole")}, "whole", 2},
		"never an answer":     {[]http.HandlerFunc{broken}, ": invalid response: EOF (3 attempts)", 3},
		"broken off":          {[]http.HandlerFunc{part("wh", 5), send("whole")}, "whole", 2},
		"broken off twice":    {[]http.HandlerFunc{part("wh", 5), part("who", 5), send("whole")}, "whole", 3},
		"earlier than before": {[]http.HandlerFunc{part("who", 5), part("w", 5), send("whole")}, "whole", 3},
		"broken off and busy": {[]http.HandlerFunc{part("wh", 5), status(503), send("whole")}, "whole", 3},
		"always broken off": {[]http.HandlerFunc{part("wh", 5)},
			": the connection closed after 2 of 5 bytes (3 attempts)", 3},
		"gone meanwhile": {[]http.HandlerFunc{part("wh", 5), status(404)},
			": the server answered 404 Not Found (2 attempts)", 2},
		"changed meanwhile": {[]http.HandlerFunc{part("wh", 5), send("WHole")},
			": invalid response: the file changed during the download (2 attempts)", 2},
		"longer than before": {[]http.HandlerFunc{part("wh", 5), send("wholes")},
			": invalid response: the file changed during the download (2 attempts)", 2},
		"shorter than what is": {[]http.HandlerFunc{part("who", 5), send("wh")},
			": invalid response: the file changed during the download (2 attempts)", 2},
		"of another length": {[]http.HandlerFunc{part("wh", 5), chunks("wholes")},
			": invalid response: the file changed during the download (2 attempts)", 2},
		"of no length": {[]http.HandlerFunc{part("wh", 5), chunks("whole")}, "whole", 2},
		"too much": {[]http.HandlerFunc{send("more than is taken"), send("never")},
			": 18 bytes, more than the limit of 9", 1},
	} {
		var w *world
		w = newWorld(t, limits{pauses: shortly()}, func(rw http.ResponseWriter, r *http.Request) {
			c.answers[min(len(w.requests()), len(c.answers))-1](rw, r)
		})
		told := 0
		w.options.Again = func(error, time.Duration) { told++ }
		address := w.url("public.example", "/f")
		got, _, err := w.read(t.Context(), address, 9)
		if err != nil {
			got = strings.TrimPrefix(err.Error(), strconv.Quote(address))
		}
		if got != c.want || len(w.requests()) != c.asked || told != c.asked-1 {
			t.Errorf("%s: %q, asked %d times, told %d times; want %q, asked %d times", name, got, len(w.requests()),
				told, c.want, c.asked)
		}
		if missing := errors.Is(err, fs.ErrNotExist); missing != strings.Contains(c.want, "404") {
			t.Errorf("%s: not there: %t", name, missing)
		}
	}
}

// TestAgainAnywhere: wherever a connection breaks, what is read is the file.
func TestAgainAnywhere(t *testing.T) {
	text := strings.Repeat("0123456789", 20_000)
	for range 50 {
		first, second := rand.IntN(len(text)), rand.IntN(len(text))
		var w *world
		w = newWorld(t, limits{pauses: shortly()}, func(rw http.ResponseWriter, r *http.Request) {
			switch len(w.requests()) {
			case 1:
				part(text[:first], len(text))(rw, r)
			case 2:
				part(text[:second], len(text))(rw, r)
			}
			send("%s", text)(rw, r)
		})
		got, _, err := w.read(t.Context(), w.url("public.example", "/f"), int64(len(text)))
		if err != nil || got != text {
			t.Fatalf("broken after %d and %d: %d bytes, %v", first, second, len(got), err)
		}
	}
}

// TestAgainCancel: a cancelled request doesn't wait for the next try.
func TestAgainCancel(t *testing.T) {
	for _, answer := range []http.HandlerFunc{status(503), part("wh", 5)} {
		w := newWorld(t, limits{pauses: []time.Duration{time.Hour}}, answer)
		ctx, cancel := context.WithCancel(t.Context())
		w.options.Again = func(error, time.Duration) { cancel() }
		var e *Error
		if _, _, err := w.read(ctx, w.url("public.example", "/f"), 9); !errors.Is(err, context.Canceled) ||
			!errors.As(err, &e) {
			t.Errorf("%v", err)
		}
	}
	w := newWorld(t, limits{pauses: []time.Duration{time.Hour}, all: 50 * time.Millisecond}, status(503))
	if _, _, err := w.read(t.Context(), w.url("public.example", "/f"), 9); !strings.HasSuffix(fmt.Sprint(err),
		": not finished within 50ms") {
		t.Errorf("%v", err)
	}
}

// TestNeverAgain: who isn't who they should be won't be another time.
func TestNeverAgain(t *testing.T) {
	w := newWorld(t, limits{pauses: shortly()}, send("never"))
	w.names.Lead("elsewhere.other", "127.0.0.1")
	// its certificate is for others; there is no such name
	for _, host := range []string{"elsewhere.other", "missing.example"} {
		w.options.Again = func(err error, _ time.Duration) { t.Errorf("%s: asked again after %v", host, err) }
		if text, _, err := w.read(t.Context(), w.url(host, "/f"), 9); err == nil {
			t.Errorf("%s: %q", host, text)
		}
	}
}
