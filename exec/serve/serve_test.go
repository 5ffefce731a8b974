package serve_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rye-build/rye/exec/serve"
	"github.com/rye-build/rye/lock/web/webtest"
)

// A world is a server that runs, with a token of each kind.
type world struct {
	t      *testing.T
	tokens *serve.Tokens
	secret string // of the token "ci"
	url    string
	client *http.Client
	end    context.CancelFunc
	ended  chan error
	warned chan error

	mu  sync.Mutex
	now time.Time
}

func (w *world) time() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

func (w *world) add(name string, scopes ...serve.Scope) string {
	w.t.Helper()
	secret, err := w.tokens.Add(w.t.Context(), serve.Token{Name: name, Scopes: scopes, Tenant: "acme"})
	if err != nil {
		w.t.Fatal(err)
	}
	return secret
}

// start runs a server whose path /do is h, and whose path /open is for all.
func start(t *testing.T, h http.HandlerFunc, edit func(*serve.Options)) *world {
	t.Helper()
	w := &world{t: t, now: time.Now(), client: &http.Client{Transport: &http.Transport{}}, ended: make(chan error, 1),
		warned: make(chan error, 10)}
	w.tokens = &serve.Tokens{Dir: filepath.Join(t.TempDir(), "serve"), Now: w.time}
	w.secret = w.add("ci", serve.Call)
	o := serve.Options{Listen: "127.0.0.1:0", Tokens: w.tokens, Ready: func() error {
		return nil
	}, Now: w.time, Warn: func(err error) { w.warned <- err }, Look: time.Millisecond}
	if edit != nil {
		edit(&o)
	}
	s, err := serve.Listen(o)
	if err != nil {
		t.Fatal(err)
	}
	s.Handle("/do", serve.Call, h)
	s.Open("GET /open", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "open") }))
	w.url = s.URL("")
	ctx, cancel := context.WithCancel(t.Context())
	w.end = cancel
	go func() { w.ended <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		w.client.CloseIdleConnections()
		if err := <-w.ended; err != nil {
			t.Error(err)
		}
		w.ended <- nil
	})
	return w
}

// do sends a request, edited first, and returns the answer with its body read.
func (w *world) do(method, path string, edit func(*http.Request)) (*http.Response, string) {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.t.Context(), method, w.url+path, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+w.secret)
	if edit != nil {
		edit(r)
	}
	answer, err := w.client.Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	defer answer.Body.Close()
	b, err := io.ReadAll(answer.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return answer, string(b)
}

// code is the code of an error object.
func code(body string) string {
	var o struct {
		Success *bool
		Error   struct{ Code, Message, Suggestion string }
	}
	if err := json.Unmarshal([]byte(body), &o); err != nil || o.Success == nil || *o.Success || o.Error.Message == "" {
		return "no error object: " + body
	}
	return o.Error.Code
}

func ok(w http.ResponseWriter, r *http.Request) {
	t := serve.CallerOf(r.Context())
	fmt.Fprintf(w, "%s for %s", serve.Principal(t), t.Tenant)
}

func TestAdmission(t *testing.T) {
	w := start(t, ok, nil)
	approver, gone := w.add("approver", serve.Approve, serve.Admin), w.add("gone", serve.Call)
	if err := w.tokens.Remove(t.Context(), "gone"); err != nil {
		t.Fatal(err)
	}
	header := func(name string, values ...string) func(*http.Request) {
		return func(r *http.Request) { r.Header[name] = values }
	}
	host := func(name string) func(*http.Request) { return func(r *http.Request) { r.Host = name } }
	port := w.url[strings.LastIndex(w.url, ":"):]
	for _, c := range []struct {
		what   string
		edit   func(*http.Request)
		status int
		code   string
	}{
		{"good", nil, 200, ""},
		{"lower case", header("Authorization", "bearer "+w.secret), 200, ""},
		{"no token", header("Authorization"), 401, "AUTH_REQUIRED"},
		{"basic", header("Authorization", "Basic "+w.secret), 401, "AUTH_REQUIRED"},
		{"twice", header("Authorization", "Bearer "+w.secret, "Bearer "+w.secret), 401, "AUTH_REQUIRED"},
		{"in the address", func(r *http.Request) {
			r.Header.Del("Authorization")
			r.URL.RawQuery = "access_token=" + w.secret
		}, 401, "AUTH_REQUIRED"},
		{"empty", header("Authorization", "Bearer "), 401, "AUTH_FAILED"},
		{"guessed", header("Authorization", "Bearer rye_"+strings.Repeat("A", 43)), 401, "AUTH_FAILED"},
		{"removed", header("Authorization", "Bearer "+gone), 401, "AUTH_FAILED"},
		{"other scope", header("Authorization", "Bearer "+approver), 403, "PERMISSION_DENIED"},
		{"localhost", host("localhost" + port), 200, ""},
		{"forwarded port", host("localhost:1"), 200, ""},
		{"no port", host("LOCALHOST."), 200, ""},
		{"::1", host("[::1]" + port), 200, ""},
		{"[::1]", host("[::1]"), 200, ""},
		{"rebound", host("evil.example" + port), 403, "PERMISSION_DENIED"},
		{"suffix", host("localhost.evil.example"), 403, "PERMISSION_DENIED"},
		{"another address", host("10.0.0.1" + port), 403, "PERMISSION_DENIED"},
		{"own origin", func(r *http.Request) { r.Header.Set("Origin", w.url) }, 200, ""},
		{"own origin behind TLS", func(r *http.Request) {
			r.Header.Set("Origin", strings.Replace(w.url, "http", "https", 1))
		}, 200, ""},
		{"evil origin", header("Origin", "http://evil.example"), 403, "PERMISSION_DENIED"},
		{"another port", header("Origin", "http://127.0.0.1:1"), 403, "PERMISSION_DENIED"},
		{"no origin", header("Origin", "null"), 403, "PERMISSION_DENIED"},
		{"no page", header("Origin", strings.Replace(w.url, "http", "ftp", 1)), 403, "PERMISSION_DENIED"},
		{"an extension", header("Origin", strings.Replace(w.url, "http", "chrome-extension", 1)), 403,
			"PERMISSION_DENIED"},
		{"no address", header("Origin", "http://[::1"), 403, "PERMISSION_DENIED"},
		{"two origins", header("Origin", w.url, "http://evil.example"), 403, "PERMISSION_DENIED"},
	} {
		for _, method := range []string{"GET", "POST", "OPTIONS", "DELETE"} {
			r, body := w.do(method, "/do", c.edit)
			if r.StatusCode != c.status || c.code != "" && code(body) != c.code || c.code == "" &&
				body != "token:ci for acme" {
				t.Errorf("%s, %s: %d, %s", c.what, method, r.StatusCode, body)
			}
			if (r.StatusCode == 401) != (r.Header.Get("WWW-Authenticate") != "") {
				t.Error(c.what, r.Header)
			}
			for name := range r.Header {
				if strings.HasPrefix(name, "Access-Control-") {
					t.Error(c.what, name)
				}
			}
			// A browser or proxy that keeps or guesses at an answer shows it to others.
			if c.code != "" && (r.Header.Get("Content-Type") != "application/json" ||
				r.Header.Get("Cache-Control") != "no-store" || r.Header.Get("X-Content-Type-Options") != "nosniff") {
				t.Error(c.what, r.Header)
			}
			if strings.Contains(body, w.secret) || strings.Contains(body, gone) {
				t.Errorf("%s: the answer has the token: %s", c.what, body)
			}
		}
	}
	if r, _ := w.do("GET", "/other", nil); r.StatusCode != 404 {
		t.Error(r.Status)
	}
}

// TestTokensUnread: while the tokens can't be read, nothing is let in, and a client isn't told where they are.
func TestTokensUnread(t *testing.T) {
	w := start(t, ok, nil)
	damage(t, w.tokens.Dir)
	r, body := w.do("GET", "/do", nil)
	if r.StatusCode != 503 || code(body) != "UNAVAILABLE" || strings.Contains(body, "tokens.json") {
		t.Error(r.Status, body)
	}
	if err := <-w.warned; !strings.Contains(err.Error(), "tokens.json") {
		t.Error(err)
	}
}

func TestHealth(t *testing.T) {
	var mu sync.Mutex
	var unready error
	w := start(t, ok, func(o *serve.Options) {
		o.Ready = func() error { mu.Lock(); defer mu.Unlock(); return unready }
	})
	for _, c := range []struct {
		path   string
		err    error
		status int
	}{{"/healthz", nil, 200}, {"/readyz", nil, 200}, {"/healthz", io.EOF, 200},
		{"/readyz", fmt.Errorf("no lock in /home/ann"), 503}} {
		mu.Lock()
		unready = c.err
		mu.Unlock()
		r, body := w.do("GET", c.path, func(r *http.Request) { r.Header.Del("Authorization"); r.Host = "probe" })
		if r.StatusCode != c.status || body != fmt.Sprintf("{\"ok\":%t}\n", c.status == 200) {
			t.Error(c.path, r.Status, body)
		}
	}
	if r, _ := w.do("POST", "/healthz", nil); r.StatusCode != 405 {
		t.Error(r.Status)
	}
}

func TestRate(t *testing.T) {
	w := start(t, ok, func(o *serve.Options) { o.Rate = 3 })
	other := w.add("other", serve.Call)
	for range 3 {
		if r, body := w.do("GET", "/do", nil); r.StatusCode != 200 {
			t.Error(r.Status, body)
		}
	}
	r, body := w.do("GET", "/do", nil)
	if r.StatusCode != 429 || code(body) != "RATE_LIMITED" || r.Header.Get("Retry-After") != "20" {
		t.Error(r.Status, r.Header, body)
	}
	if r, _ := w.do("GET", "/do", func(r *http.Request) {
		r.Header.Set("Authorization", "Bearer "+other)
	}); r.StatusCode != 200 {
		t.Error("the requests of one token count for another")
	}
	w.mu.Lock()
	w.now = w.now.Add(20 * time.Second)
	w.mu.Unlock()
	for i, want := range []int{200, 429} {
		if r, _ := w.do("GET", "/do", nil); r.StatusCode != want {
			t.Error(i, r.Status)
		}
	}
}

func TestMost(t *testing.T) {
	busy, release := make(chan bool), make(chan bool)
	w := start(t, func(_ http.ResponseWriter, r *http.Request) {
		if serve.CallerOf(r.Context()).Name == "ci" {
			busy <- true
			<-release
		}
	}, func(o *serve.Options) { o.Most = 2 })
	other := w.add("other", serve.Call)
	first := make(chan int)
	go func() {
		r, _ := w.do("GET", "/do", nil)
		first <- r.StatusCode
	}()
	<-busy
	r, body := w.do("GET", "/do", nil)
	if r.StatusCode != 503 || code(body) != "BUSY" || r.Header.Get("Retry-After") != "1" {
		t.Error(r.Status, body)
	}
	if r, body := w.do("GET", "/do", func(r *http.Request) {
		r.Header.Set("Authorization", "Bearer "+other)
	}); r.StatusCode != 200 {
		t.Error("one token takes the place of another: ", r.Status, body)
	}
	release <- true
	if got := <-first; got != 200 {
		t.Error(got)
	}
	go func() { <-busy; release <- true }()
	if r, _ := w.do("GET", "/do", nil); r.StatusCode != 200 {
		t.Error(r.Status)
	}
}

// TestFull: a server with as many requests as it may have refuses the next, also of another token. Without that bound
// a few tokens together take all of its memory.
func TestFull(t *testing.T) {
	for most, tokens := range map[int]int{1: 1, 2: 2} {
		busy, release := make(chan bool), make(chan bool)
		w := start(t, func(_ http.ResponseWriter, r *http.Request) {
			if serve.CallerOf(r.Context()).Name != "ci" {
				busy <- true
				<-release
			}
		}, func(o *serve.Options) { o.Most = most })
		ended := make(chan int)
		for i := range tokens {
			secret := w.add(fmt.Sprint("busy", i), serve.Call)
			go func() {
				r, _ := w.do("GET", "/do", func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+secret) })
				ended <- r.StatusCode
			}()
			<-busy
		}
		// Connections have their own bound: this one uses the last.
		r, body := w.do("GET", "/do", nil)
		if r.StatusCode != 503 || code(body) != "BUSY" || !strings.Contains(body, "the server has") {
			t.Error(most, r.Status, body)
		}
		for range tokens {
			release <- true
			if got := <-ended; got != 200 {
				t.Error(got)
			}
		}
	}
}

// TestNamed: a server has the names that its owner gives it, however a client writes them. Behind a proxy nothing
// works otherwise.
func TestNamed(t *testing.T) {
	w := start(t, ok, func(o *serve.Options) { o.Hosts = []string{"Agents.Example."} })
	for host, want := range map[string]int{"agents.example": 200, "AGENTS.example.:443": 200, "x.agents.example": 403,
		"localhost": 200} {
		if r, body := w.do("GET", "/do", func(r *http.Request) { r.Host = host }); r.StatusCode != want {
			t.Error(host, r.Status, body)
		}
	}
}

// TestConnections: further connections wait until one ends.
func TestConnections(t *testing.T) {
	w := start(t, ok, func(o *serve.Options) { o.Most = 1 })
	address := strings.TrimPrefix(w.url, "http://")
	const enough = 10 * time.Second // for any answer
	var open []net.Conn
	for range 2 {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(enough))
		fmt.Fprintf(c, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
		if line, err := bufio.NewReader(c).ReadString('\n'); err != nil || !strings.Contains(line, "200") {
			t.Fatal(line, err)
		}
		open = append(open, c)
	}
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprintf(c, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
	third := bufio.NewReader(c)
	c.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
	if line, err := third.ReadString('\n'); err == nil {
		t.Error("a third connection is served:", line)
	}
	open[0].Close()
	c.SetReadDeadline(time.Now().Add(enough))
	if line, err := third.ReadString('\n'); err != nil || !strings.Contains(line, "200") {
		t.Error("after one has ended:", line, err)
	}
}

// TestSlow: a client that sends its header slowly or without end is cut off.
func TestSlow(t *testing.T) {
	w := start(t, ok, func(o *serve.Options) { o.Head = 50 * time.Millisecond })
	c, err := net.Dial("tcp", strings.TrimPrefix(w.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprintf(c, "GET /do HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
	io.ReadAll(c) // ends, however
	c, err = net.Dial("tcp", strings.TrimPrefix(w.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	go func() {
		fmt.Fprintf(c, "GET /do HTTP/1.1\r\nHost: localhost\r\n")
		for i := 0; err == nil; i++ {
			_, err = fmt.Fprintf(c, "X-%d: %s\r\n", i, strings.Repeat("a", 1000))
		}
	}()
	if line, err := bufio.NewReader(c).ReadString('\n'); err == nil && !strings.Contains(line, " 431 ") {
		t.Error(line)
	}
}

// TestPanic: a handler that panics ends its request and no other, and is reported.
func TestPanic(t *testing.T) {
	w := start(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == "POST" {
			panic("broken")
		}
		ok(w, r)
	}, nil)
	r, err := http.NewRequest("POST", w.url+"/do", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+w.secret)
	if answer, err := w.client.Do(r); err == nil {
		t.Error(answer.Status)
	}
	if err := <-w.warned; !strings.Contains(err.Error(), "broken") {
		t.Error(err)
	}
	if r, _ := w.do("GET", "/do", nil); r.StatusCode != 200 {
		t.Error(r.Status)
	}
}

// TestRemoved: a request of a token that is removed is cancelled.
func TestRemoved(t *testing.T) {
	busy, cause := make(chan bool), make(chan error, 1)
	w := start(t, func(_ http.ResponseWriter, r *http.Request) {
		busy <- true
		<-r.Context().Done()
		cause <- context.Cause(r.Context())
	}, nil)
	ended := make(chan bool)
	go func() {
		w.do("GET", "/do", nil)
		close(ended)
	}()
	<-busy
	if err := w.tokens.Remove(t.Context(), "ci"); err != nil {
		t.Fatal(err)
	}
	if err := <-cause; err == nil || !strings.Contains(err.Error(), "not valid any more") {
		t.Error(err)
	}
	<-ended
}

// TestDrain: at the end, a request that listens ends at once, one that runs ends by itself or is cancelled after the
// grace.
func TestDrain(t *testing.T) {
	for _, patient := range []bool{true, false} {
		started, draining, release := make(chan string, 3), make(chan bool), make(chan bool)
		w := start(t, func(rw http.ResponseWriter, r *http.Request) {
			ctx := r.Context()
			if r.Method == "GET" {
				listen, cancel := serve.Listening(ctx)
				defer cancel()
				started <- "listen"
				<-listen.Done()
				close(draining)
				return
			}
			started <- "run"
			select {
			case <-ctx.Done():
			case <-release:
				io.WriteString(rw, "done")
			}
		}, func(o *serve.Options) {
			if !patient {
				o.Grace = 50 * time.Millisecond
			}
		})
		answers := make(chan string, 2)
		for _, method := range []string{"GET", "POST"} {
			go func() {
				_, body := w.do(method, "/do", nil)
				answers <- method + " " + body
			}()
			<-started
		}
		w.end()
		<-draining
		if got := <-answers; got != "GET " {
			t.Error(got)
		}
		if _, err := net.Dial("tcp", strings.TrimPrefix(w.url, "http://")); err == nil {
			// The listener may take a moment to close; then no request is answered.
			if r, err := w.client.Get(w.url + "/readyz"); err == nil && r.StatusCode != 503 {
				t.Error(r.Status)
			}
		}
		want := "POST "
		if patient {
			close(release)
			want = "POST done"
		}
		if got := <-answers; got != want {
			t.Error(got)
		}
		if err := <-w.ended; err != nil {
			t.Error(err)
		}
		w.ended <- nil
	}
}

// TestTLS: with a certificate the server may listen everywhere, and is called by the names in it.
func TestTLS(t *testing.T) {
	certificate, roots := webtest.Certificate(t, "agents.example")
	w := start(t, ok, func(o *serve.Options) {
		o.Listen, o.Certificate = ":0", certificate
	})
	if !strings.HasPrefix(w.url, "https://") {
		t.Error(w.url)
	}
	w.url = "https://127.0.0.1" + w.url[strings.LastIndex(w.url, ":"):]
	w.client.Transport = &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}
	for host, want := range map[string]int{"": 200, "agents.example": 200, "AGENTS.example:443": 200, "localhost": 403,
		"10.0.0.1": 403, "x.agents.example": 403} {
		if r, body := w.do("GET", "/do", func(r *http.Request) { r.Host = host }); r.StatusCode != want {
			t.Error(host, r.Status, body)
		}
	}
}
