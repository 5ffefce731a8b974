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

// A Lease is the place of a thread's driver.
type Lease struct {
	Roster Roster
	ID     string
	Dir    string // of the thread
	Epoch  int64
}

// BeginLease makes the directory of a new thread below dir, registers the thread and claims it. A thread that has no
// place is never registered. A thread with a parent is one of at most spawns children.
func BeginLease(ctx context.Context, r Roster, dir string, row *Thread, spawns int64) (*Lease, error) {
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
	made := os.Mkdir(row.Dir(), 0o700)
	if info, err := os.Stat(row.Dir()); made != nil && (err != nil || !info.IsDir()) {
		return nil, made
	}
	if err := r.Create(ctx, row, spawns); err != nil {
		if made == nil {
			os.Remove(row.Dir())
		}
		return nil, err
	}
	s, err := ClaimLease(ctx, r, row)
	// it never runs: its row would hold up those who wait for it, and prune
	if err != nil && fault.CodeOf(err) == fault.Limit {
		err = errors.Join(err, r.Set(context.WithoutCancel(ctx), row.ID, 0, Failed, ""))
	}
	return s, err
}

// Reclaim makes the directory of a thread that is registered, and claims the thread.
func Reclaim(ctx context.Context, r Roster, row *Thread) (*Lease, error) {
	if err := os.MkdirAll(row.Dir(), 0o700); err != nil {
		return nil, err
	}
	return ClaimLease(ctx, r, row)
}

// ClaimLease takes over a thread whose row was seen.
func ClaimLease(ctx context.Context, r Roster, row *Thread) (*Lease, error) {
	host, _ := os.Hostname()
	claimed, err := r.Claim(ctx, row.ID, row.Epoch,
		Driver{Process: os.Getpid(), Start: proc.Start(os.Getpid()), Host: host})
	if err != nil {
		return nil, err
	}
	return &Lease{Roster: r, ID: row.ID, Dir: row.Dir(), Epoch: claimed.Epoch}, nil
}

// Leave gives the thread its state.
func (s *Lease) Leave(ctx context.Context, state State, next string) error {
	return s.Roster.Set(ctx, s.ID, s.Epoch, state, next)
}

// Driver is what the transcript has of the claim.
func (s *Lease) Driver(k *exec.Kernel, program string) transcript.Driver {
	host, _ := os.Hostname()
	return transcript.Driver{Epoch: s.Epoch, Host: host, Process: os.Getpid(), Start: proc.Start(os.Getpid()),
		Program: program, Voucher: k.Voucher}
}

// Guard locks the thread for one write, unless another process has claimed it: see transcript.Options.
func (s *Lease) Guard() (release func(), err error) {
	return s.Roster.Hold(context.Background(), s.ID, s.Epoch)
}
