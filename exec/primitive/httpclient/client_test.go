package httpclient

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/exec/primitive"
	"github.com/rye-build/rye/manifest/jcs"
	"github.com/rye-build/rye/manifest/policy/floor"
)

// TestRequest: what the server gets.
func TestRequest(t *testing.T) {
	var got *http.Request
	var content []byte
	w := newWorld(t, func(_ http.ResponseWriter, r *http.Request) {
		got = r
		content, _ = io.ReadAll(r.Body)
	})
	usual := http.Header{"Accept": {"*/*"}, "Accept-Encoding": {"identity"}, "User-Agent": {"rye"},
		"Connection": {"close"}}
	and := func(list ...string) http.Header {
		h := usual.Clone()
		for i := 0; i < len(list); i += 2 {
			h.Set(list[i], list[i+1])
		}
		return h
	}
	object := map[string]any{"b": int64(1), "a": []any{nil}}
	for _, c := range []struct {
		config map[string]any
		method string
		header http.Header
		body   string
	}{
		{config(), "GET", usual, ""},
		{config("method", "DELETE", "body", object), "DELETE", usual, ""},
		{config("method", "POST"), "POST", and("Content-Length", "0"), ""},
		{config("method", "POST", "body", object), "POST",
			and("Content-Length", "18", "Content-Type", "application/json"), `{"a":[null],"b":1}`},
		{config("method", "PUT", "body", ""), "PUT", and("Content-Length", "2", "Content-Type", "application/json"),
			`""`},
		{
			config("method", "PATCH", "body", false, "headers",
				config("content-type", "application/merge-patch+json", "user-agent", "me")),
			"PATCH", and("Content-Length", "5", "Content-Type", "application/merge-patch+json", "User-Agent", "me"),
			"false",
		},
		{config("mode", "stream"), "GET", and("Accept", "text/event-stream"), ""},
		{config("auth", config("type", "bearer", "token", "t")), "GET", and("Authorization", "Bearer t"), ""},
		{config("auth", config("type", "api_key", "key", "k")), "GET", and("X-Api-Key", "k"), ""},
		{config("auth", config("type", "api_key", "key", "k", "header", "X-Mine")), "GET", and("X-Mine", "k"), ""},
		{config("headers", config("x-a", "ünï \t x", "Cookie", "a=b")), "GET", and("X-A", "ünï \t x", "Cookie", "a=b"),
			""},
	} {
		c.config["url"] = w.url("https", "public.example", "/a%2Fb/ü c/{d}?q=ü&x=%20#fragment")
		if r, err := w.Run(t.Context(), w.action(c.config), nil); err != nil || r.Failed {
			t.Fatalf("%v: %+v, %v", c.config, r, err)
		}
		if got.Method != c.method || !reflect.DeepEqual(got.Header, c.header) &&
			!sameBut(got.Header, c.header, "Content-Length") || string(content) != c.body {
			t.Errorf("%v: %s %q %q", c.config, got.Method, got.Header, content)
		}
		if got.RequestURI != "/a%2Fb/%C3%BC%20c/%7Bd%7D?q=%C3%BC&x=%20" || got.Host != "public.example:"+w.https ||
			got.Proto != "HTTP/1.1" || got.ContentLength != int64(len(c.body)) {
			t.Errorf("%s %s %s %d", got.RequestURI, got.Host, got.Proto, got.ContentLength)
		}
	}
	a := w.action(config("url", w.url("https", "public.example", "/"), "method", "POST", "body", "\xff"))
	if _, err := w.Run(t.Context(), a, nil); !strings.HasPrefix(fmt.Sprint(err), "the body: ") {
		t.Errorf("%v", err)
	}
}

// sameBut reports whether header lines are the same but for one, which a server of Go takes out.
func sameBut(got, want http.Header, name string) bool {
	want = want.Clone()
	want.Del(name)
	return reflect.DeepEqual(got, want)
}

// TestHost: the port that goes without saying isn't said to the server.
func TestHost(t *testing.T) {
	for raw, want := range map[string]string{
		"https://A.example./": "a.example", "https://a.example:443/": "a.example",
		"https://a.example:80": "a.example:80", "http://a.example": "a.example",
		"http://a.example:443": "a.example:443", "http://[::1]:80/": "[::1]", "HTTP://10.0.0.1:8080": "10.0.0.1:8080",
	} {
		u, err := address(raw)
		if err != nil || shownHost(u) != want {
			t.Errorf("%s: %v, %v", raw, u, err)
		}
	}
}

// TestAnswer: what comes out.
func TestAnswer(t *testing.T) {
	var handle http.HandlerFunc
	w := newWorld(t, func(rw http.ResponseWriter, r *http.Request) { handle(rw, r) })
	deep := strings.Repeat("[", maxDepth) + strings.Repeat("]", maxDepth)
	for _, c := range []struct {
		code    int
		body    string
		want    any
		failure string
	}{
		{200, ` {"a": 1} `, map[string]any{"a": 1.0}, ""},
		{200, `{"a": 1, "a": 2}`, `{"a": 1, "a": 2}`, ""},
		{200, "null", nil, ""},
		{200, "", "", ""},
		{200, "text\xff", "text\ufffd", ""},
		{200, deep, mustParse(t, deep), ""},
		{200, "[" + deep + "]", "[" + deep + "]", ""},
		{200, `{"a":[` + deep + `]}`, `{"a":[` + deep + `]}`, ""},
		{201, "1", 1.0, ""},
		{204, "", "", ""},
		{302, "", "", ""},
		{304, "", "", ""},
		{400, "", "", "HTTP 400 Bad Request"},
		{404, "not here\n", "not here\n", "HTTP 404 Not Found: not here"},
		{404, `{"error": {"message": "not here"}}`, map[string]any{"error": map[string]any{"message": "not here"}},
			"HTTP 404 Not Found: not here"},
		{403, `{"detail": "no", "error": 1}`, map[string]any{"detail": "no", "error": 1.0}, "HTTP 403 Forbidden: no"},
		{409, `{"error": "a", "message": "b"}`, map[string]any{"error": "a", "message": "b"}, "HTTP 409 Conflict: a"},
		{500, "[1]", []any{1.0}, "HTTP 500 Internal Server Error"},
		{599, strings.Repeat("ü", 2000), strings.Repeat("ü", 2000), "HTTP 599: " + strings.Repeat("ü", 1000) + "…"},
	} {
		handle = func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Add("X-Two", "a")
			rw.Header().Add("X-Two", "b\xff")
			rw.WriteHeader(c.code)
			io.WriteString(rw, c.body)
		}
		r := w.get(t, "/")
		if status(r) != int64(c.code) || !reflect.DeepEqual(body(r), c.want) || r.Failure != c.failure ||
			r.Failed != (c.failure != "") {
			t.Errorf("%d %.60q: %.200v", c.code, c.body, r)
		}
		if h := r.Value.(map[string]any)["headers"].(map[string]any); h["x-two"] != "a, b\ufffd" || r.Ended != "" {
			t.Errorf("%v, %q", h, r.Ended)
		}
		if _, err := jcs.Append(nil, r.Value); err != nil {
			t.Errorf("%d %.60q: %v", c.code, c.body, err)
		}
		if r.Level != floor.Namespace || !slices.Equal(r.Enforced, []string{"in-process", "network:hosts"}) ||
			r.Usage["requests"] != 1 || r.Usage["received"] != int64(len(c.body)) {
			t.Errorf("%v %q %v", r.Level, r.Enforced, r.Usage)
		}
	}
	handle = func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Encoding", "gzip")
		rw.Header().Set("Content-Length", "1000000000000")
	}
	if r := w.get(t, "/", "method", "HEAD"); r.Failed || body(r) != "" {
		t.Errorf("HEAD: %+v", r)
	}
	w.all = true
	if r := w.get(t, "/", "method", "HEAD"); r.Enforced[1] != "network:public" {
		t.Errorf("%q", r.Enforced)
	}
}

func mustParse(t *testing.T, s string) any {
	t.Helper()
	v, err := jcs.Parse([]byte(s))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestMisbehaving: servers that do what they shouldn't.
func TestMisbehaving(t *testing.T) {
	bomb := new(bytes.Buffer)
	z := gzip.NewWriter(bomb)
	z.Write(make([]byte, 4<<20)) // many times what may come out
	z.Close()
	endless := func(rw http.ResponseWriter) {
		for block := bytes.Repeat([]byte("x: y\n"), 4096); ; {
			if _, err := rw.Write(block); err != nil {
				return
			}
		}
	}
	w := newWorld(t, func(rw http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/stream") {
			rw.Header().Set("Content-Type", "text/event-stream")
		}
		switch r.URL.Path {
		case "/nothing", "/stream/nothing":
			<-r.Context().Done()
			panic(http.ErrAbortHandler) // so that there is no response
		case "/slow-headers":
			raw(t, rw, "HTTP/1.1 200 OK\r\nX: ", false)
		case "/slow-body":
			raw(t, rw, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n1234", false)
		case "/drip":
			for r.Context().Err() == nil {
				io.WriteString(rw, "1")
				rw.(http.Flusher).Flush()
				time.Sleep(time.Millisecond)
			}
		case "/endless", "/stream/comments":
			endless(rw)
		case "/announced":
			rw.Header().Set("Content-Length", "1000000000000")
			endless(rw)
		case "/short":
			raw(t, rw, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n1234", true)
		case "/two-lengths":
			raw(t, rw, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\n1234", true)
		case "/chunk":
			raw(t, rw, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", true)
		case "/half", "/stream/half":
			io.WriteString(rw, "data: 1\n\ndata: 2\n")
			rw.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		case "/reset":
			panic(http.ErrAbortHandler)
		case "/huge-header":
			rw.Header().Set("X", strings.Repeat("x", 128<<10))
		case "/many-headers":
			for i := range 20_000 {
				rw.Header().Set(fmt.Sprint("X-", i), "x")
			}
		case "/hints":
			raw(t, rw, strings.Repeat("HTTP/1.1 103 Early Hints\r\n\r\n", 100_000), true)
		case "/garbage":
			raw(t, rw, strings.Repeat("\x00\x1b[2Jgarbage", 1000)+"\r\n\r\n", true)
		case "/switch":
			raw(t, rw, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n", false)
		case "/bomb", "/stream/bomb":
			rw.Header().Set("Content-Encoding", "gzip")
			rw.Write(bomb.Bytes())
		case "/stream/endless":
			for i := 0; ; i++ {
				if _, err := fmt.Fprintf(rw, "data: %d\n\n", i); err != nil {
					return
				}
			}
		case "/stream/long":
			io.WriteString(rw, "data: ")
			endless := bytes.Repeat([]byte("x"), 64<<10)
			for {
				if _, err := rw.Write(endless); err != nil {
					return
				}
			}
		case "/stream/grows":
			// Its output is six times as long.
			io.WriteString(rw, "data: "+strings.Repeat("\x01", 50_000)+"\n\n")
		}
	})
	const none = 0
	for _, c := range []struct {
		path   string
		status int64
		ended  string
		why    string
	}{
		{"/nothing", none, "timeout", "no complete response within 1s"},
		{"/slow-headers", none, "timeout", "no complete response within 1s"},
		{"/slow-body", 200, "timeout", "no complete response within 1s"},
		{"/drip", 200, "timeout", "no complete response within 1s"},
		{"/stream/nothing", none, "timeout", "no complete response within 1s"},
		{"/endless", 200, "output", "the answer has more than 100000 bytes"},
		{"/announced", 200, "output", "the answer has more than 100000 bytes"},
		{"/short", 200, "", "unexpected EOF"},
		{"/two-lengths", none, "", `no usable answer from "public.example:`},
		{"/chunk", 200, "", "invalid byte in chunk length"},
		{"/half", 200, "", "unexpected EOF"},
		{"/reset", none, "", "no usable answer from"},
		{"/huge-header", none, "", "exceeded"},
		{"/many-headers", none, "", "exceeded"},
		{"/hints", none, "", "no usable answer from"},
		{"/garbage", none, "", "malformed HTTP"},
		{"/switch", 101, "", "another protocol"},
		{"/bomb", 200, "", "the body has an unrequested encoding"},
		{"/stream/bomb", 200, "", "the body has an unrequested encoding"},
		{"/stream/half", 200, "", "unexpected EOF"},
		{"/stream/endless", 200, "output", "what comes out of the stream has more than 100000 bytes"},
		{"/stream/comments", 200, "output", "the stream has more than 100000 bytes"},
		{"/stream/grows", 200, "output", "what comes out of the stream has more than 100000 bytes"},
	} {
		a := w.action(config("url", w.url("https", "public.example", c.path), "timeout", 30.0, "mode", "sync"))
		a.Sandbox.Limits.Output = 100_000
		if strings.HasPrefix(c.path, "/stream") {
			a.Config["mode"] = "stream"
		}
		if c.ended == "timeout" {
			a.Config["timeout"] = 1.0 // in which a busy machine gets as far as the headers
		}
		r, err := w.Run(t.Context(), a, nil)
		if err != nil || !r.Failed || r.Ended != c.ended || status(r) != c.status ||
			!strings.Contains(r.Failure, c.why) {
			t.Errorf("%s: %+v, %v; want %d, %q, %s", c.path, r, err, c.status, c.ended, c.why)
			continue
		}
		if len(r.Failure) > 2100 || strings.Contains(r.Failure, "\x1b") || r.Usage["received"] > 200_000 {
			t.Errorf("%s: %q %v", c.path, r.Failure, r.Usage)
		}
		if c.path == "/stream/half" && !reflect.DeepEqual(body(r), []any{map[string]any{"data": 1.0}}) {
			t.Errorf("what came of the stream: %v", r.Value)
		}
	}
	r := w.get(t, "/stream/long", "mode", "stream")
	if r.Ended != "output" || r.Failure != "an event has more than 1048576 bytes" {
		t.Errorf("%+v", r)
	}
	// The primitive's own bound holds where the action has a larger one.
	a := w.action(config("url", w.url("https", "public.example", "/endless")))
	a.Sandbox.Limits.Output = 1 << 40
	if r, err := w.Run(t.Context(), a, nil); err != nil || r.Ended != "output" || r.Usage["received"] != MaxBody+1 {
		t.Errorf("%.500v, %v", r, err)
	}
}

// TestStream: what is kept of a stream, and what is one body though a stream was asked for.
func TestStream(t *testing.T) {
	var text string
	kind := "text/event-stream"
	w := newWorld(t, func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Type", kind)
		if r.URL.Path == "/no" {
			rw.WriteHeader(http.StatusBadRequest)
		}
		io.WriteString(rw, text)
	})
	do := func(path string, to primitive.Sink) *primitive.Result {
		r, err := w.Run(t.Context(), w.action(config("url", w.url("https", "public.example", path), "mode", "stream")),
			to)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	text = "event: a\xff\nid: 1\ndata: {\"x\": 1}\n\ndata: [DONE]\n\ndata: two\ndata: lines\xff\n\n"
	s := new(sink)
	r := do("/", s)
	told := []string{"{\"data\":{\"x\":1},\"event\":\"a\ufffd\",\"id\":\"1\"}\n",
		"{\"data\":\"[DONE]\",\"id\":\"1\"}\n", "{\"data\":\"two\\nlines\ufffd\",\"id\":\"1\"}\n"}
	kept := []any{
		map[string]any{"data": map[string]any{"x": 1.0}, "event": "a\ufffd", "id": "1"},
		map[string]any{"data": "[DONE]", "id": "1"},
		map[string]any{"data": "two\nlines\ufffd", "id": "1"},
	}
	if !slices.Equal(s.lines, told) || r.Failed || !reflect.DeepEqual(body(r), kept) ||
		r.Value.(map[string]any)["stream_events_count"] != int64(3) {
		t.Errorf("%q, %+v", s.lines, r)
	}
	text = strings.Repeat("data: 1\n\n", MaxEvents+5)
	if r = do("/", nil); r.Failed || len(body(r).([]any)) != MaxEvents ||
		r.Value.(map[string]any)["stream_events_count"] != int64(MaxEvents+5) {
		t.Errorf("%d events are kept", len(body(r).([]any)))
	}
	text = strings.Repeat("data: "+strings.Repeat("x", 1<<19)+"\n\n", 9)
	if r = do("/", nil); r.Failed || len(body(r).([]any)) != 7 ||
		r.Value.(map[string]any)["stream_events_count"] != int64(9) {
		t.Errorf("%d events are kept", len(body(r).([]any)))
	}
	text = `{"error": "wrong"}`
	s = new(sink)
	if r = do("/no", s); r.Failure != "HTTP 400 Bad Request: wrong" || len(s.lines) != 0 {
		t.Errorf("%+v", r)
	}
	kind = "application/json"
	if r = do("/", s); r.Failed || body(r).(map[string]any)["error"] != "wrong" ||
		!slices.Equal(s.lines, []string{text}) {
		t.Errorf("%+v, %q", r, s.lines)
	}
	if r = do("/", &sink{enough: 1}); r.Ended != "cancelled" || r.Failure != "the output can't be passed on: enough" {
		t.Errorf("%+v", r)
	}
	kind, text = "text/event-stream", "data: 1\n\ndata: 2\n\ndata: 3\n\n"
	s = &sink{enough: 2}
	if r = do("/", s); r.Ended != "cancelled" || r.Failure != "the output can't be passed on: enough" ||
		len(s.lines) != 2 {
		t.Errorf("%+v, %q", r, s.lines)
	}
}

// TestTries: what is tried again, and after how long.
func TestTries(t *testing.T) {
	var answers []func(http.ResponseWriter)
	w := newWorld(t, func(rw http.ResponseWriter, r *http.Request) {
		answer := answers[0]
		if len(answers) > 1 {
			answers = answers[1:]
		}
		answer(rw)
	})
	code := func(code int, headers ...string) func(http.ResponseWriter) {
		return func(rw http.ResponseWriter) {
			for i := 0; i < len(headers); i += 2 {
				rw.Header().Set(headers[i], headers[i+1])
			}
			rw.WriteHeader(code)
		}
	}
	reset := func(http.ResponseWriter) { panic(http.ErrAbortHandler) }
	half := func(rw http.ResponseWriter) {
		rw.Header().Set("Content-Length", "9")
		io.WriteString(rw, "1")
	}
	stream := func(rw http.ResponseWriter) {
		rw.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(rw, "data: 1\n\n")
		rw.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
	type list = []func(http.ResponseWriter)
	seconds := func(list ...int) (all []time.Duration) {
		for _, n := range list {
			all = append(all, time.Duration(n)*time.Second)
		}
		return all
	}
	key := config("Idempotency-Key", "1")
	for name, c := range map[string]struct {
		answers list
		config  map[string]any // but for retry
		tries   int64
		backoff string
		waited  []time.Duration
		status  int64
		failure string
	}{
		"once": {list{code(503)}, config(), 1, "", nil, 503, "HTTP 503 Service Unavailable"},
		"until it works": {list{code(503), code(502), code(504), code(200)}, config(), 5, "exponential",
			seconds(1, 2, 4), 200, ""},
		"evenly": {list{code(503), code(502), code(504), code(200)}, config(), 5, "linear",
			seconds(1, 1, 1), 200, ""},
		"not as often as that": {list{code(503)}, config(), 3, "", seconds(1, 2), 503,
			"after 3 tries: HTTP 503 Service Unavailable"},
		"never more than ten times": {list{code(503, "Retry-After", "1")}, config(), 1000, "",
			seconds(1, 1, 1, 1, 1, 1, 1, 1, 1), 503, "after 10 tries: HTTP 503 Service Unavailable"},
		"when the server says": {list{code(503, "Retry-After", "7"), code(429, "Retry-After", "3"), code(200)},
			config(), 5, "", seconds(7, 3), 200, ""},
		"not when it is too late": {list{code(503, "Retry-After", "3600")}, config(), 5, "", nil, 503,
			"HTTP 503 Service Unavailable"},
		"POST": {list{code(503)}, config("method", "POST"), 5, "", nil, 503,
			"HTTP 503 Service Unavailable"},
		"POST, 502": {list{code(502)}, config("method", "PATCH"), 5, "", nil, 502,
			"HTTP 502 Bad Gateway"},
		"POST that wasn't done": {list{code(503, "Retry-After", "0"), code(429), code(200)},
			config("method", "POST"), 5, "", seconds(1, 2), 200, ""},
		"POST with a key": {list{code(502), reset, code(200)}, config("method", "POST", "headers", key), 5,
			"", seconds(1, 2), 200, ""},
		"PUT": {list{code(502), reset, code(200)}, config("method", "PUT", "body", "x"), 5, "",
			seconds(1, 2), 200, ""},
		"no answer": {list{reset, half, code(200)}, config(), 5, "", seconds(1, 2), 200, ""},
		"no answer to POST": {list{reset, code(200)}, config("method", "POST"), 5, "", nil, 0,
			"no usable answer from"},
		"what is wrong stays wrong": {list{code(400)}, config(), 5, "", nil, 400, "HTTP 400 Bad Request"},
		"a stream before it began": {list{code(503), reset, stream}, config("mode", "stream"), 5, "", seconds(1, 2),
			200, "after 3 tries: no usable answer from"},
		"encoded": {list{code(200, "Content-Encoding", "br")}, config(), 5, "", nil, 200, ""},
		"a server that goes on to no": {list{reset}, config(), 2, "", seconds(1), 0,
			"after 2 tries: no usable answer from"},
	} {
		answers, w.waited = c.answers, nil
		c.config["retry"] = config("max_attempts", c.tries)
		if c.backoff != "" {
			c.config["retry"] = config("max_attempts", c.tries, "backoff", c.backoff)
		}
		c.config["url"], c.config["timeout"] = w.url("https", "public.example", "/"), int64(60)
		before := len(w.requests())
		r, err := w.Run(t.Context(), w.action(c.config), nil)
		if err != nil || status(r) != c.status || !strings.HasPrefix(r.Failure, c.failure) ||
			r.Failed != (c.failure != "") {
			t.Errorf("%s: %+v, %v", name, r, err)
			continue
		}
		if !slices.Equal(w.waited, c.waited) || int(r.Usage["requests"]) != len(c.waited)+1 ||
			len(w.requests())-before != len(c.waited)+1 {
			t.Errorf("%s: waited %v, %v", name, w.waited, r.Usage)
		}
	}
}
