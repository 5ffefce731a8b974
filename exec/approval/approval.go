// Package approval records requests for approvals and their answers.
//
// A call for which the policies require an approval, and the gate of a graph, make a request. A person answers it
// through any door. The call is then made once.
//
// # States
//
//	pending      it waits for an answer
//	approved     the call may be made once; a gate's run continues
//	denied       the answer is no
//	expired      there was no answer in time, or an approved call wasn't made in time
//	superseded   no longer needed: the approved call has changed, or its caller has ended
//	executing    a process makes the call
//	done         the call was made
//	unknown      the process that made the call has ended without recording the result
//
//	pending -> approved | denied | expired | superseded
//	approved -> executing | expired | superseded
//	executing -> done | unknown
//
// Each step is a compare-and-swap. So the first of two answers counts, and only one of two processes makes a call.
// A request is bound to one call: to the tool's ref and digest, the parameters, the set, the principal and the
// tenant. An approval is valid for as long as the time to answer. A clock that is set back makes a request expire,
// too. The next process that can write records the expiry, which is final.
//
// # How a request goes through here
//
// Controller.Approve makes a request (Approvals.Make) or finds the one of the same call (same). await asks the person
// at hand (Controller.Ask) and any other door, which answers with Approvals.Do. Approve then returns a
// consent.Approval: its Take moves the request to executing, and the function that Take returns moves it to done. Gate
// goes the same way for a graph's question.
//
// # The local journal
//
// One book (package journal) for all projects of a user: the file approvals/requests of the state directory. A record
// is the whole request after a step, and "op" for people; the last one counts:
//
//	{"op":"pending","request":{"id":"3f2a9c1e-5b7d-4e0f-8a61-2c9d4b7e1f05","kind":"call","state":"pending","ref":"tool:acme/pay",
//	 "digest":"blake3:…","params":"blake3:…","shown":"blake3:…","risk":"money","lines":["\"big\" of your policy"],"set":"blake3:…",
//	 "project":"/home/ann/site","principal":"ann","door":"thread","thread":"acme/plan-1795000000-a2b3c","call":"c3",
//	 "span":3600000000000,"created":"2026-11-20T12:00:00Z","expires":"2026-11-20T13:00:00Z","updated":"2026-11-20T12:00:00Z"}}
//
// "risk_derived" is why a tool that declares no risk has this one. "params" is the digest of the parameters' JCS,
// "shown" that of the parameters without secrets. The parameters themselves are in approvals/sealed/ID.params,
// encrypted like secrets (package secret), until the request has ended. A result is in ID.result for an hour, for the
// caller to fetch. The next step of any request removes files without a request. Read refuses the files of another
// request; a result begins with a line that has its request's id.
//
// Each step is written to the audit log before the journal. If that fails, the step isn't made. A compacted book
// leaves out requests that ended more than 30 days before the newest step.
package approval

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/consent"
	"github.com/rye-build/rye/exec/thread/roster"
)

// A State is the state of a request.
type State string

// The states.
const (
	Pending    State = "pending"
	Approved   State = "approved"
	Denied     State = "denied"
	Expired    State = "expired"
	Superseded State = "superseded"
	Executing  State = "executing"
	Done       State = "done"
	Unknown    State = "unknown"
)

// States lists all states.
var States = []State{Pending, Approved, Denied, Expired, Superseded, Executing, Done, Unknown}

// next has the states that may follow each state.
var next = map[State][]State{
	Pending:   {Approved, Denied, Expired, Superseded},
	Approved:  {Executing, Expired, Superseded},
	Executing: {Done, Unknown},
}

// Ended reports whether no state follows.
func (s State) Ended() bool { return next[s] == nil }

// The kinds of requests.
const (
	Call = "call" // of a tool
	Gate = "gate" // of a graph: executes nothing, and its answer counts for every repetition
)

// The doors of requests.
const (
	Exec   = "exec"   // rye exec
	Thread = "thread" // a thread or a graph, which waits
	Server = "server" // a client that doesn't wait: the server makes the call
)

// A Request asks for one approval.
type Request struct {
	ID        string     `json:"id"` // a UUID, version 4
	Kind      string     `json:"kind"`
	State     State      `json:"state"`
	Ref       string     `json:"ref"` // of the tool, or of the graph
	Digest    cas.Digest `json:"digest,omitzero"`
	Params    cas.Digest `json:"params,omitzero"`
	Shown     cas.Digest `json:"shown,omitzero"`
	Risk      string     `json:"risk,omitempty"`
	Derived   string     `json:"risk_derived,omitempty"` // why a tool that declares no risk has this one
	Text      string     `json:"text,omitempty"`         // the question of a gate
	Lines     []string   `json:"lines,omitempty"`        // policy lines that require the approval; empty: the risk does
	Separate  bool       `json:"separate,omitempty"`     // the caller can't approve it
	Set       cas.Digest `json:"set,omitzero"`
	Project   string     `json:"project,omitempty"` // its root
	Principal string     `json:"principal,omitempty"`
	Person    string     `json:"person,omitempty"` // who acts as the principal; "": it is a person's name itself
	Tenant    string     `json:"tenant,omitempty"`
	Door      string     `json:"door"`
	Thread    string     `json:"thread,omitempty"` // the waiting thread
	Call      string     `json:"call,omitempty"`   // the id of the call in the thread's record

	Span    time.Duration `json:"span"` // time to answer, and then to make the call
	Created time.Time     `json:"created"`
	Expires time.Time     `json:"expires,omitzero"` // zero: the answer stays
	Updated time.Time     `json:"updated"`

	By       string    `json:"by,omitempty"` // the person who answered
	Through  string    `json:"through,omitempty"`
	Reason   string    `json:"reason,omitempty"` // of denied or superseded
	Answered time.Time `json:"answered,omitzero"`

	Driver    roster.Driver `json:"driver,omitzero"`     // the process that makes the call
	Execution string        `json:"execution,omitempty"` // the id of the call in the audit log
	Code      string        `json:"code,omitempty"`      // error code of a failed call
	Fetched   bool          `json:"fetched,omitempty"`   // the caller has got the outcome
}

// A Step changes the state of a request.
type Step struct {
	To          State
	By, Through string // of an answer
	Reason      string // of Denied or Superseded
	Driver      roster.Driver
	Execution   string // of Executing
	Code        string // of Done
	Result      []byte // of Done: kept for an hour; may be nil
	Fetched     bool   // the caller has got the outcome; To may be the current state
}

// A Part is an encrypted file that belongs to a request.
type Part string

// The parts.
const (
	Params Part = "params"
	Result Part = "result"
)

// KeepResult is how long a result is kept.
const KeepResult = time.Hour

// A Filter selects requests. The zero value selects all.
type Filter struct {
	ID      string
	Open    bool   // requests that can still be answered or used for a call
	Thread  string // the waiting thread
	Project string
}

func (f *Filter) takes(r *Request) bool {
	return (f.ID == "" || f.ID == r.ID) && (!f.Open || r.open()) && (f.Thread == "" || f.Thread == r.Thread) &&
		(f.Project == "" || f.Project == r.Project)
}

// Asker returns the person who asks.
func (r *Request) Asker() string { return cmp.Or(r.Person, r.Principal) }

// Separated reports whether another person answered than who asks.
func (r *Request) Separated() bool { return r.other(r.By) }

// other reports whether someone else than who asks has a name.
func (r *Request) other(by string) bool { return by != "" && by != r.Asker() && by != r.Principal }

// open reports whether a request can still be answered, or used for a call. Nothing follows the answer to a gate.
func (r *Request) open() bool { return !r.State.Ended() && (r.Kind != Gate || r.State != Approved) }

// Approvals is a journal of requests. It is safe for concurrent use, also by many processes. The caller owns
// returned requests.
type Approvals interface {
	// Make adds a request that waits for r.Span from now, and returns it with its ID, State and times. If same
	// accepts existing requests, Make returns one of these instead, preferably an approved one. params are stored
	// encrypted; they may be nil.
	Make(ctx context.Context, r *Request, params []byte, same func(*Request) bool) (*Request, error)
	// Do makes a step. A step that doesn't follow the request's state is CONFLICT, or EXPIRED after its time. The
	// caller's own approval is PERMISSION_DENIED if the request is separate.
	Do(ctx context.Context, id string, s Step) (*Request, error)
	// Watch calls look with the requests that match f, the newest first, now and after each change, at least once a
	// second, until look returns true.
	Watch(ctx context.Context, f Filter, look func([]*Request) (done bool, err error)) error
	// Read returns a part of a request, or fs.ErrNotExist if it has been removed.
	Read(ctx context.Context, id string, p Part) ([]byte, error)
}

// List returns requests, the newest first.
func List(ctx context.Context, a Approvals, f Filter) (all []*Request, err error) {
	err = a.Watch(ctx, f, func(found []*Request) (bool, error) {
		all = found
		return true, nil
	})
	return all, err
}

// MinPrefix is the least length of an id's prefix that names a request.
const MinPrefix = 4

// Find returns the request with an id or a unique prefix of one.
func Find(ctx context.Context, a Approvals, prefix string) (*Request, error) {
	all, err := List(ctx, a, Filter{})
	if err != nil {
		return nil, err
	}
	prefix = strings.ToLower(prefix)
	all = slices.DeleteFunc(all, func(r *Request) bool {
		return r.ID != prefix && (len(prefix) < MinPrefix || !strings.HasPrefix(r.ID, prefix))
	})
	switch {
	case len(all) == 1:
		return all[0], nil
	case len(all) > 1:
		e := fault.New(fault.Ambiguous, "%q is ambiguous: it matches %d requests", prefix, len(all))
		ids := make([]string, len(all))
		for i, r := range all {
			ids[i] = r.ID
		}
		slices.Sort(ids)
		for _, id := range ids[:min(len(ids), fault.MaxLines)] {
			e.Because(id)
		}
		return nil, e.On("matches", ids).Try("rye approvals --all")
	case prefix != "" && len(prefix) < MinPrefix:
		return nil, fault.New(fault.Validation, "invalid request %q: give at least %d characters of its id", prefix,
			MinPrefix).Try("rye approvals")
	}
	return nil, missing(prefix)
}

func missing(id string) *fault.Error {
	return fault.New(fault.NotFound, "no request %q", id).On("request", id).Try("rye approvals --all")
}

// Await waits until a request is answered or can no longer be answered.
func Await(ctx context.Context, a Approvals, id string) (r *Request, err error) {
	err = a.Watch(ctx, Filter{ID: id}, func(all []*Request) (bool, error) {
		if len(all) == 0 {
			return false, missing(id)
		}
		r = all[0]
		return r.State != Pending, nil
	})
	return r, err
}

// Forget supersedes the requests of a thread that has ended.
func Forget(ctx context.Context, a Approvals, thread, why string) error {
	all, err := List(ctx, a, Filter{Thread: thread, Open: true})
	for _, r := range all {
		if r.State == Executing {
			continue
		}
		if _, failed := a.Do(ctx, r.ID, Step{To: Superseded, Reason: fault.Clip(why, 500)}); failed != nil &&
			!late(failed) {
			err = errors.Join(err, failed)
		}
	}
	return err
}

// Asks returns the question of a gate, or the reason why a call needs an approval.
func (r *Request) Asks() string {
	if r.Kind == Gate {
		return r.Text
	}
	return (&consent.Question{Risk: r.Risk, Derived: r.Derived, Lines: r.Lines}).Why()
}

// denies reports whether the request is denied, and would still wait without that answer.
func (r *Request) denies(now time.Time) bool {
	return r.State == Denied && now.Before(r.Created.Add(r.Span)) && !now.Before(r.Created.Add(-skew))
}

// Refused returns the reason why a request doesn't allow its call, or nil if it does or is still pending.
func (r *Request) Refused() *fault.Error {
	refusal := fault.New(fault.Approval, "%s was not approved", cmp.Or(r.quoted(), "the request")).On("request",
		r.ID).On("state", string(r.State))
	if r.Ref != "" {
		refusal.On("ref", r.Ref)
	}
	switch r.State {
	case Denied:
		refusal.Because("denied by " + cmp.Or(r.By, "a person"))
		if r.Reason != "" {
			refusal.On("reason", r.Reason).Because("reason: " + r.Reason)
		}
		if r.Kind == Call {
			refusal.Because("the same call is denied until " + r.Created.Add(r.Span).Format(time.RFC3339))
		}
	case Expired:
		refusal.Because(r.expired())
	case Superseded:
		refusal.Because("superseded: " + r.Reason)
	case Executing, Done, Unknown:
		return fault.New(fault.Conflict, "the approval %s was used: its call is %s", r.ID, r.State).On("request",
			r.ID).On("state", string(r.State)).Permanent().
			Because("an approval is for one call: the same call again asks for another").
			Try(fault.Command("rye approvals", r.ID))
	default:
		return nil
	}
	return refusal
}

func (r *Request) quoted() string {
	if r.Ref == "" {
		return ""
	}
	return fmt.Sprintf("%q", r.Ref)
}

func (r *Request) expired() string {
	if !r.Answered.IsZero() {
		return "the approval was not used within " + r.Span.String()
	}
	return "there was no answer within " + r.Span.String()
}

// conflict returns the error for a step that doesn't follow the request's state.
func (r *Request) conflict(to State) error {
	failure := fault.New(fault.Conflict, "the request %s is %s", r.ID, r.State).On("request", r.ID).On("state",
		string(r.State)).Permanent()
	switch {
	case r.State == Expired:
		failure = fault.New(fault.Expired, "the request %s has expired", r.ID).On("request", r.ID).Because(r.expired())
		if to == Approved {
			failure.Because("the caller can ask again")
		}
	case !r.Answered.IsZero():
		word := "approved"
		if r.State == Denied {
			word = "denied"
		}
		failure.Text = fmt.Sprintf("the request %s is already %s", r.ID, word)
		failure.Because(fmt.Sprintf("by %s at %s", cmp.Or(r.By, "a person"), r.Answered.Format(time.RFC3339)))
		if word == "approved" && r.State != Approved {
			failure.Because("its call is " + string(r.State))
		}
	}
	return failure.Try(fault.Command("rye approvals", r.ID))
}

// ErrWaits is the cause of an error whose call waits for an answer while its caller doesn't.
var ErrWaits = errors.New("it waits for an answer")

// NewID returns the id of a new request.
func NewID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
