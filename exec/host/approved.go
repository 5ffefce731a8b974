package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

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
	"github.com/rye-build/rye/manifest/jcs"
)

type object = map[string]any

// An Asking is how the calls of one caller's request ask for approvals.
type Asking struct {
	Host    *Host
	Session *session.Session
	Of      Project // as it was taken
	Person  string  // who acts as the caller; "": the caller's name is a person's
	// Ask asks the caller's person at once. Optional.
	Ask func(context.Context, *approval.Request, *consent.Question) (approval.Answer, error)

	opened []io.Closer
}

// Controller returns where a call asks. It doesn't wait for the answer. It is closed with the Asking.
func (a *Asking) Controller() (*approval.Controller, error) {
	d, l, err := approval.At(a.Session, a.Host.o.Now, approval.Server)
	if err != nil {
		return nil, err
	}
	a.opened = append(a.opened, l)
	d.NoWait, d.Person = true, a.Person
	return d, nil
}

// Door asks about a call that the host makes once it is approved. A call that was made so returns its outcome, as an
// *approval.KeptError, which Kept reads.
func (a *Asking) Door() *consent.Door {
	return &consent.Door{Approve: func(ctx context.Context, q *consent.Question) (*consent.Approval, error) {
		d, err := a.Controller()
		if err != nil {
			return nil, err
		}
		d.Keeps, d.Ask = true, a.Ask
		a.Host.asks.note(a.Session.Root(), a.Of)
		got, err := d.Approve(ctx, q, "")
		if errors.Is(err, approval.ErrWaits) {
			err = fault.Of(err).
				Because("once it is approved, the server makes the call, and the same call again returns its result")
		}
		return got, err
	}}
}

// Close closes what was opened to ask.
func (a *Asking) Close() {
	for _, c := range a.opened {
		_ = c.Close() // what was written is durable
	}
}

// Kept returns the outcome of a call that was made when its request was approved; any other error stays.
func Kept(err error) (any, error) {
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

// asks are the projects whose calls have asked.
type asks struct {
	mu  sync.Mutex
	all map[string]Project // by root
}

func (a *asks) note(root string, of Project) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.all == nil {
		a.all = map[string]Project{}
	}
	a.all[root] = of
}

func (a *asks) of(root string) (Project, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	of, ok := a.all[root]
	return of, ok
}

// startApproved starts the goroutine that runs approved calls.
func (h *Host) startApproved() {
	ctx, end := context.WithCancel(context.Background())
	h.end = end
	h.ended.Go(func() { h.serveApproved(ctx) })
}

// serveApproved makes the calls whose requests are approved, until the context ends: those of the server's project,
// also those that another process asked for, and those of other projects that this one asked for.
func (h *Host) serveApproved(ctx context.Context) {
	if h.o.State == "" {
		return
	}
	l := approval.Open(h.o.State, h.o.Now, nil, nil)
	defer l.Close()
	tried := map[string]bool{}
	for ctx.Err() == nil {
		var found []*approval.Request
		err := l.Watch(ctx, approval.Filter{Open: true}, func(all []*approval.Request) (bool, error) {
			for _, q := range all {
				_, ours := h.asks.of(q.Project)
				if q.State == approval.Approved && q.Door == approval.Server && q.Kind == approval.Call && ours &&
					!tried[q.ID] {
					found = append(found, q)
				}
			}
			return len(found) > 0, nil
		})
		if err != nil {
			if ctx.Err() == nil {
				h.o.Warn(fault.Wrap(err, "approved calls aren't made: %v", err))
			}
			return
		}
		for _, q := range found {
			tried[q.ID] = true // what can't be made now is left to its caller, or expires
			of, _ := h.asks.of(q.Project)
			if err := h.makeApproved(ctx, of, q); err != nil && ctx.Err() == nil {
				h.o.Warn(fault.Wrap(err, "the approved call %s is not made: %v", q.ID, err))
			}
		}
	}
}

// makeApproved makes the call of a request that is approved, and keeps what comes of it.
func (h *Host) makeApproved(ctx context.Context, of Project, asked *approval.Request) error {
	end, err := h.Turn(ctx)
	if err != nil {
		return err
	}
	defer end()
	held, done, err := h.Take(ctx, of)
	if err != nil {
		return err
	}
	defer done()
	_, requests, err := approval.At(held, h.o.Now, approval.Server)
	if err != nil {
		return err
	}
	defer requests.Close()
	why, err := serve.Left(serve.OpenTokens(h.o.State, h.o.Now), asked.Principal, asked.Tenant, asked.Created)
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
	approved := &consent.Approval{By: fmt.Sprintf("%s (%s)", asked.By, asked.ID), Separate: asked.Separated(),
		For: consent.Subject{
			Ref: ref, Digest: asked.Digest, Risk: asked.Risk, Params: cas.Sum(text), Set: asked.Set,
			Principal: asked.Principal, Tenant: asked.Tenant}}
	return agenttools.Execute(ctx, held, &exec.Call{Ref: ref, Principal: asked.Principal, Tenant: asked.Tenant,
		Stranger: true, Declared: true, Approval: approved}, given, nil)
}

// Answer records a person's answer to a request for a call of the own project, and of the person's tenant. Once the
// call is approved the host makes it, and Answer returns its ref and what Kept returns for it.
func (h *Host) Answer(ctx context.Context, id, tenant string, answer approval.Answer) (ref string, outcome any,
	err error) {
	held, done, err := h.Take(ctx, Project{})
	if err != nil {
		return "", nil, err
	}
	root := held.Root()
	_, requests, err := approval.At(held, h.o.Now, approval.Server)
	done() // the call takes the session that is in force then
	if err != nil {
		return ref, nil, err
	}
	defer requests.Close()
	find := approval.Filter{ID: id, Project: root}
	found, err := approval.List(ctx, requests, find)
	unknown := fault.New(fault.NotFound, "approval token not found") // or answered: it says no more to a stranger
	if err == nil && (len(found) != 1 || found[0].Tenant != tenant || found[0].Kind != approval.Call ||
		found[0].Door != approval.Server || found[0].State != approval.Pending) {
		err = unknown
	}
	if err != nil {
		return ref, nil, err
	}
	ref = found[0].Ref
	step := approval.Step{To: approval.Denied, By: answer.By, Through: answer.Through}
	if answer.Yes {
		step.To = approval.Approved
	}
	request, err := requests.Do(ctx, id, step)
	if code := fault.CodeOf(err); code == fault.Conflict || code == fault.Expired { // another answer was faster
		err = unknown
	}
	if err != nil || !answer.Yes {
		return ref, nil, err
	}
	err = requests.Watch(ctx, find, func(all []*approval.Request) (bool, error) {
		if len(all) == 1 {
			request = all[0]
		}
		return request.State.Ended(), nil
	})
	if err != nil {
		return ref, nil, err
	}
	if request.State != approval.Done {
		return ref, nil, request.Refused()
	}
	result, err := requests.Read(ctx, id, approval.Result)
	if err != nil {
		return ref, nil, err
	}
	outcome, err = Kept(&approval.KeptError{Request: request, Result: result})
	return ref, outcome, err
}

// Reload opens the lock as it is now, if it was replaced; one that can't be opened is an error, and the set stays.
func (h *Host) Reload(ctx context.Context) error { return h.sets.reload(ctx) }
