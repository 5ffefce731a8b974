package sink

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/primitive"
	"github.com/rye-build/rye/manifest/jcs"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		"": "0  ", "return": "0  ", "null": "1  ", "raw:a b": "2 a b ", `jsonl:C:\x`: `3 C:\x `, "jsonl:a:b": "3 a:b ",
		"ws://example.com": "4  ws://example.com", "wss://[::1]:8080/p?q=1": "4  wss://[::1]:8080/p?q=1",
	} {
		got, err := Parse(text)
		shown := fmt.Sprintf("%d %s ", got.Kind, got.Path)
		if got.URL != nil {
			shown += got.URL.String()
		}
		if err != nil || shown != want {
			t.Errorf("%q: %q, %v", text, shown, err)
		}
	}
	for _, text := range []string{"x", "null:", "raw", "raw:", "jsonl:", "raw:a\x00", "file:a", "http://a", "ws:",
		"ws://", "ws:a", "ws:///p", "ws://:80",
		"ws://a:b", "ws://a:0", "ws://a:99999", "ws://a#b", "ws://a b", "wss://ann:secret@a/"} {
		_, err := Parse(text)
		if fault.CodeOf(err) != fault.Validation || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, text := range []string{"null", "raw:a", "jsonl:b", "wss://a:1/b?c", "ws://[::1%25x]/"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := Parse(text)
		if err != nil {
			return
		}
		switch got.Kind {
		case Raw, Lines:
			if got.Path == "" || !strings.HasSuffix(text, ":"+got.Path) {
				t.Errorf("%q: %+v", text, got)
			}
		case Server:
			if got.URL.Hostname() == "" || got.URL.User != nil || got.URL.Scheme != "ws" && got.URL.Scheme != "wss" {
				t.Errorf("%q: %+v", text, got)
			}
		}
	})
}

func FuzzLines(f *testing.F) {
	for _, text := range []string{"{\"b\": 1, \"a\": [true]}\ndone.\n\n \n7", "{\"a\":1,\"a\":2}\n\xff\n",
		"\"x\"\r\n[1"} {
		f.Add([]byte(text), 3)
	}
	f.Fuzz(func(t *testing.T, b []byte, cut int) {
		split := func(step int) (out []string) {
			s := new(splitter)
			each := func(line []byte) error {
				out = append(out, string(line))
				return nil
			}
			for part := range slices.Chunk(b, step) {
				if err := s.feed(part, each); err != nil {
					t.Fatal(err)
				}
			}
			if err := s.end(each); err != nil {
				t.Fatal(err)
			}
			return out
		}
		whole := split(len(b) + 1)
		if got := split(max(1, cut%64)); !slices.Equal(got, whole) {
			t.Errorf("in pieces %q, else %q", got, whole)
		}
		for _, line := range whole {
			v, err := jcs.Parse([]byte(line))
			if err != nil {
				t.Fatalf("%q is no JSON: %v", line, err)
			}
			if again, err := jcs.Append(nil, v); err != nil || string(again) != line || strings.Contains(line, "\n") {
				t.Errorf("%q again is %q, %v", line, again, err)
			}
		}
	})
}

// emit hands text to a sink in pieces, closes it, and returns the first error.
func emit(s Sink, text string) error {
	for part := range slices.Chunk([]byte(text), 7) {
		if err := s.Emit(primitive.Stdout, bytes.Clone(part)); err != nil {
			return errors.Join(err, s.Close())
		}
	}
	return errors.Join(s.Emit(primitive.Stderr, []byte("not this\n")), s.Close())
}

func open(t *testing.T, text string) Sink {
	t.Helper()
	s, err := try(t, Opener{}, text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func try(t *testing.T, o Opener, text string) (Sink, error) {
	t.Helper()
	to, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return o.Open(t.Context(), to)
}

func TestFiles(t *testing.T) {
	dir := t.TempDir()
	lines, raw := filepath.Join(dir, "a.jsonl"), filepath.Join(dir, "a.raw")
	const text = "{\"b\": 1, \"a\": [true]}\n\n  \ndone.\r\nx\xffy\n{\"a\":1,\"a\":2}\nend"
	const made = "{\"a\":[true],\"b\":1}\n\"done.\"\n\"x\ufffdy\"\n\"{\\\"a\\\":1,\\\"a\\\":2}\"\n\"end\"\n"
	for i := range 2 { // the second call goes on behind the first
		for path, want := range map[string]string{"jsonl:" + lines: made, "raw:" + raw: text} {
			if err := emit(open(t, path), text); err != nil {
				t.Fatal(err)
			}
			_, name, _ := strings.Cut(path, ":")
			if b, err := os.ReadFile(name); err != nil || string(b) != strings.Repeat(want, i+1) {
				t.Errorf("%s: %q, %v", path, b, err)
			}
		}
	}
	if err := emit(open(t, "null"), text); err != nil {
		t.Error(err)
	}
	if s, err := (Opener{}).Open(t.Context(), Target{}); s != nil || err != nil {
		t.Errorf("got %v, %v", s, err)
	}
}

// TestWritten: what came is in the file before the call goes on.
func TestWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	s := open(t, "jsonl:"+path)
	defer s.Close()
	if err := s.Emit(primitive.Stdout, []byte("1\n2")); err != nil {
		t.Fatal(err)
	}
	if b, _ := os.ReadFile(path); string(b) != "1\n" {
		t.Errorf("%q", b)
	}
}

func TestFileRefused(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a")
	put := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put("1\n{\"a\":")
	_, err := try(t, Opener{}, "jsonl:"+path)
	if e := fault.Of(err); e.Code != fault.Parsing || e.Details["size"] != int64(2) || e.Details["path"] != path ||
		e.Hint[0] != fault.Command("truncate -s 2", path) {
		t.Errorf("got %v", err)
	}
	put(strings.Repeat("1", MaxLine+2))
	if _, err := try(t, Opener{}, "jsonl:"+path); err == nil {
		t.Error("a line without an end is one")
	}
	put("1\n2")
	if err := emit(open(t, "jsonl:"+path), "3"); err != nil {
		t.Error(err)
	}
	if b, _ := os.ReadFile(path); string(b) != "1\n2\n3\n" {
		t.Errorf("%q", b)
	}
	s := open(t, "raw:"+path)
	_, err = try(t, Opener{}, "jsonl:"+path)
	if err == nil || fault.CodeOf(err) != fault.Busy {
		t.Errorf("got %v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{dir, filepath.Join(dir, "none", "a")} {
		if _, err := try(t, Opener{}, "raw:"+bad); err == nil {
			t.Errorf("%s can be written", bad)
		}
	}
	if err := emit(open(t, "jsonl:"+path), strings.Repeat("x", MaxLine+1)); fault.CodeOf(err) != fault.Resource {
		t.Errorf("got %v", err)
	}
}

var errFull = errors.New("full")

// A full file takes the first half of what is written into it.
type full struct{ f *os.File }

func (w full) Write(b []byte) (int, error) {
	n, err := w.f.Write(b[:len(b)/2])
	return n, errors.Join(err, errFull)
}

// TestTorn: of a line that can't be written nothing stays, and nothing follows it.
func TestTorn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	s := open(t, "jsonl:"+path).(*file)
	if err := s.Emit(primitive.Stdout, []byte("[1,2]\n")); err != nil {
		t.Fatal(err)
	}
	s.to = full{s.f}
	if err := s.Emit(primitive.Stdout, []byte("[3,4]\n")); !errors.Is(err, errFull) {
		t.Errorf("got %v", err)
	}
	s.to = s.f
	if err := s.Emit(primitive.Stdout, []byte("[5,6]\n")); !errors.Is(err, errFull) {
		t.Errorf("got %v", err)
	}
	if err := s.Close(); !errors.Is(err, errFull) {
		t.Errorf("got %v", err)
	}
	if b, _ := os.ReadFile(path); string(b) != "[1,2]\n" {
		t.Errorf("%q", b)
	}
}

// A peer is a server that keeps what it gets. It ends its first connections after so many messages.
type peer struct {
	*httptest.Server
	mu   sync.Mutex
	got  []string
	ends []int // messages after which connections are cut
	made int   // connections
	gone bool  // no more are made
}

func newPeer(t *testing.T, start func(*httptest.Server), ends ...int) *peer {
	p := &peer{ends: ends}
	p.Server = httptest.NewUnstartedServer(http.HandlerFunc(p.serve))
	start(p.Server)
	t.Cleanup(p.Close)
	return p
}

func (p *peer) serve(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	if r.URL.Path == "/elsewhere" || p.gone {
		p.mu.Unlock()
		http.Redirect(w, r, "/", http.StatusTemporaryRedirect)
		return
	}
	most := -1
	if p.made < len(p.ends) {
		most = p.ends[p.made]
	}
	p.made++
	p.mu.Unlock()
	c, err := websocket.Accept(w, r, nil)
	if err != nil {
		return
	}
	defer c.CloseNow()
	c.SetReadLimit(MaxLine)
	c.Write(r.Context(), websocket.MessageText, []byte("hello"))
	for n := 0; n != most; n++ {
		_, b, err := c.Read(r.Context())
		if err != nil {
			return
		}
		p.mu.Lock()
		p.got = append(p.got, string(b))
		p.mu.Unlock()
	}
}

func (p *peer) address() string { return strings.Replace(p.URL, "http", "ws", 1) + "/x?y=z" }

// messages are n lines, and what a server has to get of them.
func messages(n int) (text string, want []string) {
	for i := range n {
		text += fmt.Sprintf("{\"n\": %d}\n", i)
		want = append(want, fmt.Sprintf(`{"n":%d}`, i))
	}
	return text, want
}

// unique returns each message once, in the order in which they came first.
func (p *peer) unique() (all []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range p.got {
		if !slices.Contains(all, m) {
			all = append(all, m)
		}
	}
	return all
}

func TestServer(t *testing.T) {
	var waits []time.Duration
	o := Opener{sleep: func(_ context.Context, d time.Duration) error {
		waits = append(waits, d)
		return nil
	}}
	text, want := messages(2*MaxPending + 10)
	for name, ends := range map[string][]int{"steady": nil, "cut once": {5},
		"cut at the beginning, and again": {0, 0, 300}} {
		p, before := newPeer(t, (*httptest.Server).Start, ends...), len(waits)
		s, err := try(t, o, p.address())
		if err != nil {
			t.Fatal(err)
		}
		if err := emit(s, text); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got := p.unique(); !slices.Equal(got, want) {
			t.Errorf("%s: got %d of %d messages", name, len(got), len(want))
		}
		if ends == nil && (p.made != 1 || len(p.got) != len(want)) {
			t.Errorf("%s: %d connections, %d messages", name, p.made, len(p.got))
		}
		if ends != nil && (p.made <= len(ends) || len(waits) == before || waits[before] != time.Second/2) {
			t.Errorf("%s: %d connections, waited %v", name, p.made, waits[before:])
		}
	}
	p := newPeer(t, (*httptest.Server).Start)
	s, err := try(t, o, p.address())
	if err != nil {
		t.Fatal(err)
	}
	if err := emit(s, "one line\n\n\xff"); err != nil ||
		!slices.Equal(p.got, []string{`"one line"`, `"` + "\ufffd" + `"`}) {
		t.Errorf("%q, %v", p.got, err)
	}
}

// TestServerGone: what can't be brought to a server ends the call, and isn't forgotten silently.
func TestServerGone(t *testing.T) {
	var waits []time.Duration
	o := Opener{sleep: func(_ context.Context, d time.Duration) error {
		waits = append(waits, d)
		return nil
	}}
	p := newPeer(t, (*httptest.Server).Start, 3)
	s, err := try(t, o, p.address())
	if err != nil {
		t.Fatal(err)
	}
	p.mu.Lock()
	p.gone = true
	p.mu.Unlock()
	text, _ := messages(MaxPending)
	err = emit(s, text)
	lost := fault.Of(err)
	if lost.Code != fault.Unavailable || lost.Details["lost"].(int) < 1 ||
		!strings.Contains(lost.Text, "may not have received") || lost.Unwrap() == nil {
		t.Errorf("got %v", err)
	}
	if want := []time.Duration{time.Second / 2, time.Second, 2 * time.Second}; !slices.Equal(waits, want) {
		t.Errorf("waited %v", waits)
	}
	if err := s.Emit(primitive.Stdout, []byte("more\n")); err == nil {
		t.Error("there is more to say")
	}
	for _, path := range []string{"/elsewhere", "/"} {
		if path == "/" {
			p.Close()
		}
		_, err := try(t, o, strings.Replace(p.URL, "http", "ws", 1)+path)
		if e := fault.Of(err); e.Code != fault.Unavailable || e.Details["lost"] != 0 {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// TestServerSilent: a server that reads nothing is no server.
func TestServerSilent(t *testing.T) {
	done := make(chan struct{})
	silent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, err := websocket.Accept(w, r, nil); err == nil {
			defer c.CloseNow()
			<-done
		}
	}))
	defer silent.Close()
	defer close(done)
	o := Opener{sleep: func(context.Context, time.Duration) error { return nil }}
	s, err := try(t, o, strings.Replace(silent.URL, "http", "ws", 1))
	if err != nil {
		t.Fatal(err)
	}
	s.(*server).stall = 20 * time.Millisecond // from now on: to be connected may take its time
	if e := fault.Of(emit(s, "1\n")); e.Code != fault.Unavailable || e.Details["lost"] != 1 {
		t.Errorf("got %v", e)
	}
}

func TestServerTLS(t *testing.T) {
	p := newPeer(t, (*httptest.Server).StartTLS)
	if _, err := try(t, Opener{}, p.address()); !errors.As(err, new(x509.UnknownAuthorityError)) {
		t.Errorf("got %v", err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(p.Certificate())
	s, err := try(t, Opener{Roots: roots}, p.address())
	if err != nil {
		t.Fatal(err)
	}
	if err := emit(s, "7"); err != nil || !slices.Equal(p.got, []string{"7"}) {
		t.Errorf("%q, %v", p.got, err)
	}
}

// TestServerCancelled: the end of the call is the end of waiting.
func TestServerCancelled(t *testing.T) {
	p := newPeer(t, (*httptest.Server).Start, 0)
	ctx, stop := context.WithCancelCause(t.Context())
	to, err := Parse(p.address())
	if err != nil {
		t.Fatal(err)
	}
	slept := 0
	s, err := Opener{sleep: func(ctx context.Context, _ time.Duration) error {
		slept++
		stop(errFull)
		return cas.Sleep(ctx, time.Hour)
	}}.Open(ctx, to)
	if err != nil {
		t.Fatal(err)
	}
	if err := emit(s, "1\n"); !errors.Is(err, errFull) || slept != 1 {
		t.Errorf("got %v after %d", err, slept)
	}
}
