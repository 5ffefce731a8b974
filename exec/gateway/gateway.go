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
	s.Handle("GET /v1/tools", serve.Call, http.HandlerFunc(g.list))
	s.Handle("GET /v1/tools/{name}", serve.Call, http.HandlerFunc(g.tool))
	s.Handle("POST /v1/reload", serve.Admin, http.HandlerFunc(g.reload))
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

// fail answers with an error of the server.
func (g *Gateway) fail(w http.ResponseWriter, err error) {
	f := fault.Of(err)
	if kind := types[f.Code]; kind == "" || kind == Internal {
		g.Warn(err)
	}
	refuse(w, http.StatusServiceUnavailable, f.Error(), string(f.Code))
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

func (g *Gateway) list(w http.ResponseWriter, r *http.Request) {
	_, tools, done, err := g.take(r.Context())
	if err != nil {
		g.fail(w, err)
		return
	}
	defer done()
	serve.Answer(w, http.StatusOK, tools.Tools)
}

func (g *Gateway) tool(w http.ResponseWriter, r *http.Request) {
	_, tools, done, err := g.take(r.Context())
	if err != nil {
		g.fail(w, err)
		return
	}
	defer done()
	t := tools.byName[r.PathValue("name")]
	if t == nil {
		refuse(w, http.StatusNotFound, "tool not found", "")
		return
	}
	serve.Answer(w, http.StatusOK, t)
}

func (g *Gateway) reload(w http.ResponseWriter, r *http.Request) {
	if err := g.Host.Reload(r.Context()); err != nil {
		g.fail(w, err)
		return
	}
	_, tools, done, err := g.take(r.Context())
	if err != nil {
		g.fail(w, err)
		return
	}
	defer done()
	serve.Answer(w, http.StatusOK, object{"packs": tools.packs(), "interface_hash": tools.Hash,
		"pack_set_version": tools.Set})
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
	for name, value := range given {
		text, ok := value.(string)
		if !ok || text == "" || len(text) > 256 {
			return nil, fault.New(fault.Validation, "context.%s must be a text of 1 to 256 bytes",
				fault.Clip(name, 100))
		}
		switch name {
		case "request_id":
			o.correlation = text
		case "tenant_id":
			if o.tenant == "" || o.tenant == text {
				o.tenant = text
			} else {
				return nil, fault.New(fault.Validation, "header and context name two tenants")
			}
		case "actor":
			if o.actor == "" || o.actor == text {
				o.actor = text
			} else {
				return nil, fault.New(fault.Validation, "header and context name two actors")
			}
		default:
			return nil, fault.New(fault.Validation, "unknown member context.%s", fault.Clip(name, 100))
		}
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
	return tools.in(&Result{OK: true, Output: t.output(answer["data"]), Correlation: correlation}, t)
}

func (g *Gateway) approve(w http.ResponseWriter, r *http.Request, id string) {
	token, correlation := serve.CallerOf(r.Context()), approval.NewID()
	ref, value, err := g.Host.Answer(r.Context(), id, token.Tenant, approval.Answer{Yes: true,
		By: token.Holder(), Through: through(token)})
	_, tools, done, failure := g.take(r.Context())
	if failure != nil {
		g.fail(w, failure)
		return
	}
	defer done()
	t := tools.byName[ref]
	if t == nil && err == nil {
		t = new(Tool)
	}
	serve.Answer(w, http.StatusOK, g.result(tools, t, value, err, correlation))
}

// through says how a person has answered.
func through(t *serve.Token) string { return "the gateway, with the token " + t.Name }

func (g *Gateway) deny(w http.ResponseWriter, r *http.Request, id string) {
	token := serve.CallerOf(r.Context())
	_, _, err := g.Host.Answer(r.Context(), id, token.Tenant, approval.Answer{By: token.Holder(),
		Through: through(token)})
	switch {
	case err == nil:
		serve.Answer(w, http.StatusOK, object{"denied": true, "token": id})
	case types[fault.CodeOf(err)] == NotFound:
		refuse(w, http.StatusNotFound, fault.Of(err).Error(), "")
	default:
		g.fail(w, err)
	}
}
