package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec"
	"github.com/rye-build/rye/exec/agenttools"
	"github.com/rye-build/rye/exec/approval"
	"github.com/rye-build/rye/exec/consent"
	"github.com/rye-build/rye/exec/serve"
	"github.com/rye-build/rye/exec/session"
	"github.com/rye-build/rye/exec/thread/control"
	"github.com/rye-build/rye/exec/thread/toolcall"
	"github.com/rye-build/rye/manifest/jcs"
)

// controller returns where the calls of a request ask for approvals. It is closed with the request.
func (r *request) controller() (*approval.Controller, error) {
	d, l, err := approval.At(r.session, r.server.o.Now, approval.Server)
	if err != nil {
		return nil, err
	}
	r.also = append(r.also, l)
	d.NoWait = true
	return d, nil
}

// door asks about a call: the user of a client that has elicitation, else with a request, for which the server makes
// the call once it is approved. A call that was made so returns its outcome, as an *approval.KeptError.
func (r *request) door() *consent.Door {
	return &consent.Door{Approve: func(ctx context.Context, q *consent.Question) (*consent.Approval, error) {
		d, err := r.controller()
		if err != nil {
			return nil, err
		}
		d.Keeps = true
		if r.elicits {
			d.Ask = r.elicit
		}
		r.server.asks.note(r.session.Root(), r.at)
		got, err := d.Approve(ctx, q, "")
		if errors.Is(err, approval.ErrWaits) {
			err = fault.Of(err).
				Because("once it is approved, the server makes the call, and the same call again returns its result")
		}
		return got, err
	}}
}

// elicit asks the user of the client, who answers with the next round of the call.
func (r *request) elicit(_ context.Context, request *approval.Request, about *consent.Question) (approval.Answer,
	error) {
	id := "approval-" + request.ID // an answer to no question counts for nothing
	answer, ok := r.responses[id].(*mcp.ElicitResult)
	if !ok {
		r.ask = mcp.InputRequestMap{id: &mcp.ElicitParams{Mode: "form", Message: question(about),
			RequestedSchema: object{"type": "object",
				"properties": object{"approve": object{"type": "boolean", "title": "Run it", "default": false}},
				"required":   []any{"approve"}}}}
		return approval.Answer{None: true}, nil
	}
	yes, _ := answer.Content["approve"].(bool)
	return approval.Answer{Yes: answer.Action == "accept" && yes, By: request.Principal, Through: "mcp",
		None: answer.Action == "cancel"}, nil
}

// maxQuestion is how many bytes of a parameter a question shows.
const maxQuestion = 1 << 10

// question returns the text that asks a person about a call.
func question(q *consent.Question) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s needs an approval: %s", q.Ref, q.Why())
	for _, name := range slices.Sorted(maps.Keys(q.Params)) {
		text, err := jcs.Append(nil, q.Params[name])
		if err != nil {
			text = []byte(err.Error())
		}
		fmt.Fprintf(&b, "\n  %s: %s", name, fault.Clip(string(text), maxQuestion))
	}
	return b.String()
}

// elicits reports whether a client can ask its user. Over HTTP its token must have the scope for answers: a program
// that has the token could make up what its user says.
func elicits(q *mcp.CallToolRequest) bool {
	if t, _ := tokenOf(q.Extra); t != nil && !t.Has(serve.Approve) {
		return false
	}
	p := q.Session.InitializeParams()
	return p != nil && p.Capabilities != nil && p.Capabilities.Elicitation != nil
}

// kept returns the outcome of a call that was made when its request was approved.
func kept(err error) (any, error) {
	k, ok := errors.AsType[*approval.KeptError](err)
	if !ok {
		return nil, err
	}
	var o outcome
	if err := json.Unmarshal(k.Result, &o); err != nil {
		return nil, fault.New(fault.Parsing, "the outcome of the request %s can't be read: %v", k.Request.ID,
			err).From(err)
	}
	if o.Error != nil {
		e := fault.New(fault.Code(o.Error.Code), "%s", o.Error.Message)
		e.Details, _ = o.Error.Details.(object)
		return nil, e
	}
	return jcs.Parse(o.Value)
}

// An outcome is the kept result of a call.
type outcome struct {
	Value json.RawMessage `json:"value,omitempty"`
	Error *fault.Object   `json:"error,omitempty"`
}

// approver is for the calls of a thread: it stops at one that waits for an approval.
func (r *request) approver() (*toolcall.Approver, error) {
	d, err := r.controller()
	if err != nil {
		return nil, err
	}
	a, err := toolcall.NewApprover(nil, nil, nil)
	if err == nil {
		a.Use(d)
	}
	return a, err
}

// asks are the projects whose calls have asked.
type asks struct {
	mu  sync.Mutex
	all map[string]place // by root
}

func (a *asks) note(root string, at place) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.all == nil {
		a.all = map[string]place{}
	}
	a.all[root] = at
}

func (a *asks) of(root string) (place, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	at, ok := a.all[root]
	return at, ok
}

// serveApproved makes the calls whose requests are approved, until the context ends: those of the server's project,
// also those that another process asked for, and those of other projects that this one asked for.
func (s *Server) serveApproved(ctx context.Context) {
	if s.o.State == "" {
		return
	}
	l := approval.Open(s.o.State, s.o.Now, nil, nil)
	defer l.Close()
	tried := map[string]bool{}
	for ctx.Err() == nil {
		var found []*approval.Request
		err := l.Watch(ctx, approval.Filter{Open: true}, func(all []*approval.Request) (bool, error) {
			for _, q := range all {
				_, ours := s.asks.of(q.Project)
				if q.State == approval.Approved && q.Door == approval.Server && q.Kind == approval.Call && ours &&
					!tried[q.ID] {
					found = append(found, q)
				}
			}
			return len(found) > 0, nil
		})
		if err != nil {
			if ctx.Err() == nil {
				s.o.Warn(fault.Wrap(err, "approved calls aren't made: %v", err))
			}
			return
		}
		for _, q := range found {
			tried[q.ID] = true // what can't be made now is left to its caller, or expires
			at, _ := s.asks.of(q.Project)
			if err := s.makeApproved(ctx, at, q); err != nil && ctx.Err() == nil {
				s.o.Warn(fault.Wrap(err, "the approved call %s is not made: %v", q.ID, err))
			}
		}
	}
}

// makeApproved makes the call of a request that is approved, and keeps what comes of it.
func (s *Server) makeApproved(ctx context.Context, at place, asked *approval.Request) error {
	end, err := s.start(ctx)
	if err != nil {
		return err
	}
	defer end()
	held, done, err := s.take(ctx, at)
	if err != nil {
		return err
	}
	defer done()
	_, requests, err := approval.At(held, s.o.Now, approval.Server)
	if err != nil {
		return err
	}
	defer requests.Close()
	why, err := serve.Left(serve.OpenTokens(s.o.State, s.o.Now), asked.Principal, asked.Tenant, asked.Created)
	if err != nil {
		return err
	}
	if held.Set() != asked.Set {
		why = "the lock has changed"
	}
	if why != "" {
		_, err := requests.Do(ctx, asked.ID, approval.Step{To: approval.Superseded, Reason: why})
		return err
	}
	b, err := requests.Read(ctx, asked.ID, approval.Params)
	var given any
	if err == nil {
		given, err = jcs.Parse(b)
	}
	if err != nil {
		return err
	}
	me := approval.Self()
	if _, err := requests.Do(ctx, asked.ID, approval.Step{To: approval.Executing, Driver: me}); err != nil {
		if fault.CodeOf(err) == fault.Conflict { // another process was faster
			return nil
		}
		return err
	}
	params, _ := given.(object)
	value, failed := makeCall(ctx, held, asked, params)
	var o outcome
	step := approval.Step{To: approval.Done, Driver: me}
	if failed == nil {
		o.Value, failed = jcs.Append(nil, control.Values(value))
	}
	if failed != nil {
		e := fault.Of(failed).Object()
		o.Error, step.Code = &e, string(e.Code)
	}
	if step.Result, err = json.Marshal(o); err != nil {
		return err
	}
	_, err = requests.Do(context.WithoutCancel(ctx), asked.ID, step)
	return err
}

// makeCall makes an approved call, if everything about it is still as it was approved.
func makeCall(ctx context.Context, held *session.Session, asked *approval.Request, given object) (any, error) {
	ref, err := model.ParseRef(asked.Ref)
	if err != nil {
		return nil, err
	}
	text, err := jcs.Append(nil, given)
	if err != nil {
		return nil, err
	}
	approved := &consent.Approval{By: fmt.Sprintf("%s (%s)", asked.By, asked.ID), Separate: asked.By != "" &&
		asked.By != asked.Principal, For: consent.Subject{
		Ref: ref, Digest: asked.Digest, Risk: asked.Risk, Params: cas.Sum(text), Set: asked.Set,
		Principal: asked.Principal, Tenant: asked.Tenant}}
	return agenttools.Execute(ctx, held, &exec.Call{Ref: ref, Principal: asked.Principal, Tenant: asked.Tenant,
		Stranger: true, Declared: true, Approval: approved}, given, nil)
}

// finish closes the journals that a request has opened.
func (r *request) finish() {
	for _, c := range r.also {
		_ = c.Close() // what was written is durable
	}
}

type closers []io.Closer
