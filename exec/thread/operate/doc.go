// Package operate is what people and threads do with threads that have begun: find them, wait for them, read what came of them.
// The commands of rye thread and the tool rye/agent/threads/orchestrator are its doors.
//
//	desk := &operate.Desk{Roster: rows, Ledger: money, Now: time.Now, Root: "/home/ann/site"}
//	row, err := desk.Find(ctx, "acme/plan-17950")
//	all, err := desk.Wait(ctx, []string{row.ID}, operate.Waiting{})
//
// Everything is read from the registry and the transcripts, so it does not matter which process drives a thread, and no server
// is needed.
//
// # Names
//
// A thread is named by its id, or by the beginning of its id if no other thread of the project begins so.
//
// # Chains
//
// A thread that has filled its model's context window hands its work over to another, and a person may go on with one that has
// ended. These threads are a chain. What is asked of one that has handed its work over is answered by the last of its chain.
package operate

import (
	"context"
	"time"

	"github.com/rye-build/rye/exec"
	"github.com/rye-build/rye/exec/thread/ledger"
	"github.com/rye-build/rye/exec/thread/roster"
)

// A Desk operates on the threads of a user.
type Desk struct {
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
	// Forget supersedes the requests for approvals of a thread that has ended, and says why. Optional.
	Forget func(ctx context.Context, thread, why string) error
}
