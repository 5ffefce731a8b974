//go:build peers

package mcp_test

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rye-build/rye/exec/mcp"
)

// Load isn't a peer, but takes longer than what everyone runs.

// both are clients of one server, or of two, one on each transport.
func (s *served) both() map[string]*sdk.ClientSession {
	s.t.Helper()
	l := s.listen()
	return map[string]*sdk.ClientSession{"http": l.connect(l.secret("load"), "2025-11-25"),
		"stdio": s.stdio(mcp.Options{Open: s.open, Project: s.p.Dir}, "")}
}

// echoes makes a call of the tool that this process runs itself.
func (s *served) echoes(c *sdk.ClientSession, n int) error {
	r, err := c.CallTool(s.t.Context(), &sdk.CallToolParams{Name: "execute",
		Arguments: item("tool", "acme/echo", "parameters", object{"n": n})})
	if err != nil {
		return err
	}
	answer, _ := r.StructuredContent.(object)
	data, _ := answer["data"].(object)
	if inner, _ := data["data"].(object); r.IsError || fmt.Sprint(inner["n"]) != fmt.Sprint(n) {
		return fmt.Errorf("%d: %v", n, answer)
	}
	return nil
}

// TestThousand: 1,000 calls at once are answered right.
func TestThousand(t *testing.T) {
	for transport, c := range serving(t).both() {
		s := &served{t: t}
		var all sync.WaitGroup
		for n := range 1000 {
			all.Go(func() {
				if err := s.echoes(c, n); err != nil {
					t.Error(transport, err)
				}
			})
		}
		all.Wait()
	}
}

// TestMemory: after 100,000 calls the heap is at most a tenth larger than after 10,000. Of each hundred calls, ten
// come over HTTP; two run a tool, two read an item, and the others are errors or refused.
func TestMemory(t *testing.T) {
	s := serving(t)
	l := s.listen()
	web := l.connect(l.secret("load"), "2025-11-25")
	lines := s.raw()
	lines.send(begin + "\n" + ready + "\n")
	lines.answer()
	kind := func(n int) (tool string, given object, says string) {
		given = item("tool", "acme/echo")
		switch n / 10 % 50 {
		case 0:
			given["parameters"] = object{"n": n}
			return "execute", given, fmt.Sprintf(`"n":%d}`, n)
		case 1:
			return "load", given, "Echoes"
		case 2:
			given["more"] = n
			return "load", given, "VALIDATION_FAILED"
		}
		return "sign", given, "PERMISSION_DENIED"
	}
	overHTTP := func(n int) {
		tool, given, says := kind(n)
		r, err := web.CallTool(t.Context(), &sdk.CallToolParams{Name: tool, Arguments: given})
		if err != nil || !strings.Contains(r.Content[0].(*sdk.TextContent).Text, says) {
			t.Error(n, r, err)
		}
	}
	byLines := func(from, to int) {
		room := make(chan bool, 16) // for calls without an answer
		go func() {
			for n := from; n < to; n++ {
				if n%10 > 0 {
					tool, given, _ := kind(n)
					b, err := json.Marshal(object{"jsonrpc": "2.0", "id": n, "method": "tools/call",
						"params": object{"name": tool, "arguments": given}})
					if err != nil {
						t.Error(err)
					}
					room <- true
					lines.send(string(b) + "\n")
				}
			}
		}()
		for range (to - from) / 10 * 9 {
			id, text := lines.answer()
			<-room
			n, _ := strconv.Atoi(id)
			if _, _, says := kind(n); !strings.Contains(text, says) &&
				!strings.Contains(text, strings.ReplaceAll(says, `"`, `\"`)) {
				t.Errorf("%d: %s", n, text)
			}
		}
	}
	after := func(from, to int) uint64 {
		var all sync.WaitGroup
		for worker := range 4 {
			all.Go(func() {
				for n := from + 10*worker; n < to; n += 40 {
					overHTTP(n)
				}
			})
		}
		byLines(from, to)
		all.Wait()
		// What is kept for a while, such as buffers of connections, is no memory of calls.
		least := uint64(math.MaxUint64)
		for range 10 {
			http.DefaultTransport.(*http.Transport).CloseIdleConnections()
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			least = min(least, m.HeapAlloc)
		}
		return least
	}
	// As many buffers as are ever needed at once are kept from the beginning.
	var crowd sync.WaitGroup
	for i := range 200 {
		crowd.Go(func() { overHTTP(i % 2 * 10) })
	}
	crowd.Wait()
	early := after(0, 10_000)
	late := after(10_000, 100_000)
	t.Logf("%d bytes after 10,000 calls, %d after 100,000", early, late)
	if late > early+early/10 {
		t.Error("memory grows with each call")
	}
	lines.close()
}
