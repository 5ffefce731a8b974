package roster

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec"
	"github.com/rye-build/rye/exec/proc"
	"github.com/rye-build/rye/exec/thread/transcript"
)

// A Lease is a claim on a thread by its driver.
type Lease struct {
	Roster Roster
	ID     string
	Dir    string // of the thread
	Epoch  int64
}

// BeginLease makes the directory of a new thread below dir, registers the thread and claims it. It never registers
// a thread without a directory. spawns is the most children of the thread's parent.
func BeginLease(ctx context.Context, roster Roster, dir string, row *Thread, spawns int64) (*Lease, error) {
	root := filepath.Dir(filepath.Dir(dir))
	err := os.MkdirAll(root, 0o700)
	if err == nil {
		row.Project, err = ProjectAt(root)
	}
	if err == nil {
		err = os.MkdirAll(filepath.Dir(row.Dir()), 0o700)
	}
	if err != nil {
		return nil, err
	}
	mkdirErr := os.Mkdir(row.Dir(), 0o700)
	if info, err := os.Stat(row.Dir()); mkdirErr != nil && (err != nil || !info.IsDir()) {
		return nil, mkdirErr
	}
	if err := roster.Create(ctx, row, spawns); err != nil {
		if mkdirErr == nil {
			os.Remove(row.Dir())
		}
		return nil, err
	}
	s, err := ClaimLease(ctx, roster, row)
	// It never runs: its row would block waiting threads and prune.
	if err != nil && fault.CodeOf(err) == fault.Limit {
		err = errors.Join(err, roster.Set(context.WithoutCancel(ctx), row.ID, 0, Failed, ""))
	}
	return s, err
}

// Reclaim makes the directory of a registered thread and claims the thread.
func Reclaim(ctx context.Context, r Roster, row *Thread) (*Lease, error) {
	if err := os.MkdirAll(row.Dir(), 0o700); err != nil {
		return nil, err
	}
	return ClaimLease(ctx, r, row)
}

// ClaimLease claims a thread. It fails if the thread's epoch is no longer the row's.
func ClaimLease(ctx context.Context, r Roster, row *Thread) (*Lease, error) {
	host, _ := os.Hostname()
	claimed, err := r.Claim(ctx, row.ID, row.Epoch,
		Driver{Process: os.Getpid(), Start: proc.Start(os.Getpid()), Host: host})
	if err != nil {
		return nil, err
	}
	return &Lease{Roster: r, ID: row.ID, Dir: row.Dir(), Epoch: claimed.Epoch}, nil
}

// Leave sets the state of the thread.
func (s *Lease) Leave(ctx context.Context, state State, next string) error {
	return s.Roster.Set(ctx, s.ID, s.Epoch, state, next)
}

// Driver returns the transcript's event for the claim.
func (s *Lease) Driver(k *exec.Kernel, program string) transcript.Driver {
	host, _ := os.Hostname()
	return transcript.Driver{Epoch: s.Epoch, Host: host, Process: os.Getpid(), Start: proc.Start(os.Getpid()),
		Program: program, Voucher: k.Voucher}
}

// Guard locks the thread for one write, unless another process has claimed it. See transcript.Options.
func (s *Lease) Guard() (release func(), err error) {
	return s.Roster.Hold(context.Background(), s.ID, s.Epoch)
}
