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

// A Controller makes the requests of one caller, and waits for their answers.
type Controller struct {
	Approvals Approvals
	Project   string // its root
	Set       cas.Digest
	Door      string
	Now       func() time.Time // needed if it Keeps
	Thread    string           // whose calls they are; "" for none
	NoWait    bool             // a request without an answer is ErrWaits, and is found again by the next call like it
	// Waits is called before it waits for an answer to a request and, with nil, after that. Optional.
	Waits func(context.Context, *Request) error
	// Ask asks a person at once, while the request waits for any other answer, too. It returns when ctx ends. nil:
	// there is no one.
	Ask func(context.Context, *Request, *consent.Question) (Answer, error)
	// Keeps says that a server makes the call when the request is approved, and keeps what came of it: the next call
	// like it gets that, as a *KeptError.
	Keeps bool
	// Command is what goes on with the call once it is approved, for the error ErrWaits.
	Command string
}

// At returns the controller of a session. Its journal, which the caller closes, is in the user's state directory.
func At(s *session.Session, now func() time.Time, door string) (*Controller, *Local, error) {
	state := s.State()
	if state.Err != nil {
		return nil, nil, state.Err
	}
	l := Open(state.Path, now, logOf{s}, nil)
	return &Controller{Approvals: l, Project: s.Root(), Set: s.Set(), Door: door, Now: now}, l, nil
}

// logOf is the audit log of a session, which is opened when it is first needed.
type logOf struct{ *session.Session }

func (l logOf) Ask(ctx context.Context, a *record.Approval) error {
	k, err := l.Kernel()
	if err != nil {
		return err
	}
	return k.Log.Ask(ctx, a)
}

// An Answer is what a person says.
type Answer struct {
	Yes     bool
	By      string
	Through string
	None    bool // the person leaves the answer to others
}

// Gate asks whether a run goes on, and returns the request once it is Approved, Denied or Expired. The same gate of
// the same run, by the thread and the node's call, gets the same request again, after a restart as well. ref is the
// graph, digest its file's, and text what is asked. A question that isn't answered within span expires; 0 is for an
// hour.
func (d *Controller) Gate(ctx context.Context, call, ref string, digest cas.Digest, text, principal string,
	span time.Duration) (*Request, error) {
	r := &Request{Kind: Gate, Ref: ref, Digest: digest, Text: fault.Clip(text, maxText), Set: d.Set,
		Project: d.Project, Principal: principal, Door: d.Door, Thread: d.Thread, Call: call, Span: span}
	if r.Span <= 0 {
		r.Span = time.Hour
	}
	r, err := d.Approvals.Make(ctx, r, nil, func(q *Request) bool {
		return q.Kind == Gate && q.Project == d.Project && q.Thread == d.Thread && q.Call == call && q.Ref == ref
	})
	if err != nil {
		return nil, err
	}
	return d.await(ctx, r, &consent.Question{})
}

// maxText is how many bytes of a gate's question are kept.
const maxText = 4 << 10

// Approve gets the approval for a call of a tool: it is Door.Approve of package consent. call is what the thread's
// record calls it, "" outside of threads.
func (d *Controller) Approve(ctx context.Context, q *consent.Question, call string) (*consent.Approval, error) {
	given, err := jcs.Append(nil, q.Given)
	if err != nil {
		return nil, err
	}
	shown, err := redact.New().Digest(q.Given)
	if err != nil {
		return nil, err
	}
	r := &Request{Kind: Call, Ref: q.Ref.String(), Digest: q.Digest, Params: cas.Sum(given), Shown: shown,
		Risk: q.Risk, Lines: q.Lines, Separate: q.Separate,
		Set: d.Set, Project: d.Project, Principal: q.Principal, Tenant: q.Tenant, Door: d.Door, Thread: d.Thread,
		Call: call, Span: q.Expires}
	r, err = d.Approvals.Make(ctx, r, given, func(old *Request) bool { return d.same(r, old) })
	if err != nil {
		return nil, err
	}
	if r, err = d.await(ctx, r, q); err != nil {
		return nil, err
	}
	if d.Keeps && r.State != Approved {
		return nil, d.outcome(ctx, r, q)
	}
	if e := r.Refused(); e != nil {
		return nil, e.Because(q.Why())
	}
	return &consent.Approval{By: fmt.Sprintf("%s (%s)", r.By, r.ID), Separate: r.By != "" && r.By != r.Principal,
		Take: d.taker(r, q), Drop: d.dropper(r)}, nil
}

// same reports whether a request that is there is for the call that r is for. A thread makes each of its calls once.
// Elsewhere one that was approved or denied counts once.
func (d *Controller) same(r, old *Request) bool {
	if old.Kind != Call || old.Ref != r.Ref || old.Digest != r.Digest || old.Params != r.Params || old.Set != r.Set ||
		old.Project != r.Project ||
		old.Principal != r.Principal || old.Tenant != r.Tenant || old.Door != r.Door || old.Thread != r.Thread ||
		old.Call != r.Call || r.Separate && !old.Separate {
		return false
	}
	if d.Keeps {
		return old.State == Executing || !old.State.Ended() || !old.Fetched && d.Now().Sub(old.Updated) < KeepResult
	}
	return d.Thread != "" || old.State == Pending || old.State == Approved
}

// A KeptError has what came of a call that a server has made.
type KeptError struct {
	Request *Request
	Result  []byte
}

func (e *KeptError) Error() string { return "the call was made already" }

// outcome returns what became of a request, once its call has been made or is not made.
func (d *Controller) outcome(ctx context.Context, r *Request, q *consent.Question) error {
	err := d.Approvals.Watch(ctx, Filter{ID: r.ID}, func(all []*Request) (bool, error) {
		if len(all) == 0 {
			return false, missing(r.ID)
		}
		r = all[0]
		return r.State.Ended(), nil
	})
	if err != nil {
		return err
	}
	b, err := d.Approvals.Read(ctx, r.ID, Result)
	if _, gone := d.Approvals.Do(ctx, r.ID, Step{To: r.State, Fetched: true}); gone != nil {
		return gone
	}
	if r.State == Done && err == nil {
		return &KeptError{r, b}
	}
	return r.Refused().Because(q.Why())
}

// Waiting returns the error that a call waits for the answer to a request.
func (d *Controller) Waiting(r *Request, q *consent.Question) *fault.Error {
	e := consent.Required(q)
	if r.Kind == Gate {
		e = fault.New(fault.Approval, "%q waits for an answer: %s", r.Ref, fault.Clip(r.Text, 200)).On("ref",
			r.Ref).On("question", r.Text)
	}
	e.On("request", r.ID).On("expires", r.Expires.Format(time.RFC3339)).From(ErrWaits)
	e.Because("the request " + r.ID + " waits for an answer until " + r.Expires.Format(time.RFC3339))
	first := []string{fault.Command("rye approve", r.ID)}
	if d.Command != "" {
		first = append(first, d.Command)
	}
	e.Hint = append(first, e.Hint...)
	return e
}

// await waits until a request is answered.
func (d *Controller) await(ctx context.Context, r *Request, q *consent.Question) (answered *Request, err error) {
	if r.State != Pending {
		return r, nil
	}
	asks := d.Ask != nil && !r.Separate // who asks sits there
	if d.NoWait && !asks {
		return nil, d.Waiting(r, q)
	}
	if d.Waits != nil {
		if err := d.Waits(ctx, r); err != nil {
			return nil, err
		}
		defer func() {
			if err == nil {
				err = d.Waits(ctx, nil)
			}
		}()
	}
	if asks {
		answered, err := d.ask(ctx, r, q)
		if answered != nil || err != nil {
			return answered, err
		}
		if d.NoWait {
			return nil, d.Waiting(r, q)
		}
	}
	return Await(ctx, d.Approvals, r.ID)
}

// ask asks a person, until there is any answer. Without one it returns nil.
func (d *Controller) ask(ctx context.Context, r *Request, q *consent.Question) (*Request, error) {
	asking, stop := context.WithCancel(ctx)
	defer stop()
	elsewhere := make(chan *Request, 1)
	go func() {
		got, err := Await(asking, d.Approvals, r.ID)
		if err == nil {
			elsewhere <- got
			stop()
		}
		close(elsewhere)
	}()
	answer, err := d.Ask(asking, r, q)
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
	got, err := d.Approvals.Do(ctx, r.ID, step)
	if late(err) { // another answer was faster
		return Await(ctx, d.Approvals, r.ID)
	}
	return got, err
}

// lookUp returns what a channel has already.
func lookUp(c <-chan *Request) *Request {
	select {
	case r := <-c:
		return r
	default:
		return nil
	}
}

// taker returns what takes the approval for the one call that it is for.
func (d *Controller) taker(r *Request, q *consent.Question) func(context.Context,
	string) (func(context.Context, string) error, error) {
	return func(ctx context.Context, call string) (func(context.Context, string) error, error) {
		me := Self()
		if _, err := d.Approvals.Do(ctx, r.ID, Step{To: Executing, Driver: me, Execution: call}); err != nil {
			if d.Keeps && late(err) { // the server was faster
				err = d.outcome(ctx, r, q)
			}
			return nil, err
		}
		return func(ctx context.Context, code string) error {
			_, err := d.Approvals.Do(ctx, r.ID, Step{To: Done, Driver: me, Code: code})
			return err
		}, nil
	}
}

// dropper returns what ends a request whose call isn't made after all.
func (d *Controller) dropper(r *Request) func(context.Context, error) error {
	return func(ctx context.Context, why error) error {
		e := fault.Of(why)
		_, err := d.Approvals.Do(ctx, r.ID, Step{To: Superseded, Reason: fault.Clip(string(e.Code)+": "+e.Text, 500)})
		if late(err) {
			return nil
		}
		return err
	}
}

// late reports whether a step failed because of the state that the request has by now.
func late(err error) bool {
	e, ok := fault.Find(err)
	return ok && (e.Code == fault.Conflict || e.Code == fault.Expired)
}
