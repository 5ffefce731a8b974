// Package roster records the threads of a user with their states and drivers.
//
// # States
//
//	created      registered, not yet started
//	running      a process drives it
//	waiting      waits for an outside answer; needs no driver
//	interrupted  stopped by a limit, the budget, a signal or its process's death; can be resumed
//	completed, error, cancelled, killed, continued    it has ended
//
// A thread without its directory is lost, in any state, unless it was pruned: then its row has what remains of it.
//
// # How a claim goes through here
//
// BeginLease makes the directory of a new thread, creates its row, and claims it with ClaimLease: Roster.Claim
// compares the epoch and returns the next one. Lease.Guard locks the thread for each write. Lease.Watch cancels the
// driver when the row has a request to end or a higher epoch. Lease.Leave writes the last state.
//
// # Requests
//
// Any process of the user may ask a thread to end: Ask writes the request into the row, where the driver finds it.
// The driver cancels the thread at the next safe point, or kills it at once if asked to. A request is never
// withdrawn: a thread with one ends when it is resumed.
//
// # Epochs
//
// The driver of a thread has claimed it: it holds a Lease with the epoch of that claim. The epoch rises by one with
// each claim. A claim names the epoch of the row that the caller has read. It fails with CONFLICT if another claim
// was faster or if the driver still runs. Each later write to roster, ledger and transcript names the epoch and
// fails with CONFLICT if a higher one exists.
//
// # The local roster
//
// The local roster is one book (journal.Book) for all projects of a user, the file threads/registry of the state
// directory. A record has the whole row of a thread, and "op" for people. The last record of a thread counts:
//
//	{"op":"claim","thread":{"id":"acme/plan-1795000000-a2b3c","kind":"directive","directive":"directive:acme/plan",
//	 "project":{"root":"/home/ann/site","device":66306,"inode":5242},"state":"running","epoch":1,
//	 "driver":{"process":4711,"start":"0c7…/88123","host":"build-7"},"spawned":2,
//	 "asked":{"for":"cancel","reason":"too slow","time":"2026-11-20T12:00:01Z"},
//	 "created":"2026-11-20T12:00:00Z","updated":"2026-11-20T12:00:01Z"}}
//
// Each claim and each write of a driver locks the file "lock" of the thread's directory.
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

// A State is the state of a thread.
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

// States lists all states.
var States = []State{Created, Running, Waiting, Interrupted, Completed, Failed, Cancelled, Killed, Continued}

// Ended reports whether a thread in this state can never continue.
func (s State) Ended() bool { return slices.Index(States, s) > slices.Index(States, Interrupted) }

// A Thread is the row of a thread.
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
	Spawned   int64     `json:"spawned,omitzero"` // number of children created
	Most      Most      `json:"most,omitzero"`    // limits for the threads below it
	Asked     Request   `json:"asked,omitzero"`   // the strongest request
	Created   time.Time `json:"created"`
	Updated   time.Time `json:"updated"`
	Pruned    *Pruned   `json:"pruned,omitempty"` // its directory was removed on purpose

	Lost  bool `json:"-"` // its directory is missing
	Alive bool `json:"-"` // its driver's process runs, on this machine
	Dead  bool `json:"-"` // running, but its driver died
}

// Most bounds the threads that run in parallel; 0 is no bound.
type Most struct {
	Children int64 `json:"children,omitzero"` // children of the thread
	Total    int64 `json:"total,omitzero"`    // for a root: itself and all threads below it
}

// A Request is a request that a thread end.
type Request struct {
	For    string    `json:"for"` // Cancel or Kill; "" without a request
	Reason string    `json:"reason,omitempty"`
	Time   time.Time `json:"time,omitzero"`
}

// The kinds of requests, the stronger one last.
const (
	Cancel = "cancel"
	Kill   = "kill"
)

// A Project is the project of a thread's directory.
type Project struct {
	Root   string `json:"root"`
	Device uint64 `json:"device,omitzero"`
	Inode  uint64 `json:"inode,omitzero"`
}

// A Driver is a process. Process and Start identify it together: see proc.Start.
type Driver struct {
	Process int    `json:"process"`
	Start   string `json:"start,omitempty"`
	Host    string `json:"host,omitempty"`
}

// Dir returns the thread's directory.
func (t *Thread) Dir() string {
	return filepath.Join(t.Project.Root, ".ai", "threads", filepath.FromSlash(t.ID))
}

// A Filter selects threads. The zero value selects all.
type Filter struct {
	ID   string
	Live bool   // only threads that haven't ended
	Root string // only threads of the project at this path, even if the project was moved
}

// A Roster is safe for concurrent use, also by many processes. The caller owns returned rows.
type Roster interface {
	// Create adds a row with State Created and Epoch 0. An existing thread is CONFLICT. More than spawns children
	// of one parent are LIMIT_EXCEEDED.
	Create(ctx context.Context, t *Thread, spawns int64) error
	// Claim makes a process the driver of a thread that hasn't ended, and returns the row. seen is the epoch in the
	// caller's copy. If the limits above the thread allow no more threads, it returns LIMIT_EXCEEDED; a thread that
	// continues another takes that one's place.
	Claim(ctx context.Context, id string, seen int64, d Driver) (*Thread, error)
	// Set sets the state of a thread on behalf of its driver, and its successor unless next is "".
	Set(ctx context.Context, id string, epoch int64, s State, next string) error
	// Hold locks a thread for one write of its driver. The driver then calls release.
	Hold(ctx context.Context, id string, epoch int64) (release func(), err error)
	// Ask asks a thread that hasn't ended to end, and returns its row. Kill replaces Cancel.
	Ask(ctx context.Context, id string, q Request) (*Thread, error)
	// Changed waits until rows may have changed since mark, at most a second, and returns the next mark. The first
	// mark is "".
	Changed(ctx context.Context, mark string) (next string, err error)
	// Prune records what remains of ended threads, all or none. A thread with a related thread that hasn't ended is
	// CONFLICT. Unknown and already pruned threads are skipped.
	Prune(ctx context.Context, threads map[string]Pruned) error
	// Threads returns rows, the newest first.
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
