package web

import (
	"context"
	"errors"
	"io"
	"time"
)

// A body returns the bytes of an answer within the limits. It ends with io.EOF only if the server ended the body
// properly.
type body struct {
	rc       io.ReadCloser
	way      *way
	ctx      context.Context
	cancel   context.CancelCauseFunc
	limit    int64
	declared int64 // -1: not announced
	tag      string
	got      int64
	err      error // what every later Read returns

	unchanged bool // the caller has the file already: there are no bytes

	stall    time.Duration
	timer    *time.Timer   // ends the fetch during a Read; runs only while one waits
	left     time.Duration // for the rest of progress
	progress int           // bytes of the current minProgress
}

func (b *body) begin() {
	b.left = b.stall
	b.timer = time.AfterFunc(b.stall, func() { b.cancel(&SlowError{Sending, b.stall}) })
	b.timer.Stop()
}

func (b *body) Read(p []byte) (int, error) {
	if b.err != nil || len(p) == 0 {
		return 0, b.err
	}
	// One byte past the limit shows that the body is too large.
	if room := b.limit - b.got; int64(len(p)) > room {
		p = p[:room+1]
	}
	start := time.Now()
	b.timer.Reset(b.left)
	n, err := b.rc.Read(p)
	b.timer.Stop()
	b.left -= time.Since(start)
	if b.progress += n; b.progress >= minProgress {
		b.progress, b.left = 0, b.stall
	}
	b.got += int64(n)
	switch {
	case b.got > b.limit:
		n, b.got = n-1, b.limit
		b.end(&LimitError{b.limit, -1})
	case err == io.EOF && b.ctx.Err() == nil:
		b.err = io.EOF
	case err != nil:
		b.end(b.broken(err))
	case b.left <= 0:
		b.end(&SlowError{Sending, b.stall})
	}
	return n, b.err
}

// broken returns the reason for a failed read. After the context's end it ignores the body's end: a server that
// notices the disconnect may end a partial body properly.
func (b *body) broken(err error) error {
	if ended := over(b.ctx); ended != nil {
		return ended
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return &ShortError{b.got, b.declared}
	}
	return &AnswerError{err}
}

// end disconnects from the server at once.
func (b *body) end(err error) {
	b.err = b.way.error(err)
	b.cancel(nil)
}

var errClosed = errors.New("read after it was closed")

// Close ends the fetch, wherever it is. Closing it again does nothing.
func (b *body) Close() error {
	if b.err == nil || b.err == io.EOF {
		b.err = b.way.error(errClosed)
	}
	b.cancel(nil)
	return b.rc.Close()
}
