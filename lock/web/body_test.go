package web

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestSlow(t *testing.T) {
	const soon = 30 * time.Millisecond
	handle := func(rw http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/body":
			send("1")(rw, r)
			rw.(http.Flusher).Flush()
		case "/drip":
			// A byte now and then, as long as anybody listens.
			for r.Context().Err() == nil {
				send("1")(rw, r)
				rw.(http.Flusher).Flush()
				select {
				case <-r.Context().Done():
				case <-time.After(time.Millisecond):
				}
			}
		case "/headers":
			raw(t, rw, "HTTP/1.1 200 OK\r\nX: ")
			return
		}
		<-r.Context().Done()
	}
	for _, c := range []struct {
		path   string
		limits limits
		want   string
	}{
		{"/body", limits{stall: soon}, "fewer than 16384 bytes received within 30ms"},
		{"/drip", limits{stall: soon}, "fewer than 16384 bytes received within 30ms"},
		{"/drip", limits{all: soon * 3}, "not finished within 90ms"},
		{"/none", limits{answer: soon}, "no response within 30ms"},
		{"/headers", limits{answer: soon}, "no response within 30ms"},
		{"/none", limits{all: soon * 3}, "not finished within 90ms"},
	} {
		w := newWorld(t, c.limits, handle)
		_, _, err := w.read(t.Context(), w.url("public.example", c.path), 1<<40)
		var slow *SlowError
		if !errors.As(err, &slow) || slow.Error() != c.want || !slow.Timeout() ||
			errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v, want %s", c.path, err, c.want)
		}
	}

	// A server that takes the connection and says nothing.
	deaf, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer deaf.Close()
	w := newWorld(t, limits{connect: soon}, handle)
	_, _, err = w.Get(t.Context(), "https://"+strings.Replace(deaf.Addr().String(), "127.0.0.1", "public.example", 1),
		9)
	if slow := (*SlowError)(nil); !errors.As(err, &slow) || slow.Error() != "no connection within 30ms" {
		t.Errorf("%v", err)
	}
}

// A pace gives so many bytes at a time, each time after so long.
type pace struct {
	bytes int
	every time.Duration
	total int
	ctx   context.Context
}

func (p *pace) Read(b []byte) (int, error) {
	if p.total == 0 {
		return 0, io.EOF
	}
	select {
	case <-p.ctx.Done():
		return 0, p.ctx.Err()
	case <-time.After(p.every):
	}
	n := min(p.bytes, p.total, len(b))
	p.total -= n
	return n, nil
}

func (p *pace) Close() error { return nil }

// TestPace: each 16 KiB come within 30 s of waiting. What the caller does between isn't waited for.
func TestPace(t *testing.T) {
	for _, c := range []struct {
		pace
		caller time.Duration // between two reads
		after  time.Duration // of waiting until it is given up; 0: it is read to the end
	}{
		{pace{1, time.Second, 100_000, nil}, 0, 30 * time.Second},
		{pace{minProgress, 29 * time.Second, 100 * minProgress, nil}, 0, 0},
		{pace{minProgress - 1, 29 * time.Second, 100 * minProgress, nil}, 0, 30 * time.Second},
		{pace{minProgress / 16, time.Second, 100 * minProgress, nil}, 0, 0},
		{pace{minProgress / 32, time.Second, 100 * minProgress, nil}, 0, 30 * time.Second},
		{pace{minProgress, time.Second, 10 * minProgress, nil}, time.Minute, 0},
		{pace{minProgress - 1, 14 * time.Second, 10 * minProgress, nil}, time.Minute, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			c.ctx = ctx
			b := &body{rc: &c.pace, way: &way{at: &url.URL{}}, ctx: ctx, cancel: cancel, limit: 1 << 30, declared: -1,
				stall: 30 * time.Second}
			b.begin()
			waited := time.Duration(0)
			var err error
			for buffer := make([]byte, 1<<20); err == nil; time.Sleep(c.caller) {
				start := time.Now()
				_, err = b.Read(buffer)
				waited += time.Since(start)
			}
			slow := (*SlowError)(nil)
			if errors.As(err, &slow) != (c.after > 0) || c.after > 0 && waited != c.after || c.after == 0 &&
				err != io.EOF {
				t.Errorf("%+v: after %s: %v", c, waited, err)
			}
		})
	}
}

// TestEndAfterCancel: what ends in good form because its reader went away isn't whole.
func TestEndAfterCancel(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	b := &body{rc: &pace{1, 0, 0, ctx}, way: &way{at: &url.URL{}}, ctx: ctx, cancel: cancel, limit: 9, declared: -1,
		stall: time.Minute}
	b.begin()
	cancel(nil)
	if n, err := b.Read(make([]byte, 9)); n != 0 || !errors.Is(err, context.Canceled) {
		t.Errorf("%d, %v", n, err)
	}
}

func TestCancel(t *testing.T) {
	arrived := make(chan struct{}, 1)
	w := newWorld(t, limits{}, func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/body" {
			send("1")(rw, r)
			rw.(http.Flusher).Flush()
		}
		arrived <- struct{}{}
		<-r.Context().Done()
	})
	for _, path := range []string{"/body", "/none"} {
		ctx, cancel := context.WithCancel(t.Context())
		go func() { <-arrived; cancel() }()
		_, _, err := w.read(ctx, w.url("public.example", path), 9)
		if e := (*Error)(nil); !errors.Is(err, context.Canceled) || !errors.As(err, &e) {
			t.Errorf("%s: %v", path, err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, _, err := w.read(ctx, w.url("public.example", "/none"), 9)
	if slow := (*SlowError)(nil); !errors.Is(err, context.DeadlineExceeded) || errors.As(err, &slow) {
		t.Errorf("the caller's deadline: %v", err)
	}
	ctx, cancel = context.WithCancel(t.Context())
	cancel()
	if _, _, err := w.Get(ctx, w.url("public.example", "/none"), 9); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

func TestClose(t *testing.T) {
	gone := make(chan struct{})
	w := newWorld(t, limits{}, func(rw http.ResponseWriter, r *http.Request) {
		send("1")(rw, r)
		rw.(http.Flusher).Flush()
		<-r.Context().Done()
		close(gone)
	})
	rc, size, err := w.Get(t.Context(), w.url("public.example", "/?t=secret"), 9)
	if err != nil || size != -1 {
		t.Fatal(size, err)
	}
	if n, err := rc.Read(nil); n != 0 || err != nil {
		t.Errorf("reading nothing: %d, %v", n, err)
	}
	rc.Close()
	<-gone // the server hears of it
	if _, err := rc.Read(make([]byte, 9)); err == nil ||
		err.Error() != strconv.Quote(w.url("public.example", "/?t=…"))+": read after it was closed" {
		t.Errorf("%v", err)
	}
	rc.Close()
}
