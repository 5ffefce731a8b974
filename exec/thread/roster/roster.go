// Package roster knows the threads of a user: in which state each is, and which process drives it.
//
// # States
//
//	created      it has a row, and nothing else yet
//	running      a process drives it
//	waiting      for an answer from outside; no process need drive it
//	interrupted  a limit, the budget, a signal or the death of its process stopped it; it can be resumed
//	completed, error, cancelled, killed, continued    it has ended
//
// A thread whose directory is gone is lost, whatever the state of its row, unless it was pruned: then the row has what
// remains of it.
//
// # How a claim goes through here
//
// BeginLease makes the directory of a new thread, creates its row and claims it by ClaimLease: Roster.Claim compares
// the epoch and returns the next one. Lease.Guard locks the thread for each write, Lease.Watch cancels the driver when
// a request to end or a higher epoch is in the row, and Lease.Leave writes the last state.
//
// # Requests
//
// Any process of the user may ask a thread to end: Ask writes that into its row, and the process that drives the
// thread sees it there. It cancels the thread at the next safe point, or, asked to kill it, ends what it runs at once.
// A request is never taken back: a thread that was asked to end and is resumed ends.
//
// # Epochs
//
// The process that drives a thread has claimed it: it holds a Lease, with the epoch of that claim, a number that rises
// by one with each. A claim names the epoch that it has seen, and fails with CONFLICT if another claim was faster, or
// if the process that drives the thread still runs. Each later write to roster, ledger and transcript names the epoch
// and fails with CONFLICT if there is a higher one.
//
// # The local roster
//
// One book (journal.Book) for all projects of a user, the file threads/registry of the state directory. A record is
// the whole row of a thread, and "op" for people; the last one counts:
//
//	{"op":"claim","thread":{"id":"acme/plan-1795000000-a2b3c","kind":"directive","directive":"directive:acme/plan",
//	 "project":{"root":"/home/ann/site","device":66306,"inode":5242},"state":"running","epoch":1,
//	 "driver":{"process":4711,"start":"0c7…/88123","host":"build-7"},"spawned":2,
//	 "asked":{"for":"cancel","reason":"too slow","time":"2026-11-20T12:00:01Z"},
//	 "created":"2026-11-20T12:00:00Z","updated":"2026-11-20T12:00:01Z"}}
//
// The file "lock" of a thread's directory is locked for each claim and each write of its driver.
package roster

import (
	"context"
	"crypto/rand"
	"encoding/base32"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rye-build/rye/cas/fault"
)

// A State of a thread.
type State string

// The states of threads.
const (
	Created     State = "created"
	Running     State = "running"
	Waiting     State = "waiting"
	Interrupted State = "interrupted"
	Completed   State = "completed"
	Failed      State = "error"
	Cancelled   State = "cancelled"
	Killed      State = "killed"
	Continued   State = "continued"
)

// States lists all.
var States = []State{Created, Running, Waiting, Interrupted, Completed, Failed, Cancelled, Killed, Continued}

// Ended reports whether a thread in this state never goes on.
func (s State) Ended() bool { return slices.Index(States, s) > slices.Index(States, Interrupted) }

// A Thread is a row.
type Thread struct {
	ID        string    `json:"id"`
	Kind      string    `json:"kind"` // directive or graph
	Directive string    `json:"directive"`
	Project   Project   `json:"project"`
	Parent    string    `json:"parent,omitempty"`
	Continues string    `json:"continues,omitempty"` // the thread that handed over to this one
	Next      string    `json:"next,omitempty"`      // the thread that this one handed over to
	State     State     `json:"state"`
	Epoch     int64     `json:"epoch"`
	Driver    Driver    `json:"driver,omitzero"`
	Spawned   int64     `json:"spawned,omitzero"` // children that were created
	Most      Most      `json:"most,omitzero"`    // of what is below it may run at once
	Asked     Request   `json:"asked,omitzero"`   // the strongest of what it was asked
	Created   time.Time `json:"created"`
	Updated   time.Time `json:"updated"`
	Pruned    *Pruned   `json:"pruned,omitempty"` // its directory was removed on purpose

	Lost  bool `json:"-"` // its directory is gone
	Alive bool `json:"-"` // its driver's process runs, on this machine
	Dead  bool `json:"-"` // it is running, and its driver has ended without saying so
}

// Most bounds what runs at once; 0 is no bound.
type Most struct {
	Children int64 `json:"children,omitzero"` // of a thread
	Total    int64 `json:"total,omitzero"`    // of one without a parent: all threads below it, and itself
}

// A Request asks a thread to end.
type Request struct {
	For    string    `json:"for"` // Cancel or Kill; "" for none
	Reason string    `json:"reason,omitempty"`
	Time   time.Time `json:"time,omitzero"`
}

// What a thread can be asked for. The second is the stronger one.
const (
	Cancel = "cancel"
	Kill   = "kill"
)

// A Project is where a thread's directory is.
type Project struct {
	Root   string `json:"root"`
	Device uint64 `json:"device,omitzero"`
	Inode  uint64 `json:"inode,omitzero"`
}

// A Driver is a process. Start names it together with its number: see proc.Start.
type Driver struct {
	Process int    `json:"process"`
	Start   string `json:"start,omitempty"`
	Host    string `json:"host,omitempty"`
}

// Dir returns the thread's directory.
func (t *Thread) Dir() string {
	return filepath.Join(t.Project.Root, ".ai", "threads", filepath.FromSlash(t.ID))
}

// A Filter chooses threads. The zero value chooses all.
type Filter struct {
	ID   string
	Live bool   // only those that haven't ended
	Root string // of a project: its threads, even if it had another path when they were begun
}

// A Roster is safe for many goroutines and processes. Returned rows are the caller's.
type Roster interface {
	// Create adds a row with State Created and Epoch 0. A thread that is there already is CONFLICT. With a parent it
	// counts as one of at most spawns children of that; one more is LIMIT_EXCEEDED.
	Create(ctx context.Context, t *Thread, spawns int64) error
	// Claim makes a process the driver of a thread that hasn't ended, whose epoch the caller has seen, and returns the
	// row. If as many threads run as those above it allow, it is LIMIT_EXCEEDED. One that goes on for another takes
	// its place.
	Claim(ctx context.Context, id string, seen int64, d Driver) (*Thread, error)
	// Set changes the state of a thread in the name of its driver, and its successor unless next is "".
	Set(ctx context.Context, id string, epoch int64, s State, next string) error
	// Hold locks a thread for one write of its driver, which releases it after that.
	Hold(ctx context.Context, id string, epoch int64) (release func(), err error)
	// Ask asks a thread that hasn't ended to end, and returns its row. Asked for both, it is killed.
	Ask(ctx context.Context, id string, q Request) (*Thread, error)
	// Changed returns when rows may have changed since the mark that it returned last, "" for none yet, but at the
	// latest after a second, and the next mark.
	Changed(ctx context.Context, mark string) (next string, err error)
	// Prune gives threads that have ended what remains of them, all or none. A thread can't be pruned as long as one
	// that it is related to hasn't ended (CONFLICT). Threads that are pruned already, or unknown, are passed over.
	Prune(ctx context.Context, threads map[string]Pruned) error
	// Threads lists rows, the newest first.
	Threads(ctx context.Context, f Filter) ([]*Thread, error)
}

// Get returns one row.
func Get(ctx context.Context, r Roster, id string) (*Thread, error) {
	all, err := r.Threads(ctx, Filter{ID: id})
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, fault.New(fault.NotFound, "no thread %q is registered", id).Try("rye thread list")
	}
	return all[0], nil
}

// NewID returns the id of a new thread.
func NewID(directive string, now time.Time) string {
	var b [4]byte
	rand.Read(b[:]) // never fails
	return fmt.Sprintf("%s-%d-%.5s", directive, now.Unix(), strings.ToLower(base32.StdEncoding.EncodeToString(b[:])))
}
