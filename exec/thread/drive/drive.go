// Package drive makes this process the driver of a thread: it claims the thread in the registry, and from then on each write to
// the transcript is made under that claim.
package drive

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec"
	"github.com/rye-build/rye/exec/proc"
	"github.com/rye-build/rye/exec/thread/roster"
	"github.com/rye-build/rye/exec/thread/transcript"
)

// A Seat is the place of a thread's driver.
type Seat struct {
	Registry roster.Registry
	ID       string
	Dir      string // of the thread
	Epoch    int64
}

// Begin makes the directory of a new thread below dir, registers the thread and claims it. A thread that has no place is never
// registered. A thread with a parent is one of at most spawns children.
func Begin(ctx context.Context, r roster.Registry, dir string, row *roster.Thread, spawns int64) (*Seat, error) {
	root := filepath.Dir(filepath.Dir(dir))
	err := os.MkdirAll(root, 0o700)
	if err == nil {
		row.Project, err = roster.ProjectAt(root)
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
	s, err := Claim(ctx, r, row)
	if err != nil && fault.CodeOf(err) == fault.Limit { // it never runs: its row would hold up those who wait for it, and prune
		err = errors.Join(err, r.Set(context.WithoutCancel(ctx), row.ID, 0, roster.Failed, ""))
	}
	return s, err
}

// Again makes the directory of a thread that is registered, and claims the thread.
func Again(ctx context.Context, r roster.Registry, row *roster.Thread) (*Seat, error) {
	if err := os.MkdirAll(row.Dir(), 0o700); err != nil {
		return nil, err
	}
	return Claim(ctx, r, row)
}

// Claim takes over a thread whose row was seen.
func Claim(ctx context.Context, r roster.Registry, row *roster.Thread) (*Seat, error) {
	host, _ := os.Hostname()
	claimed, err := r.Claim(ctx, row.ID, row.Epoch, roster.Driver{Process: os.Getpid(), Start: proc.Start(os.Getpid()), Host: host})
	if err != nil {
		return nil, err
	}
	return &Seat{Registry: r, ID: row.ID, Dir: row.Dir(), Epoch: claimed.Epoch}, nil
}

// Leave gives the thread its state.
func (s *Seat) Leave(ctx context.Context, state roster.State, next string) error {
	return s.Registry.Set(ctx, s.ID, s.Epoch, state, next)
}

// Driver is what the transcript has of the claim.
func (s *Seat) Driver(k *exec.Kernel, program string) transcript.Driver {
	host, _ := os.Hostname()
	return transcript.Driver{Epoch: s.Epoch, Host: host, Process: os.Getpid(), Start: proc.Start(os.Getpid()), Program: program, Voucher: k.Voucher}
}

// Guard locks the thread for one write, unless another process has claimed it: see transcript.Options.
func (s *Seat) Guard() (release func(), err error) {
	return s.Registry.Hold(context.Background(), s.ID, s.Epoch)
}
