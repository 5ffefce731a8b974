package locks

import (
	"context"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/cmd/rye/signs"
	"github.com/rye-build/rye/lock/restore"
)

type fetchRun struct{}

// FetchAnswer is the result of rye fetch.
type FetchAnswer struct{ restore.FetchResult }

func (f FetchAnswer) Text(t *cli.Terminal) {
	switch {
	case f.Fetched > 0:
		t.Printf("fetched  %s  %s\n", fault.Count(f.Fetched, "object"), cli.ByteSize(float64(f.Bytes)))
	case f.Objects == 1:
		t.Note("the one object of the lock is in the store")
	default:
		t.Note("all %s of the lock are in the store", fault.Count(f.Objects, "object"))
	}
}

func (c *fetchRun) Run(ctx context.Context, a *cli.App) (cli.Answer, error) {
	return signs.Meet(ctx, a, "", nil, func() (cli.Answer, error) { return c.fetch(ctx, a) })
}

func (*fetchRun) fetch(ctx context.Context, a *cli.App) (cli.Answer, error) {
	// Another rye could replace the lock, which decides what the store keeps.
	unlock, err := paths.Alone(ctx, a, false)
	if err != nil {
		return nil, err
	}
	defer unlock()
	l, err := openLocked(a, true)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	found, err := fetch(ctx, l)
	if err != nil {
		return nil, err
	}
	return FetchAnswer{found}, nil
}

// openLocked opens the project's lock, which must exist. With sources, missing bundles can be fetched.
func openLocked(a *cli.App, sources bool) (*paths.Lock, error) {
	l, err := paths.OpenLock(a, false)
	if err != nil {
		return nil, err
	}
	if err = l.NeedLock(); err == nil && sources {
		err = l.Open()
	}
	if err != nil {
		l.Close()
	}
	return l, err
}

// fetch fetches what the lock names and shows its progress.
func fetch(ctx context.Context, l *paths.Lock) (restore.FetchResult, error) {
	p := l.App.Progress("fetching", 0)
	defer p.Done()
	if l.Progress == nil {
		l.Progress = p.Add
	}
	return restore.Fetch(ctx, l.Lock)
}
