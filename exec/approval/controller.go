package approval

import (
	"context"
	"fmt"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/audit/record"
	"github.com/rye-build/rye/exec/audit/redact"
	"github.com/rye-build/rye/exec/consent"
	"github.com/rye-build/rye/exec/session"
	"github.com/rye-build/rye/manifest/jcs"
)

// A Controller makes the requests of one caller and waits for their answers.
type Controller struct {
	Approvals Approvals
	Project   string // its root
	Set       cas.Digest
	Person    string // who acts as the principal of the calls; "": the principal's name is a person's
	Door      string
	Now       func() time.Time
	Thread    string // the calling thread, or ""
	NoWait    bool   // return ErrWaits instead of waiting; the same call later finds its request again
	// Waits is called before waiting for an answer to a request, and with nil afterwards. Optional.
	Waits func(context.Context, *Request) error
	// Ask asks a person directly, while the request also waits for other answers. It returns when ctx ends.
	// Optional.
	Ask func(context.Context, *Request, *consent.Question) (Answer, error)
	// Keeps is set if a server makes the approved call and keeps the outcome. The same call later gets the outcome
	// as a *KeptError.
	Keeps bool
	// Command continues the approved call. The error with ErrWaits shows it.
	Command string
}

// At returns the controller of a session. Its journal is in the user's state directory; the caller closes it.
func At(s *session.Session, now func() time.Time, door string) (*Controller, *Local, error) {
	state := s.State()
	if state.Err != nil {
		return nil, nil, state.Err
	}
	l := Open(state.Path, now, logOf{s}, nil)
	return &Controller{Approvals: l, Project: s.Root(), Set: s.Set(), Door: door, Now: now}, l, nil
}

// logOf is the audit log of a session, opened at the first use.
type logOf struct{ *session.Session }

func (l logOf) Ask(ctx context.Context, a *record.Approval) error {
	k, err := l.Kernel()
	if err != nil {
		return err
	}
	return k.Log.Ask(ctx, a)
}

// An Answer is a person's answer.
type Answer struct {
	Yes     bool
	By      string
	Through string
	None    bool // the person leaves the answer to others
}

// Gate asks whether a run continues, and returns the request when it is Approved, Denied or Expired. The same gate
// of the same run, identified by the thread and the node's call, gets the same request again, even after a restart.
// ref is the graph, digest that of its file, and text the question. A question expires after span without an
// answer; 0 is an hour.
func (d *Controller) Gate(ctx context.Context, call, ref string, digest cas.Digest, text, principal string,
	span time.Duration) (*Request, error) {
	request := &Request{Kind: Gate, Ref: ref, Digest: digest, Text: fault.Clip(text, maxText), Set: d.Set,
		Project: d.Project, Principal: principal, Person: d.Person,
		Door: d.Door, Thread: d.Thread, Call: call, Span: span}
	if request.Span <= 0 {
		request.Span = time.Hour
	}
	request, err := d.Approvals.Make(ctx, request, nil, func(q *Request) bool {
		return q.Kind == Gate && q.Project == d.Project && q.Thread == d.Thread && q.Call == call && q.Ref == ref
	})
	if err != nil {
		return nil, err
	}
	return d.await(ctx, request, &consent.Question{})
}

// maxText bounds the stored question of a gate, in bytes.
const maxText = 4 << 10

// Approve gets the approval for a call of a tool. It implements Door.Approve of package consent. call is the call's
// id in the thread's record, or "" outside of threads.
func (d *Controller) Approve(ctx context.Context, question *consent.Question, call string) (*consent.Approval, error) {
	given, err := jcs.Append(nil, question.Given)
	if err != nil {
		return nil, err
	}
	shown, err := redact.New().Digest(question.Given)
	if err != nil {
		return nil, err
	}
	request := &Request{Kind: Call, Ref: question.Ref.String(), Digest: question.Digest, Params: cas.Sum(given),
		Shown: shown, Risk: question.Risk, Derived: question.Derived, Lines: question.Lines,
		Separate: question.Separate,
		Set:      d.Set, Project: d.Project, Principal: question.Principal, Person: d.Person,
		Tenant: question.Tenant, Door: d.Door,
		Thread: d.Thread, Call: call, Span: question.Expires}
	request, err = d.Approvals.Make(ctx, request, given, func(old *Request) bool { return d.same(request, old) })
	if err != nil {
		return nil, err
	}
	if request, err = d.await(ctx, request, question); err != nil {
		return nil, err
	}
	if d.Keeps && request.State != Approved {
		return nil, d.outcome(ctx, request, question)
	}
	if e := request.Refused(); e != nil {
		return nil, e.Because(question.Reasons()...)
	}
	return &consent.Approval{By: fmt.Sprintf("%s (%s)", request.By, request.ID), Separate: request.Separated(),
		Take: d.taker(request, question), Drop: d.dropper(request)}, nil
}

// same reports whether an existing request answers the call of r. A thread makes each of its calls once. Elsewhere an
// approval is for one call, and a used one answers no other. A denial answers every such call for as long as its
// request would have waited, except that of a person who said no at this terminal and is there to be asked again.
func (d *Controller) same(r, old *Request) bool {
	if old.Kind != Call || old.Ref != r.Ref || old.Digest != r.Digest || old.Params != r.Params || old.Set != r.Set ||
		old.Project != r.Project ||
		old.Principal != r.Principal || old.Tenant != r.Tenant || old.Door != r.Door || old.Thread != r.Thread ||
		r.Separate && !old.Separate {
		return false
	}
	switch {
	case old.denies(d.Now()) && !(d.Door == Exec && old.Through == "terminal"):
		return true
	case old.Call != r.Call:
		return false
	case d.Keeps:
		if old.Execution != "" { // its caller made the call, and has the outcome
			return false
		}
		return old.State == Executing || !old.State.Ended() || !old.Fetched && d.Now().Sub(old.Updated) < KeepResult
	}
	return d.Thread != "" || old.State == Pending || old.State == Approved
}

// A KeptError is the outcome of a call that a server has made.
type KeptError struct {
	Request *Request
	Result  []byte
}

func (e *KeptError) Error() string { return "the call was made already" }

// outcome waits until a request's call has been made or can't be made any more, and returns the outcome as an
// error.
func (d *Controller) outcome(ctx context.Context, request *Request, question *consent.Question) error {
	err := d.Approvals.Watch(ctx, Filter{ID: request.ID}, func(all []*Request) (bool, error) {
		if len(all) == 0 {
			return false, missing(request.ID)
		}
		request = all[0]
		return request.State.Ended(), nil
	})
	if err != nil {
		return err
	}
	b, err := d.Approvals.Read(ctx, request.ID, Result)
	if !request.Fetched {
		if _, gone := d.Approvals.Do(ctx, request.ID, Step{To: request.State, Fetched: true}); gone != nil {
			return gone
		}
	}
	if request.State == Done && err == nil {
		return &KeptError{request, b}
	}
	return request.Refused().Because(question.Reasons()...)
}

// Waiting returns the error for a call that waits for the answer to a request.
func (d *Controller) Waiting(r *Request, q *consent.Question) *fault.Error {
	failure := consent.Required(q)
	if r.Kind == Gate {
		failure = fault.New(fault.Approval, "%q waits for an answer: %s", r.Ref, fault.Clip(r.Text, 200)).On("ref",
			r.Ref).On("question", r.Text)
	}
	failure.On("request", r.ID).On("expires", r.Expires.Format(time.RFC3339)).From(ErrWaits)
	failure.Because("the request " + r.ID + " waits for an answer until " + r.Expires.Format(time.RFC3339))
	first := []string{fault.Command("rye approve", r.ID)}
	if d.Command != "" {
		first = append(first, d.Command)
	}
	failure.Hint = append(first, failure.Hint...)
	return failure
}

// await waits until a request is answered.
func (d *Controller) await(ctx context.Context, request *Request, question *consent.Question) (answered *Request,
	err error) {
	if request.State != Pending {
		return request, nil
	}
	asks := d.Ask != nil && !request.Separate // the caller is at the terminal
	if d.NoWait && !asks {
		return nil, d.Waiting(request, question)
	}
	if d.Waits != nil {
		if err := d.Waits(ctx, request); err != nil {
			return nil, err
		}
		defer func() {
			if err == nil {
				err = d.Waits(ctx, nil)
			}
		}()
	}
	if asks {
		answered, err := d.ask(ctx, request, question)
		if answered != nil || err != nil {
			return answered, err
		}
		if d.NoWait {
			return nil, d.Waiting(request, question)
		}
	}
	return Await(ctx, d.Approvals, request.ID)
}

// ask asks a person until anyone has answered. It returns nil without an answer.
func (d *Controller) ask(ctx context.Context, request *Request, question *consent.Question) (*Request, error) {
	asking, stop := context.WithCancel(ctx)
	defer stop()
	elsewhere := make(chan *Request, 1)
	go func() {
		got, err := Await(asking, d.Approvals, request.ID)
		if err == nil {
			elsewhere <- got
			stop()
		}
		close(elsewhere)
	}()
	answer, err := d.Ask(asking, request, question)
	if got := lookUp(elsewhere); got != nil {
		return got, nil
	}
	if err != nil || answer.None {
		return nil, err
	}
	step := Step{To: Denied, By: answer.By, Through: answer.Through}
	if answer.Yes {
		step.To = Approved
	}
	got, err := d.Approvals.Do(ctx, request.ID, step)
	if late(err) { // another answer was faster
		return Await(ctx, d.Approvals, request.ID)
	}
	return got, err
}

// lookUp returns a value from a channel without waiting, or nil.
func lookUp(c <-chan *Request) *Request {
	select {
	case r := <-c:
		return r
	default:
		return nil
	}
}

// taker returns the function that uses the approval for its one call.
func (d *Controller) taker(request *Request, q *consent.Question) func(context.Context,
	string) (func(context.Context, string) error, error) {
	return func(ctx context.Context, call string) (func(context.Context, string) error, error) {
		me := Self()
		if _, err := d.Approvals.Do(ctx, request.ID, Step{To: Executing, Driver: me, Execution: call}); err != nil {
			if d.Keeps && late(err) { // the server was faster
				err = d.outcome(ctx, request, q)
			}
			return nil, err
		}
		return func(ctx context.Context, code string) error {
			_, err := d.Approvals.Do(ctx, request.ID, Step{To: Done, Driver: me, Code: code})
			return err
		}, nil
	}
}

// dropper returns the function that ends a request whose call isn't made.
func (d *Controller) dropper(r *Request) func(context.Context, error) error {
	return func(ctx context.Context, why error) error {
		e := fault.Of(why)
		_, err := d.Approvals.Do(ctx, r.ID, Step{To: Superseded, Reason: fault.Clip(string(e.Code)+": "+e.Text, 500),
			Fetched: true})
		if late(err) {
			return nil
		}
		return err
	}
}

// late reports whether a step failed because the request has another state by now.
func late(err error) bool {
	e, ok := fault.Find(err)
	return ok && (e.Code == fault.Conflict || e.Code == fault.Expired)
}
