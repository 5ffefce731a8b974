// Package approval is the requests for approvals, and their answers.
//
// A call that the policies ask about, and the gate of a graph, make a request. A person answers it, through any door.
// Then the call is made, once.
//
// # States
//
//	pending      it waits for an answer
//	approved     the call may be made, once; a gate lets its run go on
//	denied       the answer is no
//	expired      there was no answer in time, or an approved call wasn't made in time
//	superseded   it isn't needed any more: what was approved has changed since, or its caller has gone
//	executing    a process makes the call
//	done         the call was made
//	unknown      the process that made the call has ended without recording the result
//
//	pending -> approved | denied | expired | superseded
//	approved -> executing | expired | superseded
//	executing -> done | unknown
//
// Each step is a compare and swap. So of two answers the first counts, and of two processes that would make a call one
// does. A request is bound to one call: to the tool's ref and digest, to the parameters, to the set, to who asks, and
// to the tenant. An approval stays valid for as long as there was time to answer. A clock that is set back makes a
// request expire, too. What has expired is recorded when a process that can write sees it, and stays so.
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
// "params" is the digest of the parameters' JCS, "shown" that of the parameters without secrets. The parameters
// themselves are in approvals/sealed/ID.params, encrypted as secrets are (package secret), until the request has
// ended; a result that waits to be fetched is in ID.result for an hour. A file of a request that has none is removed
// with the next step of any request.
//
// Each step is in the audit log before it is in the journal. If that can't be written, the step isn't made. A book
// that is made shorter leaves out requests that ended more than 30 days before the newest step.
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

// A State of a request.
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

// States lists all.
var States = []State{Pending, Approved, Denied, Expired, Superseded, Executing, Done, Unknown}

// next are the states that follow each.
var next = map[State][]State{
	Pending:   {Approved, Denied, Expired, Superseded},
	Approved:  {Executing, Expired, Superseded},
	Executing: {Done, Unknown},
}

// Ended reports whether nothing follows.
func (s State) Ended() bool { return next[s] == nil }

// The kinds of requests.
const (
	Call = "call" // of a tool
	Gate = "gate" // of a graph: nothing is executed, and the answer counts as often as it is asked for
)

// The doors that requests come through.
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
	Text      string     `json:"text,omitempty"`     // what a gate asks
	Lines     []string   `json:"lines,omitempty"`    // of the policies that ask; none: the risk does
	Separate  bool       `json:"separate,omitempty"` // the caller can't approve it
	Set       cas.Digest `json:"set,omitzero"`
	Project   string     `json:"project,omitempty"` // its root
	Principal string     `json:"principal,omitempty"`
	Tenant    string     `json:"tenant,omitempty"`
	Door      string     `json:"door"`
	Thread    string     `json:"thread,omitempty"` // that waits
	Call      string     `json:"call,omitempty"`   // the id of the call in the thread's record

	Span    time.Duration `json:"span"` // to answer, and then to make the call
	Created time.Time     `json:"created"`
	Expires time.Time     `json:"expires,omitzero"` // zero: the answer stays
	Updated time.Time     `json:"updated"`

	By       string    `json:"by,omitempty"` // who answered
	Through  string    `json:"through,omitempty"`
	Reason   string    `json:"reason,omitempty"` // of denied or superseded
	Answered time.Time `json:"answered,omitzero"`

	Driver    roster.Driver `json:"driver,omitzero"`     // the process that makes the call
	Execution string        `json:"execution,omitempty"` // the id of the call in the audit log
	Code      string        `json:"code,omitempty"`      // of the error of a call that failed
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
	Result      []byte // of Done: kept for an hour; nil for none
	Fetched     bool   // the caller has got the outcome; To is the state that the request has
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
	Open    bool   // those that can still be answered, or used for a call
	Thread  string // that waits
	Project string
}

func (f *Filter) takes(r *Request) bool {
	return (f.ID == "" || f.ID == r.ID) && (!f.Open || r.open()) && (f.Thread == "" || f.Thread == r.Thread) &&
		(f.Project == "" || f.Project == r.Project)
}

// open reports whether a request can still be answered, or used for a call. Nothing follows the answer to a gate.
func (r *Request) open() bool { return !r.State.Ended() && (r.Kind != Gate || r.State != Approved) }

// Approvals are a journal of requests. They are safe for many goroutines and processes. Returned requests are the
// caller's.
type Approvals interface {
	// Make adds a request that pends for r.Span from now, unless same finds one that is good instead, an approved one
	// first, and returns it. It fills in r's ID, State and times. params are encrypted beside it; nil for none.
	Make(ctx context.Context, r *Request, params []byte, same func(*Request) bool) (*Request, error)
	// Do makes a step. One that doesn't follow the state which the request has is CONFLICT, or EXPIRED if it came too
	// late. An approval by who asked is PERMISSION_DENIED if the request is separate.
	Do(ctx context.Context, id string, s Step) (*Request, error)
	// Watch calls look with the requests that f takes, the newest first, now and after each change, at least once a
	// second, until it returns true.
	Watch(ctx context.Context, f Filter, look func([]*Request) (done bool, err error)) error
	// Read returns a part of a request; fs.ErrNotExist if it has been removed.
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

// MinPrefix is how many characters of an id name a request at least.
const MinPrefix = 4

// Find returns the request that an id or the beginning of one names.
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

// Await waits until a request is answered or can't be answered any more.
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
	return (&consent.Question{Risk: r.Risk, Lines: r.Lines}).Why()
}

// Refused returns why a request doesn't let its call be made; nil if it does, or waits.
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
	case Expired:
		refusal.Because(r.expired())
	case Superseded:
		refusal.Because("superseded: " + r.Reason)
	case Executing, Done, Unknown:
		return fault.New(fault.Conflict, "the approval %s was used: its call is %s", r.ID, r.State).On("request",
			r.ID).On("state", string(r.State)).Permanent()
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

// conflict is the error of a step that doesn't follow the state of a request.
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

// ErrWaits is the cause of the error that a call waits for an answer, where its caller doesn't.
var ErrWaits = errors.New("it waits for an answer")

// NewID returns the id of a new request.
func NewID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
