// Package control acts on threads that have begun: it finds them, waits for them, ends them, prunes them and reads
// their results. The commands of rye thread and the tool rye/agent/threads/orchestrator are its doors.
//
//	threads := &control.Controller{Roster: rows, Ledger: money, Now: time.Now, Root: "/home/ann/site"}
//	row, err := threads.Find(ctx, "acme/plan-17950")
//	all, err := threads.Wait(ctx, []string{row.ID}, control.Waiting{})
//
// Everything is read from the roster and the transcripts, so it does not matter which process drives a thread, and no
// server is needed.
//
// # Names
//
// A thread is named by its id, or by the beginning of its id if no other thread of the project begins so.
//
// # Chains
//
// A thread that has filled its model's context window hands its work over to another, and a person may go on with one
// that has ended. These threads are a chain. The last of a chain answers for one that has handed its work over.
//
// # Pruning
//
// Prune removes the directories of threads that have ended. What remains of a thread is in its row of the roster.
//
// A thread goes when it ended before a given time, and all threads that it is related to did too: a parent that goes
// on needs what its children answered, and a child the account of its parent. A transcript that can't be verified
// stays, since what would remain of it proves nothing.
//
// The row is written first, and durable before anything is removed. A process that dies before that has removed
// nothing. One that dies after it leaves files that belong to no thread; every command takes the thread as pruned, and
// the next prune removes them. Last the lease of the thread's lock in the store is released; where that fails, the
// next prune or rye store gc does it.
//
// # How an operation goes through here
//
// Controller.Find and FindAll turn names into rows of the roster, which Tidy has brought up to date: a row whose
// process died gets the state that its transcript has. Wait watches the rows until all have ended (waits.go notes
// which thread waits for which, and refuses a circle), Results reads each as a Snapshot, Cancel and Kill ask the
// driver to end, Prune removes directories. ResultOf and SoFar read a transcript alone.
package control

import (
	"context"
	"time"

	"github.com/rye-build/rye/exec"
	"github.com/rye-build/rye/exec/thread/ledger"
	"github.com/rye-build/rye/exec/thread/roster"
)

// A Controller acts on the threads of a user.
type Controller struct {
	Roster roster.Roster
	Ledger ledger.Ledger
	Now    func() time.Time
	Root   string        // of the project; "" for all projects
	Grace  time.Duration // zero for the constant Grace
	// WaitsPath is where threads that wait for others are noted.
	WaitsPath string
	Program   string // that ends threads, as in "rye 2.0.0"
	// Kernel returns what signs the end of a thread that no process drives.
	Kernel func() (*exec.Kernel, error)
	// Forget supersedes the requests for approvals of a thread that has ended, with the reason. Optional.
	Forget func(ctx context.Context, thread, why string) error
}
