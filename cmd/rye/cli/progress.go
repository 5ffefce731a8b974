package cli

import (
	"context"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"
)

// ProgressAfter is the time before a progress line appears, and ProgressEvery the time between two updates.
const (
	ProgressAfter = time.Second
	ProgressEvery = 200 * time.Millisecond
)

// A Progress is a progress line that appears after a second and is redrawn in place. Without a terminal it is nil,
// and the methods of a nil Progress do nothing. Its methods are safe for concurrent use; Add is one atomic
// addition. The caller of App.Progress must call Done, which may be called again.
type Progress struct {
	Term  *Terminal
	Label string
	Total atomic.Int64 // bytes, or 0 when unknown
	Sum   atomic.Int64
	Begun time.Time

	stop chan struct{}
	once sync.Once
	gone sync.WaitGroup

	last     time.Time // of the previous line
	lastDone int64
	rate     float64 // bytes a second, smoothed
}

// Progress starts a progress line for total bytes, or 0 if their number is unknown. The caller ends it with Done.
func (a *App) Progress(label string, total int64) *Progress {
	if !a.Term.Live || a.Term.Quiet {
		return nil
	}
	p := &Progress{Term: a.Term, Label: label, Begun: time.Now(), stop: make(chan struct{})}
	p.Total.Store(total)
	p.gone.Go(p.loop)
	return p
}

// Add counts n more bytes.
func (p *Progress) Add(n int64) {
	if p != nil {
		p.Sum.Add(n)
	}
}

// Reached returns a function that takes the number of bytes so far, from many goroutines and in any order. Without a
// progress line it returns nil.
func (p *Progress) Reached() func(files, bytes int64) {
	if p == nil {
		return nil
	}
	var mu sync.Mutex
	var most int64
	return func(_, bytes int64) {
		mu.Lock()
		defer mu.Unlock()
		if bytes > most {
			p.Add(bytes - most)
			most = bytes
		}
	}
}

// Expect runs measure concurrently with the work and uses its result as the total. It runs nothing without a
// progress line, and Done cancels it.
func (p *Progress) Expect(ctx context.Context, measure func(context.Context) (int64, error)) {
	if p == nil {
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	p.gone.Go(func() {
		defer cancel()
		if n, err := measure(ctx); err == nil {
			p.Total.Store(n)
		}
	})
	p.gone.Go(func() {
		select {
		case <-p.stop:
			cancel()
		case <-ctx.Done():
		}
	})
}

// Done removes the line.
func (p *Progress) Done() {
	if p == nil {
		return
	}
	p.once.Do(func() { close(p.stop) })
	p.gone.Wait()
}

func (p *Progress) loop() {
	timer := time.NewTimer(ProgressAfter)
	defer timer.Stop()
	for {
		select {
		case <-p.stop:
			p.Term.draw("")
			return
		case now := <-timer.C:
			width := 0
			if p.Term.Stderr.Width != nil {
				width = p.Term.Stderr.Width()
			}
			p.Term.draw(p.Render(now, width))
			timer.Reset(ProgressEvery)
		}
	}
}

// Render returns the line at a moment, cut to the width of the terminal, because a wrapped line can't be redrawn.
func (p *Progress) Render(now time.Time, width int) string {
	done := p.Sum.Load()
	if p.last.IsZero() {
		p.last = p.Begun
	}
	if span := now.Sub(p.last).Seconds(); span > 0 {
		rate := float64(done-p.lastDone) / span
		if p.last.Equal(p.Begun) {
			p.rate = rate
		} else {
			p.rate += (rate - p.rate) / 8
		}
		p.last, p.lastDone = now, done
	}
	line := Escape(p.Label, p.Term.Ascii) + "  "
	total := p.Total.Load()
	switch left := total - done; {
	case total == 0 && done == 0:
		line += Countdown(now.Sub(p.Begun).Seconds()) // nothing counted: show the time that has passed
	case total == 0:
		line += ByteSize(float64(done)) + "  " + ByteSize(p.rate) + "/s"
	default:
		line += fmt.Sprintf("%s of %s  %d%%  %s/s", ByteSize(float64(done)), ByteSize(float64(total)),
			min(100, done*100/total), ByteSize(p.rate))
		if left > 0 && p.rate >= 1 {
			line += "  ETA " + Countdown(float64(left)/p.rate)
		}
	}
	if width <= 0 {
		width = 80
	}
	runes := []rune(line)
	return string(runes[:min(len(runes), width-1)])
}

// Countdown formats seconds for people: 42s, 3m07s, 2h05m.
func Countdown(seconds float64) string {
	s := int64(seconds + 0.5)
	switch {
	case seconds > 359999:
		return "more than 99h"
	case s >= 3600:
		return fmt.Sprintf("%dh%02dm", s/3600, s/60%60)
	case s >= 60:
		return fmt.Sprintf("%dm%02ds", s/60, s%60)
	}
	return fmt.Sprintf("%ds", s)
}

// ByteSize formats a number of bytes for people.
func ByteSize(n float64) string {
	if n < 1024 {
		return fmt.Sprintf("%.0f B", n)
	}
	i := -1
	for n >= 1023.95 && i < len("KMGTPE")-1 {
		n /= 1024
		i++
	}
	return fmt.Sprintf("%.1f %ciB", n, "KMGTPE"[i])
}

// Counted returns a reader that counts every byte read from r.
func (p *Progress) Counted(r io.Reader) io.Reader {
	if p == nil {
		return r
	}
	return io.TeeReader(r, p)
}

// Write counts bytes, for io.TeeReader.
func (p *Progress) Write(b []byte) (int, error) {
	p.Add(int64(len(b)))
	return len(b), nil
}
