package web

import (
	"context"
	"crypto/sha256"
	"errors"
	"hash"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"syscall"

	"github.com/rye-build/rye/cas"
)

// A fetch is one Get: all of its tries, behind one reader.
type fetch struct {
	*Client
	ctx   context.Context // with the deadline for everything
	at    *url.URL
	limit int64
	tried int // the number of tries
	body  *body
	size  int64     // announced in the first answer; -1: not announced
	got   int64     // the bytes that the caller has
	sum   hash.Hash // of these bytes
	err   error     // what every later Read returns
	stop  context.CancelFunc
	asks  *condition // of the first answer; once bytes have come, their rest is wanted in any case
}

// open retries until an answer can be read, and skips the bytes that the caller has already.
func (f *fetch) open() error {
	for {
		f.tried++
		asks := f.asks
		if f.body != nil {
			asks = nil
		}
		b, err := f.once(f.ctx, f.at, f.limit, asks)
		switch {
		case err == nil && f.body == nil:
			f.body, f.size = b, b.declared
			return nil
		case err == nil:
			if err = f.skip(b); err == nil {
				f.body = b
				return nil
			}
			b.Close()
		}
		if err := f.pause(err); err != nil {
			return err
		}
	}
}

// skip reads and checks the bytes that the caller has already.
func (f *fetch) skip(b *body) error {
	same := sha256.New()
	if _, err := io.CopyN(same, b, f.got); err != nil && err != io.EOF {
		return err
	}
	if b.declared >= 0 && f.size >= 0 && b.declared != f.size || string(same.Sum(nil)) != string(f.sum.Sum(nil)) {
		return b.way.error(&AnswerError{errChanged})
	}
	return nil
}

// pause waits before the next try. It returns err if no try is left.
func (f *fetch) pause(err error) error {
	if f.tried > len(f.limits.pauses) || !passing(err) {
		return f.final(err)
	}
	wait := f.limits.pauses[f.tried-1]
	if status, ok := errors.AsType[*StatusError](err); ok && status.RetryAfter > wait {
		if wait = status.RetryAfter; wait > maxPause {
			return f.final(err)
		}
	}
	if f.options.Again != nil {
		f.options.Again(err, wait)
	}
	if cas.Sleep(f.ctx, wait) != nil {
		return (&way{at: f.at}).error(over(f.ctx))
	}
	return nil
}

// final records an error after which rye doesn't retry.
func (f *fetch) final(err error) error {
	if e, ok := errors.AsType[*Error](err); ok {
		e.Tries = f.tried
	}
	return err
}

func (f *fetch) Read(p []byte) (int, error) {
	for f.err == nil {
		n, err := f.body.Read(p)
		f.got += int64(n)
		f.sum.Write(p[:n])
		if n > 0 || err == nil {
			return n, nil // the body returns it again
		}
		if err == io.EOF {
			if f.err = err; f.size >= 0 && f.got != f.size {
				f.err = f.final(f.body.way.error(&AnswerError{errChanged}))
			}
			break
		}
		if f.err = f.pause(err); f.err == nil {
			f.body.Close()
			f.err = f.open()
		}
	}
	return 0, f.err
}

// Close ends the fetch, wherever it is. Closing it again does nothing.
func (f *fetch) Close() error {
	if f.err == nil || f.err == io.EOF {
		f.err = f.body.way.error(errClosed)
	}
	defer f.stop()
	return f.body.Close()
}

// passing reports whether a retry may succeed after an error.
func passing(err error) bool {
	var (
		status  *StatusError
		slow    *SlowError
		short   *ShortError
		refused *RefusedError
		unknown *net.DNSError
	)
	switch {
	case errors.As(err, &status):
		switch status.Status {
		case http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusInternalServerError,
			http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
			return true
		}
		return false
	case errors.As(err, &slow):
		return slow.Phase == Answering || slow.Phase == Sending
	case errors.As(err, &refused):
		return false
	case errors.As(err, &unknown):
		return unknown.IsTemporary
	case errors.As(err, &short), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return true
	}
	return slices.ContainsFunc([]error{syscall.ECONNRESET, syscall.ECONNREFUSED, syscall.ECONNABORTED, syscall.EPIPE},
		func(e error) bool { return errors.Is(err, e) })
}
