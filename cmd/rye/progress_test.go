package main

import (
	"bytes"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rye-build/rye/cmd/rye/cli"
)

func TestProgressLine(t *testing.T) {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	p := &cli.Progress{Term: &cli.Terminal{}, Label: "import", Begun: start}
	p.Total.Store(1 << 30)
	for _, step := range []struct {
		at    time.Duration
		add   int64
		width int
		want  string
	}{
		{time.Second, 100 << 20, 80, "import  100.0 MiB of 1.0 GiB  9%  100.0 MiB/s  ETA 9s"},
		{2 * time.Second, 100 << 20, 80, "import  200.0 MiB of 1.0 GiB  19%  100.0 MiB/s  ETA 8s"},
		{3 * time.Second, 20 << 20, 80, "import  220.0 MiB of 1.0 GiB  21%  90.0 MiB/s  ETA 9s"},
		{3 * time.Second, 0, 20, "import  220.0 MiB o"},
		{4 * time.Second, 804 << 20, 80, "import  1.0 GiB of 1.0 GiB  100%  179.2 MiB/s"},
		{5 * time.Second, 10 << 20, 0, "import  1.0 GiB of 1.0 GiB  100%  158.1 MiB/s"},
	} {
		p.Add(step.add)
		if got := p.Render(start.Add(step.at), step.width); got != step.want {
			t.Errorf("after %v: %q, want %q", step.at, got, step.want)
		}
	}
	p = &cli.Progress{Term: &cli.Terminal{Ascii: true}, Label: "ä\x1b[2J", Begun: start}
	if got := p.Render(start.Add(90*time.Second), 80); got != `\u00e4\x1b[2J  1m30s` {
		t.Errorf("nothing known: %q", got)
	}
	p.Add(1024)
	if got := p.Render(start.Add(91*time.Second), 80); got != `\u00e4\x1b[2J  1.0 KiB  128 B/s` {
		t.Errorf("no total: %q", got)
	}
}

func TestCountdownAndSize(t *testing.T) {
	for s, want := range map[float64]string{0.2: "0s", 59.4: "59s", 59.6: "1m00s", 3599: "59m59s", 7384: "2h03m",
		1e12: "more than 99h"} {
		if got := cli.Countdown(s); got != want {
			t.Errorf("%v: %s, want %s", s, got, want)
		}
	}
	for n, want := range map[float64]string{0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1048575: "1.0 MiB",
		1.5e9: "1.4 GiB", 9e18: "7.8 EiB"} {
		if got := cli.ByteSize(n); got != want {
			t.Errorf("%v: %s, want %s", n, got, want)
		}
	}
}

// lockedBuffer is a screen that a test can look at while it is written to.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) take() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.b.Reset()
	return l.b.String()
}

// TestProgressOnTerminal runs against the fake clock of a synctest bubble.
func TestProgressOnTerminal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		screen := new(lockedBuffer)
		h, _, _ := testHost()
		h.Stderr = cli.Stream{Writer: screen, Tty: true, Width: func() int { return 60 }}
		a := &cli.App{Host: h, Term: h.Terminal(true)}
		p := a.Progress("put", 4096)
		step := func(d time.Duration, want string) {
			t.Helper()
			time.Sleep(d) // the bubble's clock: no time passes outside
			synctest.Wait()
			if got := screen.take(); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		}
		p.Add(1024)
		step(999*time.Millisecond, "")
		step(time.Millisecond, "put  1.0 KiB of 4.0 KiB  25%  1.0 KiB/s  ETA 3s")
		step(199*time.Millisecond, "")
		p.Add(1024)
		step(time.Millisecond, "\r\x1b[Kput  2.0 KiB of 4.0 KiB  50%  1.5 KiB/s  ETA 1s")
		a.Term.Note("a word")
		step(0, "\r\x1b[Ka word\nput  2.0 KiB of 4.0 KiB  50%  1.5 KiB/s  ETA 1s")
		p.Done()
		step(0, "\r\x1b[K")
		p.Done()
		step(time.Hour, "")
	})
}

// TestProgressSilent: no terminal, CI, a dumb terminal, --quiet, or less than a second: nothing.
func TestProgressSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, env := range []string{"", "tty CI=true", "tty TERM=dumb", "tty quiet", "tty short"} {
			screen := new(lockedBuffer)
			h, _, _ := testHost(strings.Fields(env)...)
			h.Stderr = cli.Stream{Writer: screen, Tty: strings.Contains(env, "tty")}
			a := &cli.App{Host: h, Term: h.Terminal(true)}
			a.Term.Quiet = strings.Contains(env, "quiet")
			p := a.Progress("put", 10)
			p.Add(1)
			if !strings.Contains(env, "short") {
				time.Sleep(time.Minute)
			}
			p.Done()
			if got := screen.take(); got != "" {
				t.Errorf("%q: %q", env, got)
			}
		}
	})
}

func BenchmarkProgressAdd(b *testing.B) {
	p := new(cli.Progress)
	for b.Loop() {
		p.Add(1)
	}
}

// TestProgressReached: totals reported by many goroutines in any order never go back.
func TestProgressReached(t *testing.T) {
	var none *cli.Progress
	if none.Reached() != nil {
		t.Error("progress is reported although no line is shown")
	}
	p := new(cli.Progress)
	reached := p.Reached()
	for _, n := range []int64{5, 3, 9, 9, 1} {
		reached(1, n)
	}
	if got := p.Sum.Load(); got != 9 {
		t.Errorf("%d bytes, want 9", got)
	}
}
