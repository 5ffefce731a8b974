package mcp_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rye-build/rye/exec/mcp"
	listener "github.com/rye-build/rye/exec/serve"
)

// A listening project is served over HTTP too.
type listening struct {
	*served
	url    string
	http   http.Handler
	tokens *listener.Tokens
	end    context.CancelFunc
}

// listen serves the project over HTTP.
func (s *served) listen() *listening {
	s.t.Helper()
	l := &listening{served: s, tokens: listener.OpenTokens(filepath.Join(s.p.Home, "state"), time.Now)}
	h, err := listener.Listen(listener.Options{Listen: "127.0.0.1:0", Tokens: l.tokens, Ready: s.server.Ready,
		Now: time.Now, Warn: s.warn,
		Rate: 1 << 20, Look: time.Millisecond, Grace: time.Second})
	s.must(err, s.server.Open(s.t.Context()))
	h.Handle("/mcp", listener.Call, s.server.Handler())
	l.url, l.http = h.URL("/mcp"), h
	ctx, cancel := context.WithCancel(s.t.Context())
	l.end = cancel
	ended := make(chan error, 1)
	go func() { ended <- h.Run(ctx) }()
	s.t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			s.t.Error(err)
		}
	})
	return l
}

// secret adds a token.
func (l *listening) secret(name string, more ...listener.Scope) string {
	l.t.Helper()
	secret, err := l.tokens.Add(l.t.Context(), listener.Token{Name: name, Tenant: "acme",
		Scopes: append([]listener.Scope{listener.Call}, more...)})
	l.must(err)
	return secret
}

// A bearer sends a token with each request.
type bearer string

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}

// connect connects a client that speaks up to a revision; "" is the newest.
func (l *listening) connect(secret, revision string) *sdk.ClientSession {
	l.t.Helper()
	client := sdk.NewClient(&sdk.Implementation{Name: "http", Version: "1"}, nil)
	c, err := client.Connect(l.t.Context(), l.transport(secret), &sdk.ClientSessionOptions{ProtocolVersion: revision})
	l.must(err)
	l.t.Cleanup(func() { c.Close() })
	return c
}

func (l *listening) transport(secret string) sdk.Transport {
	return &sdk.StreamableClientTransport{Endpoint: l.url, HTTPClient: &http.Client{Transport: bearer(secret)},
		DisableStandaloneSSE: true}
}

const (
	accept = "application/json, text/event-stream"
	begin  = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`
	greets = `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"execute","arguments":{"item_type":"tool","item_id":"acme/greet","parameters":{"name":"Ann"}}}}`
)

// send sends a request of a session, and returns the answer with its body.
func (l *listening) send(method, secret, session, body string, more ...string) (*http.Response, string) {
	l.t.Helper()
	r, err := http.NewRequestWithContext(l.t.Context(), method, l.url, strings.NewReader(body))
	l.must(err)
	r.Header.Set("Authorization", "Bearer "+secret)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", accept)
	if session != "" {
		r.Header.Set("Mcp-Session-Id", session)
	}
	for i := 0; i < len(more); i += 2 {
		r.Header.Set(more[i], more[i+1])
	}
	answer, err := http.DefaultClient.Do(r)
	l.must(err)
	defer answer.Body.Close()
	b, err := io.ReadAll(answer.Body)
	l.must(err)
	return answer, string(b)
}

// session begins a session, and returns its id.
func (l *listening) session(secret string) string {
	l.t.Helper()
	r, body := l.send("POST", secret, "", begin)
	id := r.Header.Get("Mcp-Session-Id")
	if r.StatusCode != 200 || id == "" {
		l.t.Fatal(r.Status, body)
	}
	if r, body := l.send("POST", secret, id,
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`); r.StatusCode != 202 {
		l.t.Fatal(r.Status, body)
	}
	return id
}

// TestHTTP: over HTTP an agent gets what it gets on standard input and output, in each revision, and the record says
// whose token made the call.
func TestHTTP(t *testing.T) {
	l := serving(t).listen()
	secret := l.secret("ci")
	for _, revision := range []string{"", "2026-07-28", "2025-11-25", "2025-06-18"} {
		c := l.connect(secret, revision)
		if got := c.InitializeResult().ProtocolVersion; revision != "" && got != revision || revision == "" &&
			got != "2026-07-28" {
			t.Errorf("%q: %s", revision, got)
		}
		all, err := c.ListTools(t.Context(), nil)
		if err != nil || len(all.Tools) != 4 {
			t.Errorf("%q: %v", revision, err)
		}
		r, err := c.CallTool(t.Context(), &sdk.CallToolParams{Name: "execute",
			Arguments: item("tool", "acme/greet", "parameters", object{"name": "Ann"})})
		l.must(err)
		answer, _ := r.StructuredContent.(object)
		if data, _ := answer["data"].(object); r.IsError || data["greeting"] != "hello, Ann" {
			t.Errorf("%q: %v", revision, answer)
		}
		p, err := c.GetPrompt(t.Context(), &sdk.GetPromptParams{Name: "acme/asking",
			Arguments: map[string]string{"topic": "trees"}})
		if err != nil || len(p.Messages) != 1 {
			t.Errorf("%q: %v", revision, err)
		}
	}
	l.end()
	records := l.audit()
	if n := strings.Count(records, `"principal":"token:ci"`); n < 4 ||
		strings.Count(records, `"tenant":"acme"`) != n || strings.Contains(records, secret) {
		t.Error(n, records)
	}
}

// TestHTTPElicits: over HTTP a client answers for its user only with a token for answers.
func TestHTTPElicits(t *testing.T) {
	l := serving(t).listen()
	l.policy(asksAll)
	for name, c := range map[string]struct {
		scopes []listener.Scope
		want   bool
	}{"call": {nil, false}, "approve": {[]listener.Scope{listener.Approve}, true}} {
		client := sdk.NewClient(&sdk.Implementation{Name: "http", Version: "1"}, &sdk.ClientOptions{
			ElicitationHandler: func(context.Context, *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
				return &sdk.ElicitResult{Action: "accept", Content: object{"approve": true}}, nil
			}})
		s, err := client.Connect(t.Context(), l.transport(l.secret(name, c.scopes...)), nil)
		l.must(err)
		r, err := s.CallTool(t.Context(), &sdk.CallToolParams{Name: "execute", Arguments: greeting(name)})
		l.must(err, s.Close())
		if answer := fmt.Sprint(r.StructuredContent); r.IsError == c.want || !c.want &&
			!strings.Contains(answer, "APPROVAL_REQUIRED") {
			t.Errorf("%s: %s", name, answer)
		}
	}
}

// TestSessions: a session is of the token that began it, and is over once it is closed (GWY-05, GWY-07).
func TestSessions(t *testing.T) {
	l := serving(t).listen()
	ann, bob := l.secret("ann"), l.secret("bob")
	id := l.session(ann)
	if other := l.session(ann); other == id || len(id) < 20 {
		t.Error(id, other)
	}
	for _, c := range []struct {
		what, method, secret, session, body string
		status                              int
	}{
		{"own", "POST", ann, id, greets, 200},
		{"without a session", "POST", ann, "", greets, 200}, // the body is an error
		{"another token", "POST", bob, id, greets, 403},
		{"another token listens", "GET", bob, id, "", 403},
		{"another token closes", "DELETE", bob, id, "", 403},
		{"guessed", "POST", ann, strings.Repeat("A", len(id)), greets, 404},
		{"chosen", "POST", ann, "mine", begin, 404},
		{"close", "DELETE", ann, id, "", 204},
		{"closed", "POST", ann, id, greets, 404},
		{"closed again", "DELETE", ann, id, "", 404},
	} {
		r, body := l.send(c.method, c.secret, c.session, c.body)
		if r.StatusCode != c.status || c.what == "own" && !strings.Contains(body, "hello, Ann") || c.what != "own" &&
			strings.Contains(body, "hello, Ann") {
			t.Errorf("%s: %s, %s", c.what, r.Status, body)
		}
	}
}

// TestSessionsBounded: a token has so many sessions, and no more.
func TestSessionsBounded(t *testing.T) {
	l := serving(t).listen()
	ann, bob := l.secret("ann"), l.secret("bob")
	var last string
	for range 250 {
		last = l.session(ann)
	}
	if r, body := l.send("POST", ann, "", begin); !strings.Contains(body, "too many sessions") {
		t.Error(r.Status, body)
	}
	l.session(bob)
	l.send("DELETE", ann, last, "")
	for { // it is counted down when it has ended
		if _, body := l.send("POST", ann, "", begin); !strings.Contains(body, "too many sessions") {
			break
		}
	}
}

// TestIdle: a session that isn't used ends.
func TestIdle(t *testing.T) {
	s := serving(t)
	s.server = mcp.New(mcp.Options{Open: s.open, Project: s.p.Dir, State: filepath.Join(s.p.Home, "state"),
		Now: time.Now, Warn: s.warn, Idle: 20 * time.Millisecond})
	l := s.listen()
	secret := l.secret("ci")
	r, _ := l.send("POST", secret, "", begin)
	id := r.Header.Get("Mcp-Session-Id")
	for ctx := t.Context(); ctx.Err() == nil; {
		// A GET doesn't count as use; it ends with the session.
		if r, _ := l.send("GET", secret, id, ""); r.StatusCode == 404 {
			return
		}
	}
}

// TestMessages: what is no message, or means two things, is an error of JSON-RPC, and the session goes on (GWY-09,
// GWY-10).
func TestMessages(t *testing.T) {
	l := serving(t).listen()
	secret := l.secret("ci")
	id := l.session(secret)
	deep := strings.Repeat("[", 100000) + strings.Repeat("]", 100000)
	call := func(arguments string) string {
		return `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"search","arguments":` + arguments +
			`}}`
	}
	for _, c := range []struct {
		what, body string
		status     int
		says       string
	}{
		{"no JSON", "nonsense", 400, `-32700`},
		{"the middle of a message", greets[:60], 400, `-32700`},
		{"empty", " ", 400, `-32600`},
		{"batch", "[" + greets + "]", 400, `-32600`},
		{"number", "1", 400, `-32600`},
		{"other version", `{"jsonrpc":"1.0","id":1,"method":"ping"}`, 400, `-32600`},
		{"duplicate key", `{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/call"}`, 400, `-32700`},
		{"duplicate argument", call(`{"query":"a","query":"b"}`), 400, `-32700`},
		{"deep", call(deep), 400, `-32700`},
		{"too long", `{"x":"` + strings.Repeat("x", mcp.MaxLine) + `"}`, 413, `LIMIT_EXCEEDED`},
		{"__proto__", call(`{"query":"greets","__proto__":{"limit":1}}`), 200, `VALIDATION_FAILED`},
		{"coercion", call(`{"query":1}`), 200, `VALIDATION_FAILED`},
		{"unknown method", `{"jsonrpc":"2.0","id":4,"method":"trust/add"}`, 400, ``},
		{"an answer", `{"jsonrpc":"2.0","id":9,"result":{}}`, 202, ``},
		{"good", greets, 200, `hello, Ann`},
	} {
		r, body := l.send("POST", secret, id, c.body)
		if r.StatusCode != c.status || !strings.Contains(body, c.says) {
			t.Errorf("%s: %s, %.300s", c.what, r.Status, body)
		}
	}
	if r, _ := l.send("PUT", secret, id, greets); r.StatusCode != 405 {
		t.Error(r.Status)
	}
	if r, body := l.send("POST", secret, "", greets, "MCP-Protocol-Version", "2099-01-01"); r.StatusCode != 400 {
		t.Error(r.Status, body)
	}
}

// TestLong: long messages take turns, and each has its answer.
func TestLong(t *testing.T) {
	l := serving(t).listen()
	secret := l.secret("ci")
	id := l.session(secret)
	var all sync.WaitGroup
	for i := range 40 {
		all.Go(func() {
			body := strings.Replace(greets, `"id":2`, fmt.Sprintf(`"id":"%s%d"`, strings.Repeat("x", 300<<10), i), 1)
			if r, answer := l.send("POST", secret, id, body); r.StatusCode != 200 ||
				!strings.Contains(answer, "hello, Ann") {
				t.Errorf("%s, %.300s", r.Status, answer)
			}
		})
	}
	all.Wait()
}

// TestDuplicateIDs: of two requests with one id at once, one is refused.
func TestDuplicateIDs(t *testing.T) {
	l := serving(t).listen()
	secret := l.secret("ci")
	id := l.session(secret)
	spin := strings.Replace(greets, "Ann", "spin", 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	answers := make(chan int, 2)
	for range 2 {
		go func() {
			r, err := http.NewRequestWithContext(ctx, "POST", l.url, strings.NewReader(spin))
			if err != nil {
				t.Error(err)
			}
			for name, value := range map[string]string{"Authorization": "Bearer " + secret,
				"Content-Type": "application/json", "Accept": accept, "Mcp-Session-Id": id} {
				r.Header.Set(name, value)
			}
			answer, err := http.DefaultClient.Do(r)
			if err != nil {
				answers <- 0
				return
			}
			defer answer.Body.Close()
			io.ReadAll(answer.Body)
			answers <- answer.StatusCode
		}()
	}
	if got := <-answers; got != 400 {
		t.Error(got)
	}
	cancel()
	<-answers
}

// TestDisconnected: a call whose client has gone ends, and so does one whose token is removed.
func TestDisconnected(t *testing.T) {
	l := serving(t).listen()
	for _, revision := range []string{"2025-11-25", "2026-07-28"} {
		for _, remove := range []bool{false, true} {
			name := fmt.Sprint(revision, remove)
			secret := l.secret(name)
			c := l.connect(secret, revision)
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() {
				r, err := c.CallTool(ctx, &sdk.CallToolParams{Name: "execute",
					Arguments: item("tool", "acme/greet", "parameters", object{"name": "spin"})})
				if err == nil && r.IsError { // it may be faster than the end of the request
					err = errors.New("cancelled")
				}
				done <- err
			}()
			l.running(1)
			if remove {
				l.must(l.tokens.Remove(t.Context(), name))
			} else {
				cancel()
			}
			l.running(0)
			cancel()
			if err := <-done; err == nil {
				t.Error(name, "the call has an answer")
			}
		}
	}
}

// audit returns the records of all calls.
func (l *listening) audit() string {
	l.t.Helper()
	var all strings.Builder
	l.must(filepath.WalkDir(filepath.Join(l.p.Home, "state", "audit"),
		func(path string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return err
			}
			b, err := os.ReadFile(path)
			all.Write(b)
			return err
		}))
	return all.String()
}

// TestChunked: messages whose length isn't announced take turns as long ones do: a client could fill the memory of the
// server with them.
func TestChunked(t *testing.T) {
	t.Parallel()
	const most = 16
	h := serving(t).listen()
	at, err := url.Parse(h.url)
	h.must(err)
	secret := h.secret("ann")
	send := func() (net.Conn, *bufio.Reader) {
		t.Helper()
		c, err := net.Dial("tcp", at.Host)
		h.must(err)
		t.Cleanup(func() { c.Close() })
		fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n"+
			"Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"+
			"Transfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n", at.Path, at.Host, secret)
		return c, bufio.NewReader(c)
	}
	// The server asks for a message, by this line, once it reads it.
	asked := func(c net.Conn, r *bufio.Reader, within time.Duration) bool {
		h.must(c.SetReadDeadline(time.Now().Add(within)))
		line, err := r.ReadString('\n')
		return err == nil && strings.Contains(line, "100 Continue")
	}
	var first net.Conn
	for i := range most {
		c, r := send()
		if first = c; !asked(c, r, 10*time.Second) {
			t.Fatalf("message %d is not read", i)
		}
	}
	c, r := send()
	if asked(c, r, 50*time.Millisecond) {
		t.Errorf("%d messages are read at once", most+1)
	}
	fmt.Fprint(first, "2\r\n{}\r\n0\r\n\r\n")
	if !asked(c, r, 10*time.Second) {
		t.Error("a message is not read after another one has arrived")
	}
}
