// Package sink streams the standard output of a call to a place other than its caller.
//
//	return            to the caller; not a sink of this package
//	null              nowhere
//	raw:PATH          its bytes, as they are, to the end of a file
//	jsonl:PATH        its lines, each as one line of JSON, to the end of a file
//	ws://HOST/PATH    its lines, each as one message of JSON, to a server; wss:// through TLS
//
// The result of the call is the same in each case. A file is made if it isn't there; its directory has to be.
//
// # Lines
//
// A line is what ends with LF, and what comes last. One that is JSON, as package jcs reads it, becomes the one form
// that its value has (RFC 8785), any other a text in JSON, with what isn't UTF-8 as U+FFFD. Empty ones are left out. A
// line has MaxLine bytes at most.
//
//	{"b": 1, "a": [true]}          {"a":[true],"b":1}
//	done.                          "done."
//
// # Files
//
// One call writes a file at a time; for a second one the file is busy. Output is written before the call continues. A
// jsonl file has only whole lines: if one can't be written, as on a full disk, its part is removed and the call ends.
// A file whose last line is incomplete is refused: another program wrote it, or the machine stopped meanwhile.
//
// # Servers
//
// Each message is written before the call goes on, so that a slow server slows the call. A message that was written
// may not have arrived: at most MaxPending messages, or MaxPendingBytes, are kept until the server has answered a ping
// that was sent behind them. Where a connection breaks, or nothing moves for 30 seconds, it is made anew up to
// MaxReconnects times, after half a second, one, two, and all that is kept is sent again: a server may get a message
// twice and misses none. What can't be brought there ends the call. At its end the last ping is waited for. What a
// server sends is read and passed over, up to 32 KiB a message.
//
// No redirect is followed, no proxy asked, and nothing of the user's is sent but the lines. TLS is 1.2 at least, and
// the certificate is verified.
package sink

import (
	"bytes"
	"context"
	"crypto/x509"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/primitive"
	"github.com/rye-build/rye/manifest/jcs"
)

const (
	// MaxLine is how long a line may be.
	MaxLine = 1 << 20
	// MaxPending and MaxPendingBytes are how much is kept for a server until it is known to have arrived.
	MaxPending      = 256
	MaxPendingBytes = 4 << 20
	// MaxReconnects is how often in a row a connection is made anew.
	MaxReconnects = 3
)

// A Sink takes what a call writes. Closing it is part of the call: only then everything has arrived.
type Sink interface {
	primitive.Sink
	Close() error
}

// A Kind says what a sink is.
type Kind uint8

// The kinds.
const (
	Return Kind = iota
	Null
	Raw
	Lines
	Server
)

// A Target says where output goes. The zero Target is the caller.
type Target struct {
	Kind Kind
	Path string // of a file
	URL  *url.URL
}

func badTarget(text, reason string) (Target, error) {
	return Target{}, fault.New(fault.Validation, "invalid sink %q: %s", text, reason).On("argument",
		"--sink").Try("rye help exec")
}

// Parse reads a target as it is typed.
func Parse(text string) (Target, error) {
	fail := func(reason string) (Target, error) { return badTarget(text, reason) }
	kind, rest, colon := strings.Cut(text, ":")
	switch {
	case text == "" || text == "return":
		return Target{}, nil
	case text == "null":
		return Target{Kind: Null}, nil
	case colon && (kind == "raw" || kind == "jsonl"):
		if rest == "" || strings.Contains(rest, "\x00") {
			return fail("the path is missing")
		}
		if kind == "raw" {
			return Target{Kind: Raw, Path: rest}, nil
		}
		return Target{Kind: Lines, Path: rest}, nil
	case kind == "ws" || kind == "wss":
		u, err := url.Parse(text)
		switch {
		case err != nil || u.Opaque != "" || u.Hostname() == "":
			return fail("expected an address such as wss://example.com/path")
		case u.User != nil:
			return badTarget(u.Redacted(), "remove the name and password")
		case u.Fragment != "":
			return fail("the part after # is never sent")
		}
		if port := u.Port(); port != "" {
			if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
				return fail("the port is invalid")
			}
		}
		return Target{Kind: Server, URL: u}, nil
	}
	return fail("expected return, null, raw:PATH, jsonl:PATH, ws://HOST/PATH or wss://HOST/PATH")
}

// An Opener opens sinks.
type Opener struct {
	Roots *x509.CertPool // certificate authorities; nil: those of the system

	// What tests set.
	sleep func(context.Context, time.Duration) error
	stall time.Duration
}

// Open opens a sink until the context ends: it creates the file, or connects to the server. For the caller as target
// it returns nil.
func (o Opener) Open(ctx context.Context, t Target) (Sink, error) {
	switch t.Kind {
	case Null:
		return null{}, nil
	case Raw, Lines:
		return openFile(t)
	case Server:
		return o.connect(ctx, t.URL)
	}
	return nil, nil
}

type null struct{}

func (null) Emit(primitive.Stream, []byte) error { return nil }
func (null) Close() error                        { return nil }

// A splitter makes lines of what comes, which may be cut anywhere.
type splitter struct{ rest []byte }

// feed hands on the lines that are whole, each as JSON without an end.
func (s *splitter) feed(b []byte, each func([]byte) error) error {
	for len(b) > 0 {
		i := bytes.IndexByte(b, '\n')
		part := b
		if i >= 0 {
			part = b[:i]
		}
		if len(s.rest)+len(part) > MaxLine {
			return fault.New(fault.Resource, "the tool wrote a line of more than %d bytes, which the sink can't take",
				MaxLine)
		}
		s.rest = append(s.rest, part...)
		if i < 0 {
			return nil
		}
		b = b[i+1:]
		if err := s.end(each); err != nil {
			return err
		}
	}
	return nil
}

// end hands on what is there as a line.
func (s *splitter) end(each func([]byte) error) error {
	line := bytes.TrimSpace(s.rest)
	s.rest = s.rest[:0]
	if len(line) == 0 {
		return nil
	}
	v, err := jcs.Parse(line)
	var text []byte
	if err == nil {
		text, err = jcs.Append(nil, v)
	}
	if err != nil {
		if text, err = jcs.Append(nil, strings.ToValidUTF8(string(line), "\ufffd")); err != nil {
			return err
		}
	}
	return each(text)
}
