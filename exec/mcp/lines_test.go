package mcp

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestLines: what is no message is answered, and the next line is read.
func TestLines(t *testing.T) {
	const good = `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	for text, code := range map[string]int{
		"nonsense\n": jsonrpc.CodeParseError, "{\"jsonrpc\":\"2.0\"\n": jsonrpc.CodeParseError,
		"\x00\n":           jsonrpc.CodeParseError,
		"[" + good + "]\n": jsonrpc.CodeInvalidRequest, "1\n": jsonrpc.CodeInvalidRequest,
		"{}\n": jsonrpc.CodeInvalidRequest,
		`{"jsonrpc":"1.0","id":1,"method":"ping"}` + "\n":                jsonrpc.CodeInvalidRequest,
		`{"jsonrpc":"2.0","id":{},"method":"ping"}` + "\n":               jsonrpc.CodeInvalidRequest,
		`{"jsonrpc":"2.0","id":1,"method":""}` + "\n":                    jsonrpc.CodeInvalidRequest,
		`{"jsonrpc":"2.0","id":1.5,"method":"ping"}` + "\n":              jsonrpc.CodeInvalidRequest,
		`{"jsonrpc":"2.0","id":null,"method":"ping"}` + "\n":             jsonrpc.CodeInvalidRequest,
		`{"jsonrpc":"2.0","id":9007199254740992,"method":"ping"}` + "\n": jsonrpc.CodeInvalidRequest,
		`{"jsonrpc":"2.0","id":1e300,"method":"ping"}` + "\n":            jsonrpc.CodeInvalidRequest,
		strings.Repeat("x", MaxLine+10) + "\n":                           jsonrpc.CodeInvalidRequest,
		"\n \r\n":                                                        0,
	} {
		var out bytes.Buffer
		c, err := Lines(strings.NewReader(text+good+"\r\n"), &out).Connect(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		m, err := c.Read(t.Context())
		if q, ok := m.(*jsonrpc.Request); err != nil || !ok || q.Method != "ping" {
			t.Errorf("%.40q: %v, %v", text, m, err)
		}
		var answer struct {
			ID    any
			Error struct {
				Code    int
				Message string
			}
		}
		if code == 0 {
			if out.Len() > 0 {
				t.Errorf("%.40q: %s", text, out.String())
			}
		} else if err := json.Unmarshal(out.Bytes(), &answer); err != nil || answer.ID != nil ||
			answer.Error.Code != code || answer.Error.Message == "" {
			t.Errorf("%.40q: %s", text, out.String())
		}
		if _, err := c.Read(t.Context()); err != io.EOF {
			t.Errorf("%.40q: %v", text, err)
		}
		if err := c.Close(); err != nil || c.Close() != nil || c.SessionID() != "" {
			t.Error(err)
		}
		if err := c.Write(t.Context(), m); err == nil {
			t.Error("something is written after the end")
		}
	}
}

// TestLinesEnd: a connection that is closed reads nothing more, even if its input never ends.
func TestLinesEnd(t *testing.T) {
	r, w := io.Pipe()
	defer w.Close()
	c, err := Lines(r, io.Discard).Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(10*time.Millisecond, func() { c.Close() })
	if _, err := c.Read(t.Context()); err != io.EOF {
		t.Error(err)
	}
}

// FuzzLines: whatever a client sends, each line is a message or is answered with an error, and what is a message stays
// the same when it is written.
func FuzzLines(f *testing.F) {
	for _, text := range []string{"", "{}\n", `{"jsonrpc":"2.0","id":1,"method":"ping"}`,
		`{"jsonrpc":"2.0","id":"a","result":{}}` + "\nx\n[]\n",
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`,
		`{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":""}}`,
		`{"jsonrpc":"2.0","method":""}`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var out bytes.Buffer
		c, err := Lines(bytes.NewReader(b), &out).Connect(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		messages := 0
		for {
			m, err := c.Read(t.Context())
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			messages++
			text, err := jsonrpc.EncodeMessage(m)
			if err != nil {
				t.Fatal(err)
			}
			again, err := jsonrpc.DecodeMessage(text)
			if err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			if other, err := jsonrpc.EncodeMessage(again); err != nil || !bytes.Equal(other, text) {
				t.Fatalf("%s becomes %s", text, other)
			}
		}
		lines := 0
		for line := range bytes.SplitSeq(b, []byte("\n")) {
			if len(bytes.TrimSpace(line)) > 0 {
				lines++
			}
		}
		answers := bufio.NewScanner(&out)
		for answers.Scan() {
			if !json.Valid(answers.Bytes()) {
				t.Fatal(answers.Text())
			}
			messages++
		}
		if messages != lines {
			t.Fatalf("%d lines, %d messages and answers", lines, messages)
		}
	})
}

// The tools fit what the SDK asks of them.
var _ mcp.Transport = lines{}
