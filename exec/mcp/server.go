package mcp

import (
	"context"
	"encoding/json"
	"io"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/exec/template/params"
	"github.com/rye-build/rye/exec/thread/results"
	"github.com/rye-build/rye/manifest/jcs"
	"github.com/rye-build/rye/manifest/policy/glob"
)

// Options say what a server serves.
type Options struct {
	Open    Open
	Tools   []glob.Glob // that are offered under names of their own too
	Project string      // the directory of the project; "" outside of any
	State   string      // the directory of what is kept of threads
	Version string      // of this program
	Now     func() time.Time
	Warn    func(error) // gets what no answer says, such as a lock that can't be opened
}

// A Server serves one project. It is safe for many goroutines.
type Server struct {
	o      Options
	sets   sets
	sdk    *mcp.Server
	own    []string // names of tools
	listed listed
	calls  atomic.Int64
}

// Calls is how many calls of tools were made.
func (s *Server) Calls() int64 { return s.calls.Load() }

// New returns a server. Nothing is opened before it runs.
func New(o Options) *Server {
	s := &Server{o: o, sets: sets{open: o.Open, warn: o.Warn}}
	s.sets.changed = s.list
	s.sdk = mcp.NewServer(&mcp.Implementation{Name: "rye", Version: o.Version}, &mcp.ServerOptions{
		Instructions: instructions, Capabilities: &mcp.ServerCapabilities{
			// Another lock may bring the first of a kind.
			Tools: &mcp.ToolCapabilities{ListChanged: true}, Prompts: &mcp.PromptCapabilities{ListChanged: true}, Resources: &mcp.ResourceCapabilities{ListChanged: true}},
	})
	for _, t := range tools() {
		schema, err := params.Compile(t.input)
		if err != nil {
			panic(err) // a test makes a server
		}
		s.own = append(s.own, t.name)
		s.add(&mcp.Tool{Name: t.name, Title: t.title, Description: t.description, InputSchema: t.input, OutputSchema: t.output,
			Annotations: &mcp.ToolAnnotations{ReadOnlyHint: t.reads, DestructiveHint: &t.destroys, OpenWorldHint: &t.destroys}}, schema, t.do)
	}
	return s
}

// add adds a tool, whose arguments have to fit a schema before it is called.
func (s *Server) add(t *mcp.Tool, schema *params.Schema, do func(context.Context, *request) (any, error)) {
	s.sdk.AddTool(t, func(ctx context.Context, q *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return answer(s.call(ctx, do, schema, q)), nil
	})
}

const instructions = "rye runs what this project has pinned. Find items with search, read them with load, run them with execute."

// Run serves one client until it ends the connection or ctx ends. A project that can't be opened is an error at once.
func (s *Server) Run(ctx context.Context, t mcp.Transport) error {
	_, done, err := s.sets.take(ctx)
	if err != nil {
		return err
	}
	done()
	defer s.sets.close()
	c, err := s.sdk.Connect(ctx, t, nil)
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	if err := c.Wait(); err != nil && err != io.EOF && ctx.Err() == nil {
		return fault.New(fault.Unavailable, "the client can't be reached any more: %v", err).From(err)
	}
	return nil
}

// call makes a call of one of the tools.
func (s *Server) call(ctx context.Context, do func(context.Context, *request) (any, error), schema *params.Schema, q *mcp.CallToolRequest) (any, error) {
	s.calls.Add(1)
	given, err := arguments(q.Params.Arguments)
	if err != nil {
		return nil, err
	}
	if given, err = schema.Complete(given); err != nil {
		return nil, err
	}
	if err := s.inside(text(given, "project_path")); err != nil {
		return nil, err
	}
	held, done, err := s.sets.take(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	return do(ctx, &request{server: s, session: held, given: given, progress: progressOf(q)})
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
		return nil, fault.New(fault.Validation, "the arguments are no object")
	}
	return m, nil
}

// inside refuses a path outside of the project that the server serves.
func (s *Server) inside(path string) error {
	if path == "" {
		return nil
	}
	rel, err := filepath.Rel(osfile.Unlinked(s.o.Project), osfile.Unlinked(filepath.Clean(path)))
	if s.o.Project == "" || !filepath.IsAbs(path) || err != nil || rel == ".." || strings.HasPrefix(rel, ".."+string(filepath.Separator)) {
		return fault.New(fault.Validation, "project_path is %q, and this server serves %q", path, s.o.Project).
			Try("rye mcp serve -C " + fault.Quote(path))
	}
	return nil
}

// answer makes the result of a call of what came of it.
func answer(value any, err error) *mcp.CallToolResult {
	r := &mcp.CallToolResult{StructuredContent: value}
	if err != nil {
		r.IsError = true
		r.StructuredContent = map[string]any{"error": fault.Of(err).Object()}
	}
	b, err := jcs.Append(nil, results.Values(r.StructuredContent))
	if err != nil {
		return answer(nil, fault.New(fault.Failed, "the answer can't be written: %v", err).From(err))
	}
	r.StructuredContent = json.RawMessage(b)
	r.Content = []mcp.Content{&mcp.TextContent{Text: string(b)}}
	return r
}

func text(given map[string]any, name string) string {
	s, _ := given[name].(string)
	return s
}
