// Package sink is the set of destinations for the standard output of a call other than its caller.
//
//	return            to the caller; not a sink of this package
//	null              nowhere
//	raw:PATH          appends the bytes, unchanged, to a file
//	jsonl:PATH        appends each line as one line of JSON to a file
//	ws://HOST/PATH    sends each line as a JSON message to a server; wss:// through TLS
//
// The result of the call is the same in each case. A missing file is created; its directory must exist.
//
// # Lines
//
// LF ends a line, and so does the end of the output. A line that is JSON, as package jcs parses it, becomes canonical
// JSON (RFC 8785), any other line a JSON string, with invalid UTF-8 as U+FFFD. Empty lines are left out. A line has at
// most MaxLine bytes.
//
//	{"b": 1, "a": [true]}          {"a":[true],"b":1}
//	done.                          "done."
//
// # Files
//
// Only one call at a time writes a file; for a second call the file is busy. Output is written before the call
// continues. A jsonl file contains only complete lines: if a line can't be written, as on a full disk, its beginning
// is removed and the call ends. A file whose last line is incomplete is refused: another program wrote it, or the
// machine crashed.
//
// # Servers
//
// Each message is written before the call continues, so that a slow server slows the call. A written message may not
// have arrived: at most MaxPending messages, or MaxPendingBytes, are kept until the server has answered a ping sent
// after them. If a connection breaks, or makes no progress for 30 seconds, it is reopened up to MaxReconnects times,
// after half a second, one, two, and all kept messages are sent again: a server may get a message twice and misses
// none. If that fails too, the call ends. Close waits for the last ping. Messages of the server are read and ignored,
// up to 32 KiB each.
//
// The sink follows no redirect, uses no proxy, and sends nothing of the user's but the lines. It requires TLS 1.2 or
// later, and a valid certificate.
//
// # How output goes through here
//
// Parse reads a target and Opener.Open opens it. Emit splits output into lines (splitter.feed) and writes each: to a
// file (file.line), or to a server (server.send, with again and resend after a broken connection). Close writes the
// last line and waits until everything has arrived. Redacted wraps any sink and removes secrets first.
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
	// MaxLine bounds a line.
	MaxLine = 1 << 20
	// MaxPending and MaxPendingBytes bound the messages kept for a server until they have arrived.
	MaxPending      = 256
	MaxPendingBytes = 4 << 20
	// MaxReconnects is how many times in a row a connection is reopened.
	MaxReconnects = 3
)

// A Sink receives the output of a call. Closing it is part of the call: only then has everything arrived.
type Sink interface {
	primitive.Sink
	Close() error
}

// A Kind is the kind of a sink.
type Kind uint8

// The kinds.
const (
	Return Kind = iota
	Null
	Raw
	Lines
	Server
)

// A Target is the destination of output. The zero Target is the caller.
type Target struct {
	Kind Kind
	Path string // of a file
	URL  *url.URL
}

func badTarget(text, reason string) (Target, error) {
	return Target{}, fault.New(fault.Validation, "invalid sink %q: %s", text, reason).On("argument",
		"--sink").Try("rye help exec")
}

// Parse parses a target from the command line.
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
		address, err := url.Parse(text)
		switch {
		case err != nil || address.Opaque != "" || address.Hostname() == "":
			return fail("expected an address such as wss://example.com/path")
		case address.User != nil:
			return badTarget(address.Redacted(), "remove the name and password")
		case address.Fragment != "":
			return fail("the part after # is never sent")
		}
		if port := address.Port(); port != "" {
			if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
				return fail("the port is invalid")
			}
		}
		return Target{Kind: Server, URL: address}, nil
	}
	return fail("expected return, null, raw:PATH, jsonl:PATH, ws://HOST/PATH or wss://HOST/PATH")
}

// An Opener opens sinks.
type Opener struct {
	Roots *x509.CertPool // certificate authorities; nil: the system's

	// For tests.
	sleep func(context.Context, time.Duration) error
	stall time.Duration
}

// Open opens a sink that lives until the context ends: it creates the file, or connects to the server. For the caller
// as target it returns nil.
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

// A splitter splits input, which may be cut anywhere, into lines.
type splitter struct{ rest []byte }

// feed passes on complete lines, each as JSON without a newline.
func (s *splitter) feed(data []byte, each func([]byte) error) error {
	for len(data) > 0 {
		i := bytes.IndexByte(data, '\n')
		part := data
		if i >= 0 {
			part = data[:i]
		}
		if len(s.rest)+len(part) > MaxLine {
			return fault.New(fault.Resource, "the tool wrote a line of more than %d bytes, which the sink can't take",
				MaxLine)
		}
		s.rest = append(s.rest, part...)
		if i < 0 {
			return nil
		}
		data = data[i+1:]
		if err := s.end(each); err != nil {
			return err
		}
	}
	return nil
}

// end passes on the rest as a line.
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
