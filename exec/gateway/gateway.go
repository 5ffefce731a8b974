package gateway

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec"
	"github.com/rye-build/rye/exec/agenttools"
	"github.com/rye-build/rye/exec/approval"
	"github.com/rye-build/rye/exec/host"
	"github.com/rye-build/rye/exec/serve"
	"github.com/rye-build/rye/exec/session"
	"github.com/rye-build/rye/manifest/jcs"
)

// A Gateway is safe for concurrent use.
type Gateway struct {
	Host *host.Host
	Warn func(error) // receives what no answer reports

	mu      sync.Mutex
	catalog *Catalog // of the set that was asked for last
}

// An action answers a request about the tool or request for an approval of a name.
type action func(w http.ResponseWriter, r *http.Request, name string)

// Register adds the routes to a server.
func (g *Gateway) Register(s *serve.Server) {
	s.Open("GET /v1/health", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		serve.Answer(w, http.StatusOK, object{"status": "ok"})
	}))
	s.Handle("GET /v1/tools", serve.Call, g.with(func(w http.ResponseWriter, _ *http.Request, c *Catalog) {
		serve.Answer(w, http.StatusOK, c.Tools)
	}))
	s.Handle("GET /v1/tools/{name}", serve.Call, g.with(func(w http.ResponseWriter, r *http.Request, c *Catalog) {
		if t := c.byName[r.PathValue("name")]; t != nil {
			serve.Answer(w, http.StatusOK, t)
		} else {
			refuse(w, http.StatusNotFound, "tool not found", "")
		}
	}))
	s.Handle("POST /v1/reload", serve.Admin, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := g.Host.Reload(r.Context()); err != nil {
			g.fail(w, err)
			return
		}
		g.with(func(w http.ResponseWriter, _ *http.Request, c *Catalog) {
			serve.Answer(w, http.StatusOK, object{"packs": c.packs(), "interface_hash": c.Hash,
				"pack_set_version": c.Set})
		}).ServeHTTP(w, r)
	}))
	for of, actions := range map[string]map[string]action{
		"tools":     {"call": g.call},
		"approvals": {"approve": g.approve, "deny": g.deny},
	} {
		scope := serve.Call
		if of == "approvals" {
			scope = serve.Approve
		}
		s.Handle("POST /v1/"+of+"/{spelled}", scope, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			spelled := r.PathValue("spelled")
			i := strings.LastIndexByte(spelled, ':')
			do := actions[spelled[i+1:]]
			if i < 0 || do == nil {
				refuse(w, http.StatusNotFound, "there is no such route", r.URL.Path)
				return
			}
			do(w, r, spelled[:i])
		}))
		for verb, do := range actions {
			s.Handle("POST /v1/"+of+"/{name}/"+verb, scope, http.HandlerFunc(
				func(w http.ResponseWriter, r *http.Request) { do(w, r, r.PathValue("name")) }))
		}
	}
}

// refuse answers what isn't a call of a tool: RGP's ErrorResponse.
func refuse(w http.ResponseWriter, status int, text, detail string) {
	serve.Answer(w, status, object{"error": text, "detail": detail})
}

// fail answers with an error: what isn't there, or why the server can't answer.
func (g *Gateway) fail(w http.ResponseWriter, err error) {
	f, status := fault.Of(err), http.StatusServiceUnavailable
	if types[f.Code] == NotFound {
		status = http.StatusNotFound
	}
	refuse(w, status, f.Error(), string(f.Code))
}

// take returns the session of the set and its tools.
func (g *Gateway) take(ctx context.Context) (*session.Session, *Catalog, func(), error) {
	in, done, err := g.Host.Take(ctx, host.Project{})
	if err != nil {
		return nil, nil, nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if c := g.catalog; c == nil || c.of != in {
		if g.catalog, err = catalogOf(ctx, in); err != nil {
			done()
			return nil, nil, nil, err
		}
	}
	return in, g.catalog, done, nil
}

// with returns a handler that gets the tools of the set.
func (g *Gateway) with(handle func(http.ResponseWriter, *http.Request, *Catalog)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, tools, done, err := g.take(r.Context())
		if err != nil {
			g.fail(w, err)
			return
		}
		defer done()
		handle(w, r, tools)
	}
}

// maxBody is the longest body of a request.
const maxBody = 2 << 20

// An order is what a client asks for in the body of a call.
type order struct {
	args        object
	correlation string
	tenant      string
	actor       string
}

// readOrder reads the body of a call, and what its headers say of the caller.
func readOrder(w http.ResponseWriter, r *http.Request) (*order, error) {
	control := http.NewResponseController(w)
	control.SetReadDeadline(time.Now().Add(serve.BodyTime)) // only connections of tests have no deadlines
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if _, long := errors.AsType[*http.MaxBytesError](err); long {
		return nil, fault.New(fault.Limit, "the body has more than %d bytes", maxBody)
	}
	if err != nil {
		return nil, fault.New(fault.Validation, "the body has not arrived")
	}
	control.SetReadDeadline(time.Time{})
	v, err := jcs.Parse(text)
	if err != nil {
		return nil, fault.New(fault.Validation, "the body can't be read: %v", err)
	}
	body, _ := v.(object)
	args, ok := body["args"].(object)
	if !ok {
		return nil, fault.New(fault.Validation, `the body must be an object with the object "args"`)
	}
	given := object{}
	for name, value := range body {
		switch name {
		case "args":
		case "context":
			if given, ok = value.(object); !ok && value != nil {
				return nil, fault.New(fault.Validation, "context must be an object")
			}
		default:
			return nil, fault.New(fault.Validation, "unknown member %q: expected args and context",
				fault.Clip(name, 100))
		}
	}
	o := &order{args: args, correlation: r.Header.Get("X-Rig-Correlation-Id"), tenant: r.Header.Get("X-Rig-Tenant-Id"),
		actor: r.Header.Get("X-Rig-Actor-Id")}
	places := map[string]*string{"request_id": &o.correlation, "tenant_id": &o.tenant, "actor": &o.actor}
	for name, value := range given {
		text, ok := value.(string)
		place := places[name]
		switch {
		case place == nil:
			return nil, fault.New(fault.Validation, "unknown member context.%s", fault.Clip(name, 100))
		case !ok || text == "" || len(text) > 256:
			return nil, fault.New(fault.Validation, "context.%s must be a text of 1 to 256 bytes", name)
		case name != "request_id" && *place != "" && *place != text:
			return nil, fault.New(fault.Validation, "context.%s is not that of the header", name)
		}
		*place = text
	}
	return o, nil
}

// claims refuses an order that names another tenant or actor than those of its token: who calls is the token's word.
func (o *order) claims(t *serve.Token) error {
	switch {
	case o.tenant != "" && o.tenant != t.Tenant:
		return fault.New(fault.Policy, "the tenant of a call is its token's, and this token is not for %q",
			fault.Clip(o.tenant, 100))
	case o.actor != "" && o.actor != t.Name && o.actor != t.Holder():
		return fault.New(fault.Policy, "the actor of a call is its token's, and this token is not of %q",
			fault.Clip(o.actor, 100))
	}
	return nil
}

// call runs a tool.
func (g *Gateway) call(w http.ResponseWriter, r *http.Request, name string) {
	o, err := readOrder(w, r)
	if err != nil {
		status := http.StatusBadRequest
		if fault.CodeOf(err) == fault.Limit {
			status = http.StatusRequestEntityTooLarge
		}
		refuse(w, status, fault.Of(err).Error(), "")
		return
	}
	if o.correlation == "" || len(o.correlation) > 256 {
		o.correlation = approval.NewID()
	}
	w.Header().Set("X-RIG-Correlation-ID", o.correlation)
	serve.Answer(w, http.StatusOK, g.made(r.Context(), o, name))
}

// made makes a call and returns its result, whatever comes of it.
func (g *Gateway) made(ctx context.Context, o *order, name string) *Result {
	token := serve.CallerOf(ctx)
	if err := o.claims(token); err != nil {
		return failed(err, o.correlation)
	}
	end, err := g.Host.Turn(ctx)
	if err != nil {
		return failed(err, o.correlation)
	}
	defer end()
	in, tools, done, err := g.take(ctx)
	if err != nil {
		return failed(err, o.correlation)
	}
	defer done()
	t := tools.byName[name]
	if t == nil {
		return tools.in(failed(fault.New(fault.ToolNotFound, "tool not found"), o.correlation), nil)
	}
	asking := host.Asking{Host: g.Host, Session: in, Person: token.Holder()}
	defer asking.Close()
	made, err := agenttools.Execute(ctx, in, &exec.Call{Ref: t.item.Ref, Principal: serve.Principal(token),
		Tenant: token.Tenant, Stranger: true, Declared: true, Door: asking.Door()}, o.args, nil)
	value := any(made)
	if err != nil {
		value, err = host.Kept(err)
	}
	return g.result(tools, t, value, err, o.correlation)
}

// result makes the result of what agenttools.Execute has returned.
func (g *Gateway) result(tools *Catalog, t *Tool, value any, err error, correlation string) *Result {
	if err != nil {
		r := failed(err, correlation)
		if r.Error.Type == Internal {
			g.Warn(err)
		}
		return tools.in(r, t)
	}
	answer, _ := value.(object)
	if t == nil { // it has left the set since
		t = new(Tool)
	}
	return tools.in(&Result{OK: true, Output: t.output(answer["data"]), Correlation: correlation}, t)
}

func (g *Gateway) approve(w http.ResponseWriter, r *http.Request, id string) {
	token := serve.CallerOf(r.Context())
	ref, value, err := g.Host.Answer(r.Context(), id, token.Tenant, approval.Answer{Yes: true, By: token.Holder(),
		Through: through(token)})
	g.with(func(w http.ResponseWriter, _ *http.Request, tools *Catalog) {
		serve.Answer(w, http.StatusOK, g.result(tools, tools.byName[ref], value, err, approval.NewID()))
	}).ServeHTTP(w, r)
}

// through says how a person has answered.
func through(t *serve.Token) string { return "the gateway, with the token " + t.Name }

func (g *Gateway) deny(w http.ResponseWriter, r *http.Request, id string) {
	token := serve.CallerOf(r.Context())
	_, _, err := g.Host.Answer(r.Context(), id, token.Tenant, approval.Answer{By: token.Holder(),
		Through: through(token)})
	if err != nil {
		g.fail(w, err)
		return
	}
	serve.Answer(w, http.StatusOK, object{"denied": true, "token": id})
}
