package mcp

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rye-build/rye/manifest/jcs"
)

type discard struct{ io.Writer }

func (discard) Close() error { return nil }

// What a server writes is messages, until it is something else: then the connection is over, with a reason unless it
// just ends.
func FuzzLines(f *testing.F) {
	for _, s := range []string{
		"", "\n", "{", `{"jsonrpc":"2.0","id":1,"result":{}}` + "\n",
		`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}` + "\n",
		`{"jsonrpc":"2.0","id":"x","method":"ping"}` + "\r\n\r\n" +
			`{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"x"}}`, "[]\n", "null\n",
		strings.Repeat("x", 300) + "\n",
		`{"jsonrpc":"2.0","id":1.5,"method":7}` + "\n",
		`{"jsonrpc":"2.0","id":1,"id":2,"result":{},"method":"a"}` + "\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		l := newLines(bytes.NewReader(b), discard{io.Discard}, 200, func() {})
		defer l.Close()
		for {
			m, err := l.Read(t.Context())
			if err != nil {
				if e := l.reason(); err != io.EOF && (e == nil || e.why == "" || strings.Contains(e.why, "\x1b")) {
					t.Errorf("%v, %v", err, e)
				}
				return
			}
			if _, asked := m.(*jsonrpc.Response); asked {
				t.Errorf("an answer to nothing: %v", m)
			}
		}
	})
}

// Whatever an answer says, there is a value or an error, and the value is JSON or is said not to be.
func FuzzValue(f *testing.F) {
	for _, s := range []string{
		`{}`, `{"content":[{"type":"text","text":"{\"a\":1}"}]}`,
		`{"content":[{"type":"text","text":"a"},{"type":"image","data":"YQ==","mimeType":"x"}],"isError":true}`,
		`{"structuredContent":{"a":[1,2.5,null]}}`,
		`{"content":[{"type":"resource","resource":{"uri":"a","blob":"YQ=="}}]}`, `{"content":[null]}`,
		`{"structuredContent":1e999}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var r mcp.CallToolResult
		if json.Unmarshal(b, &r) != nil {
			return
		}
		v, err := value(&r)
		if err != nil {
			return
		}
		x := &call{request: &request{server: "s"}, left: 1 << 20, value: v}
		if err := x.emit(); err == nil && !x.failed {
			if _, err := jcs.Append(nil, x.value); err != nil {
				t.Errorf("%v: %v", x.value, err)
			}
		}
		if text := texts(&r); strings.Contains(text, "\x1b") || len(text) > maxSaid+4 {
			t.Errorf("%q", text)
		}
	})
}

// Of a stream, no more of an event is passed on than a message may have, however it arrives.
func FuzzEvents(f *testing.F) {
	f.Add([]byte("data: {}\n\ndata: "+strings.Repeat("x", 150)+"\n\n"), uint8(7))
	f.Add([]byte("\r\n\r\n:\n\n"), uint8(1))
	f.Add([]byte(strings.Repeat("data: x\n", 50)), uint8(3))
	f.Fuzz(func(t *testing.T, b []byte, step uint8) {
		r := &remote{most: 100, tokens: 1 << 40, filled: time.Now()}
		in := &body{ReadCloser: io.NopCloser(bytes.NewReader(b)), remote: r, ctx: t.Context(), events: true}
		got := 0
		p := make([]byte, max(1, int(step)))
		for {
			n, err := in.Read(p)
			got += n
			if err != nil {
				longest := 0
				for event := range strings.SplitSeq(strings.ReplaceAll(string(b[:got]), "\r", ""), "\n\n") {
					longest = max(longest, len(strings.Trim(event, "\n")))
				}
				if (r.reason == nil) != (err == io.EOF) || longest > 100 {
					t.Errorf("%v, %v, an event of %d bytes in %q", err, r.reason, longest, b)
				}
				return
			}
		}
	})
}
