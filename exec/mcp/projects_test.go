package mcp_test

//lint:file-ignore SA1019 revisions before 2026-07-28 have roots

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/host"
	"github.com/rye-build/rye/exec/mcp"
	"github.com/rye-build/rye/exec/session"
)

// stdio serves by lines, and connects a client with roots that speaks up to a revision.
func (s *served) stdio(o mcp.Options, revision string, roots ...string) *sdk.ClientSession {
	s.t.Helper()
	o.State, o.Now, o.Warn = filepath.Join(s.p.Home, "state"), time.Now, s.warn
	fromClient, toServer := io.Pipe()
	fromServer, toClient := io.Pipe()
	ended := make(chan error, 1)
	s.server = mcp.New(o)
	go func(server *mcp.Server) {
		ended <- server.Run(s.t.Context(), mcp.Lines(fromClient, toClient))
		toClient.Close()
	}(s.server)
	options := &sdk.ClientOptions{}
	if roots == nil {
		options.Capabilities = &sdk.ClientCapabilities{}
	}
	client := sdk.NewClient(&sdk.Implementation{Name: "roots", Version: "1"}, options)
	for _, root := range roots {
		client.AddRoots(&sdk.Root{URI: root})
	}
	c, err := client.Connect(s.t.Context(), &sdk.IOTransport{Reader: fromServer, Writer: toServer},
		&sdk.ClientSessionOptions{ProtocolVersion: revision})
	s.must(err)
	s.t.Cleanup(func() {
		c.Close()
		if err := <-ended; err != nil {
			s.t.Error(err)
		}
	})
	return c
}

// said is the code of a failed call, else the digest of what was loaded.
func (s *served) said(c *sdk.ClientSession, given object) string {
	s.t.Helper()
	r, err := c.CallTool(s.t.Context(), &sdk.CallToolParams{Name: "load", Arguments: given})
	s.must(err)
	answer, _ := r.StructuredContent.(object)
	if e, ok := answer["error"].(object); ok && r.IsError {
		return fmt.Sprint(e["code"])
	}
	text, _ := answer["text"].(string)
	for line := range strings.SplitSeq(text, "\n") {
		if v, ok := strings.CutPrefix(line, `# version: "`); ok {
			return strings.TrimSuffix(v, `"`)
		}
	}
	return text
}

// TestRoots: a call is about the server's project, or that of a root of a client that the user started.
func TestRoots(t *testing.T) {
	s := serving(t)
	other := filepath.Join(s.p.Home, "other")
	s.must(os.CopyFS(other, os.DirFS(s.p.Dir)))
	s.edit("2.0.0")
	s.lock()
	uri := func(dir string) string { return "file://" + filepath.ToSlash(dir) }
	var opened atomic.Int64
	at := func(dir string) (host.Project, error) {
		if !strings.HasPrefix(dir, other) {
			return host.Project{}, fault.New(fault.NotFound, "no project in %q", dir)
		}
		return host.Project{Root: other, Open: func(ctx context.Context) (*session.Session, func() error, error) {
			opened.Add(1)
			return s.openDir(ctx, other)
		}}, nil
	}
	greets := item("tool", "acme/greet")
	in := func(path string) object { return item("tool", "acme/greet", "project_path", path) }
	own, none := mcp.Options{Open: s.open, Project: s.p.Dir, At: at}, mcp.Options{Open: s.open, At: at}
	deaf := own
	deaf.At = nil
	for _, revision := range []string{"2025-06-18", "2026-07-28"} {
		for _, c := range []struct {
			what  string
			o     mcp.Options
			roots []string
			given object
			want  string
		}{
			{"own", own, []string{uri(other)}, greets, "2.0.0"},
			{"own, named", own, nil, in(s.p.At(".ai")), "2.0.0"},
			{"a root", own, []string{uri(s.p.Dir), uri(other)}, in(other), "1.0.0"},
			{"below a root", own, []string{uri(other)}, in(filepath.Join(other, ".ai", "tools")), "1.0.0"},
			{"not a root", own, []string{uri(other)}, in(s.p.Home), "VALIDATION_FAILED"},
			{"beside a root", own, []string{uri(other)}, in(other + "2"), "VALIDATION_FAILED"},
			{"out of a root", own, []string{uri(other)}, in(other + "/../../x"), "VALIDATION_FAILED"},
			{"relative", own, []string{uri(other)}, in("."), "VALIDATION_FAILED"},
			{"no roots", own, nil, in(other), "VALIDATION_FAILED"},
			{"roots don't count", deaf, []string{uri(other)}, in(other), "VALIDATION_FAILED"},
			{"the only root", none, []string{uri(other)}, greets, "1.0.0"},
			{"two roots", none, []string{uri(other), uri(s.p.Dir)}, greets, "VALIDATION_FAILED"},
			{"one of two", none, []string{uri(other), uri(s.p.Dir)}, in(other), "1.0.0"},
			{"no project and no root", none, nil, greets, "VALIDATION_FAILED"},
			{"an empty list", none, []string{}, greets, "VALIDATION_FAILED"},
			{"another scheme", none, []string{"https://example.com/" + other}, greets, "VALIDATION_FAILED"},
			{"another machine", none, []string{"file://example.com" + other}, greets, "VALIDATION_FAILED"},
			{"no project there", none, []string{uri(s.p.Home)}, greets, "ITEM_NOT_FOUND"},
		} {
			session := s.stdio(c.o, revision, c.roots...)
			if got := s.said(session, c.given); got != c.want {
				t.Errorf("%s, %s: %s, want %s", revision, c.what, got, c.want)
			}
		}
	}
	opened.Store(0)
	c := s.stdio(none, "2025-06-18", uri(other))
	for range 3 {
		s.said(c, greets)
	}
	if opened.Load() != 1 {
		t.Error("a project is opened ", opened.Load(), " times")
	}
	s.must(os.CopyFS(filepath.Join(other, ".ai", "tools", "acme", "x"), os.DirFS(s.p.At(".ai/tools/acme/providers"))))
	if got := s.said(c, in(filepath.Join(other, ".ai"))); got != "1.0.0" {
		t.Error(got)
	}
}

// TestRootsOverHTTP: a client over HTTP isn't the user, and can't name directories.
func TestRootsOverHTTP(t *testing.T) {
	s := serving(t)
	s.server = mcp.New(mcp.Options{Open: s.open, Project: s.p.Dir, State: filepath.Join(s.p.Home, "state"),
		Now: time.Now, Warn: s.warn,
		At: func(string) (host.Project, error) { return host.Project{}, errors.New("a root is looked for") }})
	l := s.listen()
	client := sdk.NewClient(&sdk.Implementation{Name: "http", Version: "1"}, nil)
	client.AddRoots(&sdk.Root{URI: "file://" + s.p.Home})
	for _, revision := range []string{"2025-11-25", "2026-07-28"} {
		c, err := client.Connect(t.Context(), l.transport(l.secret(revision)),
			&sdk.ClientSessionOptions{ProtocolVersion: revision})
		s.must(err)
		if got := s.said(c, item("tool", "acme/greet", "project_path", s.p.Home)); got != "VALIDATION_FAILED" {
			t.Error(got)
		}
		c.Close()
	}
}

// TestManyProjects: the project that was used longest ago makes room, and none that a call has.
func TestManyProjects(t *testing.T) {
	s := serving(t)
	var closed atomic.Int64
	opened := make(chan bool, 18)
	o := mcp.Options{At: func(dir string) (host.Project, error) {
		return host.Project{Root: dir, Open: func(ctx context.Context) (*session.Session, func() error, error) {
			defer func() { opened <- true }()
			made, done, err := s.open(ctx)
			return made, func() error { closed.Add(1); return done() }, err
		}}, nil
	}}
	c := s.stdio(o, "2025-06-18", "file://"+filepath.ToSlash(s.p.Home))
	in := func(i int) object {
		return item("tool", "acme/greet", "project_path", filepath.Join(s.p.Home, fmt.Sprint(i)))
	}
	for i := range 10 {
		if got := s.said(c, in(i)); got != "1.0.0" {
			t.Error(got)
		}
	}
	if closed.Load() != 2 {
		t.Error(closed.Load(), " are closed")
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan bool)
	for i := range 8 {
		go func() {
			given := in(20 + i)
			given["parameters"] = object{"name": "spin"}
			c.CallTool(ctx, &sdk.CallToolParams{Name: "execute", Arguments: given})
			ended <- true
		}()
	}
	for range 18 { // each has its project, not only its turn
		<-opened
	}
	s.running(8)
	if got := s.said(c, in(0)); got != "BUSY" {
		t.Error(got)
	}
	cancel()
	for range 8 {
		<-ended
	}
	for s.said(c, in(0)) == "BUSY" {
	}
}

// TestSign: an item is signed where the server was started so, and else not.
func TestSign(t *testing.T) {
	s := serving(t)
	var signed []string
	o := mcp.Options{Open: s.open, Project: s.p.Dir,
		Sign: func(_ context.Context, project string, ref model.Ref) (any, error) {
			if ref.ID == "acme/no" {
				return nil, fault.New(fault.Policy, "no")
			}
			signed = append(signed, project+" "+ref.String())
			return object{"ref": ref.String()}, nil
		}}
	c := s.stdio(o, "")
	for id, want := range map[string]string{"acme/greet": `"ref":"tool:acme/greet"`, "acme/no": `"POLICY_DENIED"`,
		"": `"VALIDATION_FAILED"`} {
		r, err := c.CallTool(t.Context(), &sdk.CallToolParams{Name: "sign", Arguments: item("tool", id)})
		s.must(err)
		if text := r.Content[0].(*sdk.TextContent).Text; !strings.Contains(text, want) {
			t.Error(text)
		}
	}
	if fmt.Sprint(signed) != "["+s.p.Dir+" tool:acme/greet]" {
		t.Error(signed)
	}
	all, err := c.ListTools(t.Context(), nil)
	s.must(err)
	for _, tool := range all.Tools {
		if strings.Contains(tool.Description, "Refused") {
			t.Error(tool.Description)
		}
	}
}
