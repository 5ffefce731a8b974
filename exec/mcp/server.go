package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/bundle/skill/offer"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/agenttools"
	"github.com/rye-build/rye/exec/approval"
	"github.com/rye-build/rye/exec/host"
	"github.com/rye-build/rye/exec/template/params"
	"github.com/rye-build/rye/exec/thread/control"
	"github.com/rye-build/rye/manifest/jcs"
	"github.com/rye-build/rye/manifest/policy/glob"
)

// Options configure a server.
type Options struct {
	Open    host.Open
	Tools   []glob.Glob // that are offered under names of their own too
	Project string      // the directory of the project; "" for the roots of clients only
	// At finds the project that a directory of a client's roots lies in; nil: roots don't count.
	At func(dir string) (host.Project, error)
	// Sign signs an item of a project with the user's key; nil: it is refused.
	Sign    func(ctx context.Context, project string, ref model.Ref) (any, error)
	State   string // the user's state directory, which has the threads
	Version string // of this program
	Now     func() time.Time
	Warn    func(error) // receives errors that no answer reports, such as a lock that can't be opened

	Grace time.Duration // for calls that run when the context of Run ends; 0: ten seconds

	Idle time.Duration // after which a session over HTTP ends; 0: 30 minutes
}

// A Server serves one project. It is safe for concurrent use.
type Server struct {
	o       Options
	host    *host.Host
	ends    context.Context    // of every request
	cancel  context.CancelFunc // of ends
	sdk     *mcp.Server
	own     []string // names of tools
	listed  listed
	calls   atomic.Int64
	clients clients
}

// grace is how long calls that run may take when the server is asked to end.
const grace = 10 * time.Second

// Calls is how many calls of tools were made.
func (s *Server) Calls() int64 { return s.calls.Load() }

// Host returns what the server makes its calls through. Other doors of the same server share it.
func (s *Server) Host() *host.Host { return s.host }

// New returns a server. Nothing is opened before it runs.
func New(o Options) *Server { return build(o, func(*mcp.ServerOptions) {}) }

func build(given Options, edit func(*mcp.ServerOptions)) *Server {
	server := &Server{o: given}
	server.ends, server.cancel = context.WithCancel(context.Background())
	hosts := host.Options{Open: given.Open, State: given.State, Now: given.Now, Warn: given.Warn, Changed: server.list}
	if given.Project == "" && given.At != nil {
		hosts.Open = nil
	}
	server.host = host.New(hosts)
	options := &mcp.ServerOptions{Instructions: instructions, Capabilities: &mcp.ServerCapabilities{
		// Another lock may bring the first of a kind.
		Tools: &mcp.ToolCapabilities{ListChanged: true}, Prompts: &mcp.PromptCapabilities{ListChanged: true},
		Resources: &mcp.ResourceCapabilities{ListChanged: true}}}
	options.Capabilities.AddExtension(offer.Extension, map[string]any{"directoryRead": true})
	edit(options)
	server.sdk = mcp.NewServer(&mcp.Implementation{Name: "rye", Version: given.Version}, options)
	server.sdk.AddReceivingMiddleware(roomy, server.ending, server.clients.admit)
	server.addSkills()
	for _, tool := range tools(given.Sign != nil) {
		schema, err := params.Compile(tool.input)
		if err != nil {
			panic(err) // a test makes a server
		}
		server.own = append(server.own, tool.name)
		server.add(&mcp.Tool{Name: tool.name, Title: tool.title, Description: tool.description,
			InputSchema:  tool.input,
			OutputSchema: tool.output,
			Annotations: &mcp.ToolAnnotations{ReadOnlyHint: tool.reads, DestructiveHint: &tool.destroys,
				OpenWorldHint: &tool.destroys}}, schema, true,
			func(ctx context.Context, r *request) (any, error) {
				return tool.do(ctx, r, agenttools.ReadArguments(r.given))
			})
	}
	return server
}

// add adds a tool, whose arguments have to fit a schema before it is called. One that is placed has the argument
// project_path.
func (s *Server) add(t *mcp.Tool, schema *params.Schema, placed bool,
	do func(context.Context, *request) (any, error)) {
	s.sdk.AddTool(t, func(ctx context.Context, message *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		given, err := arguments(message.Params.Arguments)
		if err == nil {
			given, err = schema.Complete(given)
		}
		path := ""
		if placed {
			path = text(given, "project_path")
		}
		var at host.Project
		if err == nil {
			var ask mcp.InputRequestMap
			if at, ask, err = s.place(path, message); ask != nil {
				return &mcp.CallToolResult{InputRequests: ask}, nil
			}
		}
		s.calls.Add(1)
		if err != nil {
			return answer(nil, err), nil
		}
		value, ask, err := s.call(ctx, at, given, do, message)
		if ask != nil {
			return &mcp.CallToolResult{InputRequests: ask}, nil
		}
		return answer(value, err), nil
	})
}

const instructions = "rye runs what this project has pinned. Find items with search, read them with load, run them " +
	"with execute."

// Run serves one client until it ends the connection or ctx ends. A project that can't be opened is an error at once.
func (s *Server) Run(ctx context.Context, t mcp.Transport) error {
	if err := s.Open(ctx); err != nil {
		return err
	}
	defer s.Close()
	c, err := s.sdk.Connect(ctx, t, nil)
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() {
		end := time.AfterFunc(cmp.Or(s.o.Grace, grace), s.cancel)
		defer end.Stop()
		c.Close() // waits for the calls
	})
	defer stop()
	if err := c.Wait(); err != nil && err != io.EOF && ctx.Err() == nil {
		return fault.New(fault.Unavailable, "the client can't be reached any more: %v", err).From(err)
	}
	return nil
}

// Open opens the project, so that an invalid one is an error before a client asks.
func (s *Server) Open(ctx context.Context) error { return s.host.Open(ctx) }

// Ready returns why the server can't answer; nil if it can.
func (s *Server) Ready() error { return s.host.Ready() }

// ending ends requests with the server: also one that waits for an answer of its client's user, where the SDK waits
// outside of all handlers.
func (s *Server) ending(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, q mcp.Request) (mcp.Result, error) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(s.ends, cancel)()
		return next(ctx, method, q)
	}
}

// Close ends all calls and sessions, and closes the projects once no call uses them.
func (s *Server) Close() {
	s.cancel()
	for c := range s.sdk.Sessions() {
		c.Close()
	}
	s.host.Close()
}

// call makes a call of one of the tools.
func (s *Server) call(ctx context.Context, at host.Project, given map[string]any,
	do func(context.Context, *request) (any, error), message *mcp.CallToolRequest) (value any, ask mcp.InputRequestMap,
	err error) {
	caller, ctx, cancel := callerOf(ctx, message)
	defer cancel()
	end, err := s.host.Turn(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer end()
	held, done, err := s.host.Take(ctx, at)
	if err != nil {
		return nil, nil, err
	}
	defer done()
	r := &request{server: s, session: held, project: cmp.Or(at.Root, s.o.Project), given: given, caller: caller,
		progress: progressOf(message), responses: message.Params.InputResponses,
		asking: host.Asking{Host: s.host, Session: held, Of: at, Person: caller.person}}
	defer r.asking.Close()
	if elicits(message) {
		r.asking.Ask = r.elicit
	}
	value, err = do(ctx, r)
	if errors.Is(err, approval.ErrWaits) {
		ask = r.ask
	}
	return value, ask, err
}

// arguments reads the arguments of a call.
func arguments(b json.RawMessage) (map[string]any, error) {
	if len(b) == 0 || string(b) == "null" {
		return map[string]any{}, nil
	}
	v, err := jcs.Parse(b)
	if err != nil {
		return nil, fault.New(fault.Validation, "the arguments can't be read: %v", err).From(err)
	}
	m, ok := v.(map[string]any)
	if !ok {
		return nil, fault.New(fault.Validation, "arguments must be an object")
	}
	return m, nil
}

// answer makes the protocol's result of a value or an error.
func answer(value any, err error) *mcp.CallToolResult {
	result := &mcp.CallToolResult{StructuredContent: value}
	if err != nil {
		result.IsError = true
		result.StructuredContent = map[string]any{"error": fault.Of(err).Object()}
	}
	b, err := jcs.Append(nil, control.Values(result.StructuredContent))
	if err != nil {
		return answer(nil, fault.New(fault.Failed, "the answer can't be written: %v", err).From(err))
	}
	result.StructuredContent = json.RawMessage(b)
	result.Content = []mcp.Content{&mcp.TextContent{Text: string(b)}}
	return result
}

func text(given map[string]any, name string) string {
	s, _ := given[name].(string)
	return s
}

// roomy gives the goroutine that the SDK starts for a request the stack that a call needs, at once: else it is copied
// each time that it doubles, with more and more on it, which is a tenth of what a call costs.
func roomy(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, q mcp.Request) (mcp.Result, error) {
		grow(len(method))
		return next(ctx, method, q)
	}
}

// grow uses as much stack as a call does, in a way that the compiler can't see through.
//
//go:noinline
func grow(i int) byte {
	var frame [20 << 10]byte
	frame[i%len(frame)] = 1
	return frame[len(frame)/2]
}
