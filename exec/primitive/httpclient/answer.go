package httpclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"mime"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/rye-build/rye/exec/primitive"
	"github.com/rye-build/rye/manifest/jcs"
)

var (
	errEncoded = errors.New("the body has an unrequested encoding")
	errSwitch  = errors.New("the server switches to another protocol")
)

// read reads the body of an answer.
func (x *exchange) read(ctx context.Context, way *way, resp *http.Response) error {
	coding := strings.Join(resp.Header.Values("Content-Encoding"), ",")
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	var err error
	switch {
	case way.method == http.MethodHead:
		x.body = ""
		return nil
	case resp.StatusCode == http.StatusSwitchingProtocols:
		return &failure{host: way.url.Host, sent: true, final: true, err: errSwitch}
	case coding != "" && !strings.EqualFold(coding, "identity") && resp.ContentLength != 0:
		return &failure{host: way.url.Host, sent: true, final: true, err: errEncoded}
	case x.stream && kind == "text/event-stream" && resp.StatusCode < 300:
		err = x.follows(resp.Body)
	default:
		err = x.readWhole(resp)
	}
	size, sink := (*sizeError)(nil), (*sinkError)(nil)
	switch {
	case errors.As(err, &size), errors.As(err, &sink):
		return err
	case ctx.Err() != nil:
		// A server that notices the disconnect may end the body as if it were complete.
		return context.Cause(ctx)
	case err != nil:
		return &failure{host: way.url.Host, sent: true, err: err}
	}
	return nil
}

// readWhole reads a body that isn't a stream.
func (x *exchange) readWhole(resp *http.Response) error {
	most := min(x.most, MaxBody)
	if x.cut > 0 && x.cut <= most {
		return x.readBeginning(resp)
	}
	if resp.ContentLength > most {
		return &sizeError{"the answer", most}
	}
	b, err := io.ReadAll(io.LimitReader(resp.Body, most+1))
	x.received += int64(len(b))
	if int64(len(b)) > most {
		return &sizeError{"the answer", most}
	}
	if err == nil {
		x.raw, x.body = b, x.decode(b)
	}
	return err
}

// readBeginning reads the beginning of a body, up to the cut.
func (x *exchange) readBeginning(resp *http.Response) error {
	data, err := io.ReadAll(io.LimitReader(resp.Body, x.cut+1))
	x.received += int64(len(data))
	if err != nil {
		return err
	}
	if x.short = int64(len(data)) > x.cut; x.short {
		end := x.cut
		for end > x.cut-utf8.UTFMax && end > 0 && !utf8.RuneStart(data[end]) {
			end-- // don't cut within a character
		}
		data = data[:end]
	}
	x.raw, x.body = data, x.decode(data)
	return nil
}

// decode returns a body's value: its JSON, or else its text.
func (x *exchange) decode(b []byte) any {
	if x.plain {
		return valid(b)
	}
	return value(string(b))
}

// follows reads a stream of events, and passes them on.
func (x *exchange) follows(body io.Reader) error {
	x.kept = []any{}
	var p parser
	buffer := make([]byte, 32<<10)
	for got := int64(0); ; {
		n, err := body.Read(buffer)
		got += int64(n)
		x.received += int64(n)
		if got > x.most {
			return &sizeError{"the stream", x.most}
		}
		if err := p.feed(buffer[:n], x.tell); err != nil {
			return err
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// tell passes on an event.
func (x *exchange) tell(e event) error {
	object := map[string]any{"data": value(e.data)}
	if e.name != "" {
		object["event"] = valid(e.name)
	}
	if e.id != "" {
		object["id"] = valid(e.id)
	}
	line, err := jcs.Append(nil, object)
	if err != nil {
		return err
	}
	line = append(line, '\n')
	if x.left -= int64(len(line)); x.left < 0 {
		return &sizeError{"what comes out of the stream", x.most}
	}
	x.events++
	if len(x.kept) < MaxEvents && x.size+len(line) <= MaxKept {
		x.kept = append(x.kept, object)
		x.size += len(line)
	}
	if x.to == nil {
		return nil
	}
	if err := x.to.Emit(primitive.Stdout, line); err != nil {
		return &sinkError{err}
	}
	return nil
}

// value returns the answer as JSON values.
func (x *exchange) value() any {
	headers := map[string]any{}
	for name, values := range x.header {
		headers[strings.ToLower(valid(name))] = valid(strings.Join(values, ", "))
	}
	v := map[string]any{"status_code": int64(x.status), "headers": headers}
	switch {
	case x.kept != nil:
		v["body"], v["stream_events_count"] = x.kept, int64(x.events)
	case x.status != 0:
		v["body"] = x.body
	}
	if x.plain {
		v["url"], v["bytes"], v["truncated"] = valid(x.from), int64(len(x.raw)), x.short
	}
	return v
}

// reason returns the reason of an answer with an error status.
func (x *exchange) reason() string {
	text := strings.TrimSpace(fmt.Sprintf("HTTP %d %s", x.status, http.StatusText(x.status)))
	why, _ := x.body.(string)
	if object, ok := x.body.(map[string]any); ok {
		for _, name := range []string{"error", "message", "detail"} {
			v := object[name]
			if inner, ok := v.(map[string]any); ok {
				v = inner["message"]
			}
			if why, _ = v.(string); why != "" {
				break
			}
		}
	}
	if why = strings.TrimSpace(why); why != "" {
		text += ": " + clip(why)
	}
	return text
}

// maxDepth bounds the nesting of a body, so that the value around it stays within package jcs's limit.
const maxDepth = jcs.MaxDepth - 8

// value returns the JSON in a text, or else the text.
func value(s string) any {
	if v, err := jcs.Parse([]byte(strings.TrimSpace(s))); err == nil && !deeper(v, maxDepth) {
		return v
	}
	return valid(s)
}

// deeper reports whether arrays and objects nest deeper than n.
func deeper(v any, n int) bool {
	var inner iter.Seq[any]
	switch v := v.(type) {
	case []any:
		inner = slices.Values(v)
	case map[string]any:
		inner = maps.Values(v)
	default:
		return false
	}
	if n == 0 {
		return true
	}
	for v := range inner {
		if deeper(v, n-1) {
			return true
		}
	}
	return false
}

func valid[T []byte | string](s T) string { return strings.ToValidUTF8(string(s), "\ufffd") }
