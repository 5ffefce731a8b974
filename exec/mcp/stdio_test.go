package mcp_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/exec/mcp"
)

// A wire is a client that sends lines as they are.
type wire struct {
	*served
	to    *io.PipeWriter
	from  *bufio.Reader
	ended chan error
}

// raw serves by lines.
func (s *served) raw() *wire {
	s.t.Helper()
	fromClient, to := io.Pipe()
	from, toClient := io.Pipe()
	w := &wire{s, to, bufio.NewReaderSize(from, 1<<20), make(chan error, 1)}
	s.server = mcp.New(mcp.Options{Open: s.open, Project: s.p.Dir, State: filepath.Join(s.p.Home, "state"),
		Version: "test", Now: time.Now, Warn: s.warn})
	go func() {
		w.ended <- s.server.Run(s.t.Context(), mcp.Lines(fromClient, toClient))
		toClient.Close()
	}()
	return w
}

// send sends text as it is.
func (w *wire) send(text string) {
	w.t.Helper()
	_, err := io.WriteString(w.to, text)
	w.must(err)
}

// answer reads the next message that isn't a notification: its id, and all of it.
func (w *wire) answer() (id, text string) {
	w.t.Helper()
	for {
		line, err := w.from.ReadString('\n')
		w.must(err)
		var m struct {
			Version string `json:"jsonrpc"`
			ID      json.RawMessage
			Method  string
		}
		if err := json.Unmarshal([]byte(line), &m); err != nil || m.Version != "2.0" {
			w.t.Fatalf("no message: %s", line)
		}
		if m.Method == "" {
			return string(m.ID), line
		}
	}
}

// close ends the input, and waits for the server.
func (w *wire) close() {
	w.t.Helper()
	w.to.Close()
	rest, err := io.ReadAll(w.from)
	if end := <-w.ended; err != nil || end != nil {
		w.t.Error(err, end, string(rest))
	}
}

const (
	ready = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
	meta  = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}`
)

// tested is a request, and what its answer says.
type tested struct {
	what, body string // of the request with the id $ID
	says       string
}

// TestStdio is the conformance test of the transport that the official suite has no scenarios for: each revision's
// requests, one after the other on one connection.
func TestStdio(t *testing.T) {
	for _, revision := range []string{"2025-06-18", "2025-11-25", "2026-07-28"} {
		w := serving(t).raw()
		request := func(method, params string) string {
			if revision == "2026-07-28" {
				params = strings.TrimSuffix(strings.TrimPrefix(params+",", ","), ",")
				if params != "" {
					params += ","
				}
				params += meta
			}
			return fmt.Sprintf(`{"jsonrpc":"2.0","id":$ID,"method":%q,"params":{%s}}`, method, params)
		}
		all := []tested{
			{"tools/list", request("tools/list", ""), `"name":"execute"`},
			{"search", request("tools/call", `"name":"search","arguments":{"query":"greets"}`),
				`"ref":"tool:acme/greet"`},
			{"execute", request("tools/call",
				`"name":"execute","arguments":{"item_type":"tool","item_id":"acme/greet","parameters":{"name":"Ann"}}`),
				`hello, Ann`},
			{"load", request("tools/call",
				`"name":"load","arguments":{"item_type":"knowledge","item_id":"acme/note"}`), `# Note`},
			{"sign", request("tools/call", `"name":"sign","arguments":{"item_type":"tool","item_id":"acme/greet"}`),
				`"isError":true`},
			{"an error of a tool",
				request("tools/call",
					`"name":"execute","arguments":{"item_type":"tool","item_id":"acme/greet","parameters":{"name":"fail"}}`),
				`EXECUTION_FAILED`},
			{"unknown tool", request("tools/call", `"name":"none","arguments":{}`), `"code":-32602`},
			{"prompts/list", request("prompts/list", ""), `"name":"acme/asking"`},
			{"prompts/get", request("prompts/get", `"name":"acme/asking","arguments":{"topic":"trees"}`),
				`Ask about trees.`},
			{"a prompt without its argument", request("prompts/get", `"name":"acme/asking"`), `"code":-32602`},
			{"resources/list", request("resources/list", ""), `rye://knowledge/acme/note`},
			{"resources/read", request("resources/read", `"uri":"rye://knowledge/acme/note"`), `# Note`},
			{"unknown resource", request("resources/read", `"uri":"rye://knowledge/acme/none"`), `"error"`},
			{"unknown method", request("trust/add", ""), `"code":-32601`},
			{"a string as id", strings.Replace(request("tools/list", ""), "$ID", `"$ID"`, 1), `"name":"execute"`},
		}
		if revision == "2026-07-28" {
			all = append([]tested{{"discover", request("server/discover", ""), `"2026-07-28"`}}, all...)
		} else {
			all = append([]tested{
				{"before initialize", request("tools/list", ""), `"error"`},
				{"ping before initialize", request("ping", ""), `"result":{}`},
				{"initialize", strings.NewReplacer(`"id":1`, `"id":$ID`, "2025-11-25", revision).Replace(begin),
					`"protocolVersion":"` + revision + `"`},
				{"initialize again", strings.Replace(begin, `"id":1`, `"id":$ID`, 1), `"error"`},
			}, append(all, tested{"ping", request("ping", ""), `"result":{}`})...)
		}
		for i, c := range all {
			id := fmt.Sprint(i + 1)
			w.send(strings.ReplaceAll(c.body, "$ID", id) + "\n")
			if got, text := w.answer(); strings.Trim(got, `"`) != id || !strings.Contains(text, c.says) {
				t.Errorf("%s, %s: %s", revision, c.what, text)
			}
			if c.what == "initialize" {
				w.send(ready + "\n")
			}
		}
		w.close()
	}
}

// TestStdioMessages: what is no message, or means two things, is an error of JSON-RPC, and the session goes on
// (GWY-09, GWY-10).
func TestStdioMessages(t *testing.T) {
	w := serving(t).raw()
	w.send(begin + "\n" + ready + "\n")
	w.answer()
	call := func(arguments string) string {
		return `{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"search","arguments":` + arguments +
			`}}`
	}
	deep := strings.Repeat("[", 100000) + strings.Repeat("]", 100000)
	for _, c := range []struct{ what, line, id, says string }{
		{"no JSON", "nonsense", "null", "-32700"},
		{"noise of another program", "Debugger attached.", "null", "-32700"},
		{"no UTF-8", "\"\xff\"", "null", "-32700"},
		{"batch", "[" + greets + "," + greets + "]", "null", "-32600"},
		{"empty batch", "[]", "null", "-32600"},
		{"no object", "null", "null", "-32600"},
		{"other version", `{"jsonrpc":"1.0","id":5,"method":"ping"}`, "null", "-32600"},
		{"duplicate key", `{"jsonrpc":"2.0","id":5,"id":6,"method":"ping"}`, "null", "-32700"},
		{"duplicate argument", call(`{"query":"a","query":"b"}`), "null", "-32700"},
		{"deep", call(deep), "null", "-32700"},
		{"an id that is an object", `{"jsonrpc":"2.0","id":{},"method":"ping"}`, "null", "-32600"},
		{"__proto__", call(`{"query":"greets","__proto__":{"limit":1}}`), "5", "VALIDATION_FAILED"},
		{"constructor", call(`{"query":"greets","constructor":{"prototype":{}}}`), "5", "VALIDATION_FAILED"},
		{"coercion", call(`{"query":"greets","limit":"5"}`), "5", "VALIDATION_FAILED"},
		{"another case", call(`{"Query":"greets"}`), "5", "VALIDATION_FAILED"},
		{"params that are a list", `{"jsonrpc":"2.0","id":5,"method":"tools/call","params":["search"]}`, "5",
			`"error"`},
		{"no params", `{"jsonrpc":"2.0","id":5,"method":"tools/call"}`, "5", `"error"`},
		{"good", greets, "2", "hello, Ann"},
	} {
		w.send(c.line + "\n")
		if id, text := w.answer(); id != c.id || !strings.Contains(text, c.says) {
			t.Errorf("%s: %.300s", c.what, text)
		}
	}
	// A line of 100 MiB takes no memory, and what has no answer has none.
	go func() {
		part := strings.Repeat("x", 1<<20)
		for range 100 {
			w.send(part)
		}
		w.send("\n" + `{"jsonrpc":"2.0","id":77,"result":{}}` + "\n" +
			`{"jsonrpc":"2.0","method":"notifications/none"}` + "\n" +
			`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":99}}` + "\n" + greets + "\n")
	}()
	if id, text := w.answer(); id != "null" || !strings.Contains(text, "-32600") {
		t.Errorf("100 MiB: %.300s", text)
	}
	if id, text := w.answer(); id != "2" || !strings.Contains(text, "hello, Ann") {
		t.Errorf("after them: %.300s", text)
	}
	w.close()
}

// TestStdioDuplicateIDs: of two requests with one id at once, one is refused, and the other goes on.
func TestStdioDuplicateIDs(t *testing.T) {
	w := serving(t).raw()
	w.send(begin + "\n" + ready + "\n")
	w.answer()
	spin := strings.Replace(greets, "Ann", "spin", 1)
	w.send(spin + "\n")
	w.running(1)
	w.send(greets + "\n")
	if id, text := w.answer(); id != "2" && id != "null" || !strings.Contains(text, `"error"`) ||
		strings.Contains(text, "hello") {
		t.Error(text)
	}
	w.running(1)
	w.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}` + "\n")
	w.running(0)
	w.close()
}

// TestStdioEnd: the input may end anywhere, also in the middle of a message and of a call.
func TestStdioEnd(t *testing.T) {
	spin := strings.Replace(greets, "Ann", "spin", 1)
	for _, text := range []string{"", "\n", "nonsense", begin[:40], begin + "\n" + greets[:60],
		begin + "\n" + ready + "\n" + spin + "\n", begin + "\n" + ready + "\n" + spin} {
		w := serving(t).raw()
		go io.Copy(io.Discard, w.from)
		w.send(text)
		if strings.Contains(text, spin) {
			if !strings.HasSuffix(text, "\n") {
				w.to.Close()
			} else {
				w.running(1)
			}
		}
		w.to.Close()
		if err := <-w.ended; err != nil {
			t.Errorf("%.60q: %v", text, err)
		}
	}
}
