package mcp_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/exec/mcp"
	listener "github.com/rye-build/rye/exec/serve"
	"github.com/rye-build/rye/exec/session"
)

// FuzzHTTP: whatever a client with a token sends, it gets an answer of JSON or of events with JSON, no handler panics,
// and the server goes on.
func FuzzHTTP(f *testing.F) {
	none := errors.New("no project")
	server := mcp.New(mcp.Options{Now: time.Now, Warn: func(error) {},
		Open: func(context.Context) (*session.Session, func() error, error) { return nil, nil, none }})
	tokens := &listener.Tokens{Dir: filepath.Join(f.TempDir(), "serve"), Now: time.Now}
	secret, err := tokens.Add(f.Context(), listener.Token{Name: "fuzz", Scopes: []listener.Scope{listener.Call}})
	if err != nil {
		f.Fatal(err)
	}
	failed := make(chan error, 1)
	h, err := listener.Listen(listener.Options{Listen: "127.0.0.1:0", Tokens: tokens, Ready: server.Ready,
		Now: time.Now, Rate: 1 << 30, Grace: time.Millisecond,
		Warn: func(err error) {
			select {
			case failed <- err:
			default:
			}
		}})
	if err != nil {
		f.Fatal(err)
	}
	h.Handle("/mcp", listener.Call, server.Handler())
	go h.Run(f.Context())
	for _, body := range []string{begin, greets, ready, "", "[]", "{}", "nonsense",
		`{"jsonrpc":"2.0","id":1,"method":"ping"}`, `{"jsonrpc":"2.0","id":"a","result":{}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{` + meta + `}}`,
		`{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{` + meta + `}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"search","arguments":{"query":"x"},` + meta +
			`}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":1}}}`} {
		f.Add([]byte(body), "", "POST")
		f.Add([]byte(body), "2026-07-28", "POST")
		f.Add([]byte(body), "2025-06-18", "GET")
	}
	f.Fuzz(func(t *testing.T, body []byte, revision, method string) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		r, err := http.NewRequestWithContext(ctx, method, h.URL("/mcp"), bytes.NewReader(body))
		if err != nil || strings.ContainsFunc(revision, func(c rune) bool {
			return c < ' ' || c > '~'
		}) || method == "CONNECT" {
			return // the client sends no such request
		}
		r.Header.Set("Authorization", "Bearer "+secret)
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", accept)
		if revision != "" {
			r.Header.Set("MCP-Protocol-Version", revision)
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		b, err := io.ReadAll(answer.Body)
		if err != nil && ctx.Err() == nil {
			t.Fatal(err)
		}
		if id := answer.Header.Get("Mcp-Session-Id"); id != "" {
			end, err := http.NewRequestWithContext(t.Context(), "DELETE", h.URL("/mcp"), nil)
			if err != nil {
				t.Fatal(err)
			}
			end.Header.Set("Authorization", "Bearer "+secret)
			end.Header.Set("Mcp-Session-Id", id)
			if ended, err := http.DefaultClient.Do(end); err != nil || ended.StatusCode != http.StatusNoContent {
				t.Fatal(ended, err)
			}
		}
		if answer.StatusCode >= 500 {
			t.Fatal(answer.Status, string(b))
		}
		kind, _, _ := strings.Cut(answer.Header.Get("Content-Type"), ";")
		if kind == "application/json" && !json.Valid(b) {
			t.Fatalf("%s", b)
		}
		for line := range strings.SplitSeq(string(b), "\n") {
			if data, ok := strings.CutPrefix(line, "data: "); ok && kind == "text/event-stream" && data != "" &&
				!json.Valid([]byte(data)) {
				t.Fatalf("%s", data)
			}
		}
		select {
		case err := <-failed:
			t.Fatal(err)
		default:
		}
	})
}
