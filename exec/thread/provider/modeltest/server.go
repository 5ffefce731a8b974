package modeltest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rye-build/rye/ai/std"
	"github.com/rye-build/rye/exec/thread/provider/wire"
)

// A Turn is the server's answer to one request.
type Turn struct {
	Text     string
	Thinking string // before the text; must be sent back, except in chat_completion
	Calls    []wire.ToolCall
	Stop     string // a value of package wire; "" is StopCalls with calls, otherwise StopEnd
	Usage    wire.Usage

	// The following fields are misbehaviour.

	Status     int    // of an error instead of an answer
	Type, Code string // of that error; if Type is "", the vendor's for the status
	Message    string
	RetryAfter string
	Late       bool // the error is in the stream, after the text

	RawUsage string // instead of the usage; "none" leaves it out
	Body     string // instead of the answer, with the status 200
	Media    string // instead of the right media type
	Redirect string // redirect to this address
	Endless  bool   // repeat the text until the client disconnects
	Cut      int    // break the connection after this many events, or within a body
	Short    int    // end the answer regularly after this many events
	Repeat   int    // how often the text is repeated
	Hang     bool   // wait without an answer until the client disconnects
	// Drip makes the server wait for a value before each event.
	Drip <-chan struct{}
}

// A Request is a received request.
type Request struct {
	Format, Model string
	Stream        bool
	Path          string
	Header        http.Header
	Raw           []byte
	Body          map[string]any  // decoded by encoding/json
	Gone          <-chan struct{} // closed when the client has disconnected
}

// A Server is a model server on this machine. It is safe for concurrent use. The test closes it.
type Server struct {
	URL  string // without a slash at the end
	Host string // with the port

	close    func()
	mu       sync.Mutex
	turns    []Turn
	handler  func(*Request) Turn
	key      string
	models   []string
	requests []*Request
	refused  []string
	served   int
}

// New starts a server that ends with the test.
func New(t testing.TB, turns ...Turn) *Server {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{Host: l.Addr().String(), URL: "http://" + l.Addr().String(), turns: turns}
	ctx, stop := context.WithCancel(context.Background())
	server := &http.Server{Handler: s, BaseContext: func(net.Listener) context.Context { return ctx }}
	done := make(chan struct{})
	go func() { defer close(done); server.Serve(l) }()
	s.close = sync.OnceFunc(func() { stop(); server.Close(); <-done })
	t.Cleanup(s.close)
	return s
}

// Close stops the server before the test ends.
func (s *Server) Close() { s.close() }

// Add adds turns to the script.
func (s *Server) Add(turns ...Turn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.turns = append(s.turns, turns...)
}

// Handle makes a function answer instead of the script. Many goroutines may call it.
func (s *Server) Handle(f func(*Request) Turn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.handler = f
}

// Require makes the server refuse requests without this key.
func (s *Server) Require(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.key = key
}

// Requests returns all requests, including refused ones.
func (s *Server) Requests() []*Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Refused returns the reasons of requests that no vendor would accept.
func (s *Server) Refused() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.refused)
}

// Left returns the number of remaining turns in the script.
func (s *Server) Left() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.turns)
}

var (
	urlLine     = regexp.MustCompile(`(?m)^(  url: "?)https?://[^/"]*`)
	networkLine = regexp.MustCompile(`(?m)^network: .*$`)
)

// Has sets the models that the server lists.
func (s *Server) Has(models ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.models = models
}

// list answers a request for the server's models, as Ollama does.
func (s *Server) list(response http.ResponseWriter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var data []map[string]any
	for _, name := range s.models {
		data = append(data, map[string]any{"id": name, "object": "model"})
	}
	response.Header().Set("Content-Type", "application/json")
	json.NewEncoder(response).Encode(map[string]any{"object": "list", "data": data})
}

// Item returns the text of a provider of the library, such as "openai", with the address of this server.
func (s *Server) Item(name string) string { return s.item("providers/" + name) }

// Lister returns the text of the tool of the library that lists the models of a provider, such as "local", with the
// address of this server.
func (s *Server) Lister(name string) string { return s.item("models/" + name) }

func (s *Server) item(name string) string {
	b, err := fs.ReadFile(std.FS(), "tools/rye/agent/"+name+".yaml")
	if err != nil {
		panic(err)
	}
	text := urlLine.ReplaceAllString(string(b), "${1}"+s.URL)
	return networkLine.ReplaceAllString(text, fmt.Sprintf("network: [%q]", s.Host))
}

// A dialect is a vendor's form of requests and answers.
type dialect interface {
	// check returns the reason why the vendor would refuse a request, or "".
	check(r *Request) string
	key(h http.Header) string
	whole(t *Turn, r *Request) map[string]any
	events(t *Turn, r *Request) []event
	// failure returns the body of an error.
	failure(status int, kind, code, message string) map[string]any
}

// An event is an event of a stream.
type event struct {
	name string
	data any // a string is sent verbatim, anything else as JSON
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(response http.ResponseWriter, request *http.Request) {
	received := &Request{Path: request.URL.Path, Header: request.Header.Clone(), Gone: request.Context().Done()}
	if request.Method == http.MethodGet && request.URL.Path == "/v1/models" {
		s.list(response)
		return
	}
	dialect := received.dialect(request)
	if dialect == nil || request.Method != http.MethodPost {
		http.NotFound(response, request)
		return
	}
	received.Raw, _ = io.ReadAll(request.Body)
	parsed := json.Unmarshal(received.Raw, &received.Body) == nil
	if received.Format != wire.Gemini {
		received.Model, _ = received.Body["model"].(string)
		received.Stream, _ = received.Body["stream"].(bool)
	}
	ex := &exchange{w: response, ctx: request.Context(), dialect: dialect, request: received}
	s.mu.Lock()
	s.requests = append(s.requests, received)
	s.served++
	key, handler := s.key, s.handler
	response.Header().Set("Request-Id", fmt.Sprintf("req_%d", s.served))
	s.mu.Unlock()
	why := "the body is not JSON"
	if parsed {
		why = dialect.check(received)
	}
	switch {
	case key != "" && dialect.key(request.Header) != key:
		ex.fail(&Turn{Status: 401, Message: "invalid x-api-key"})
		return
	case why != "":
		s.mu.Lock()
		s.refused = append(s.refused, why)
		s.mu.Unlock()
		ex.fail(&Turn{Status: 400, Message: why})
		return
	}
	if handler != nil {
		t := handler(received)
		ex.answer(&t)
		return
	}
	if t := s.next(); t != nil {
		ex.answer(t)
		return
	}
	ex.fail(&Turn{Status: 400, Message: "modeltest: the script has no more turns"})
}

// next takes the next turn of the script, or nil.
func (s *Server) next() *Turn {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.turns) == 0 {
		return nil
	}
	t := s.turns[0]
	s.turns = s.turns[1:]
	return &t
}

// dialect returns the dialect for the path of a request, or nil.
func (r *Request) dialect(request *http.Request) dialect {
	switch request.URL.Path {
	case "/v1/messages":
		r.Format = wire.ContentBlocks
		return anthropic{}
	case "/v1/chat/completions":
		r.Format = wire.ChatCompletion
		return chat{}
	case "/v1/responses":
		r.Format = wire.Responses
		return responses{}
	}
	rest, ok := strings.CutPrefix(request.URL.Path, "/v1beta/models/")
	model, action, _ := strings.Cut(rest, ":")
	r.Format, r.Model, r.Stream = wire.Gemini, model, action == "streamGenerateContent"
	// Without alt=sse a stream is a list, which no client requests.
	if !ok || action != "generateContent" && !(r.Stream && request.URL.Query().Get("alt") == "sse") {
		return nil
	}
	return gemini{}
}

// An exchange answers one request.
type exchange struct {
	w       http.ResponseWriter
	ctx     context.Context
	dialect dialect
	request *Request
}

func (x *exchange) answer(turn *Turn) {
	if turn.Repeat > 0 {
		turn.Text = strings.Repeat(turn.Text, turn.Repeat)
	}
	if turn.Stop == "" {
		if turn.Stop = wire.StopEnd; len(turn.Calls) > 0 {
			turn.Stop = wire.StopCalls
		}
	}
	if turn.Usage == (wire.Usage{}) {
		turn.Usage = wire.Usage{Input: 10, Output: 5}
	}
	switch {
	case turn.Hang:
		<-x.ctx.Done()
	case turn.Redirect != "":
		x.w.Header().Set("Location", turn.Redirect)
		x.w.WriteHeader(http.StatusTemporaryRedirect)
	case turn.Status != 0 && !turn.Late:
		x.fail(turn)
	case turn.Body != "":
		x.w.Header().Set("Content-Type", turn.media("application/json"))
		io.WriteString(x.w, turn.Body)
	case x.request.Stream:
		x.stream(turn)
	default:
		x.whole(turn)
	}
}

func (x *exchange) fail(t *Turn) {
	if t.RetryAfter != "" {
		x.w.Header().Set("Retry-After", t.RetryAfter)
	}
	x.w.Header().Set("Content-Type", "application/json")
	x.w.WriteHeader(t.Status)
	x.w.Write(t.encode(x.dialect.failure(t.Status, t.Type, t.Code, t.Message)))
}

func (x *exchange) whole(t *Turn) {
	b := t.encode(x.dialect.whole(t, x.request))
	x.w.Header().Set("Content-Type", t.media("application/json"))
	if t.Cut > 0 {
		x.w.Header().Set("Content-Length", fmt.Sprint(len(b)))
		x.w.Write(b[:len(b)/2])
		x.w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
	x.w.Write(b)
}

func (x *exchange) stream(turn *Turn) {
	x.w.Header().Set("Content-Type", turn.media("text/event-stream; charset=utf-8"))
	all := x.dialect.events(turn, x.request)
	if turn.Late {
		name := ""
		if x.request.Format != wire.ChatCompletion && x.request.Format != wire.Gemini {
			name = "error"
		}
		all = append(all[:len(all)/2], event{name, x.dialect.failure(turn.Status, turn.Type, turn.Code, turn.Message)})
	}
	longest, most := 0, 0
	for i, e := range all[:len(all)-1] {
		if n := len(turn.encode(e.data)); n > most {
			longest, most = i, n
		}
	}
	for i := 0; i < len(all); i++ {
		if turn.Endless && i > longest {
			i = longest
		}
		event := &all[i]
		if turn.Short > 0 && i == turn.Short {
			return
		}
		if turn.Cut > 0 && i == turn.Cut {
			panic(http.ErrAbortHandler)
		}
		if turn.Drip != nil {
			select {
			case <-turn.Drip:
			case <-x.ctx.Done():
				return
			}
		}
		if event.name != "" {
			fmt.Fprintf(x.w, "event: %s\n", event.name)
		}
		data, plain := event.data.(string)
		if !plain {
			data = string(turn.encode(event.data))
			event.data = data // encode once, because an endless event is sent many times
		}
		if _, err := fmt.Fprintf(x.w, "data: %s\n\n", data); err != nil {
			return // the client has disconnected
		}
		x.w.(http.Flusher).Flush()
	}
}

// media returns the media type of the answer.
func (t *Turn) media(right string) string {
	if t.Media != "" {
		return t.Media
	}
	return right
}

// usageMark is the placeholder for RawUsage.
const usageMark = "@usage@"

// usage returns a usage in a vendor's form, or the placeholder for RawUsage.
func (t *Turn) usage(values map[string]any) any {
	switch t.RawUsage {
	case "":
		return values
	case "none":
		return nil
	}
	return usageMark
}

func (t *Turn) encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return []byte(strings.ReplaceAll(string(b), `"`+usageMark+`"`, t.RawUsage))
}

// arguments returns the arguments of a call as text.
func arguments(c *wire.ToolCall) string {
	if c.Raw != "" {
		return c.Raw
	}
	if c.Input == nil {
		return "{}"
	}
	b, err := json.Marshal(c.Input)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// pieces splits a text like a stream does, never within a character.
func pieces(s string) (all []string) {
	const size = 12
	if len(s) > 100_000 {
		return []string{s[:len(s)/2], s[len(s)/2:]}
	}
	for runes := []rune(s); len(runes) > 0; {
		n := min(size, len(runes))
		all = append(all, string(runes[:n]))
		runes = runes[n:]
	}
	return all
}
