package locks

import (
	"context"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/places"
	"github.com/rye-build/rye/lock/content"
)

func FetchCommand() cli.Command {
	return cli.Command{
		Path: "fetch", Quiet: true, Group: "lock", Help: "Download everything that the lock names.",
		More: "What is vendored is taken from there, bundles from where the lock says, and the project's own items from the project. Everything is " +
			"verified before it is there. It changes neither rye.yaml nor rye.lock.\n\nExamples:\n\n    rye fetch\n    rye fetch --offline",
		Aka: []string{"download", "sync"},
		New: func() cli.Runner { return new(fetchRun) }, Schema: "fetch/1", Output: FetchAnswer{},
	}
}

type fetchRun struct{}

type FetchAnswer struct{ content.FetchResult }

func (f FetchAnswer) Text(t *cli.Terminal) {
	if f.Fetched == 0 && f.Objects == 1 {
		t.Note("the one object of the lock is in the store")
		return
	}
	if f.Fetched == 0 {
		t.Note("all %s of the lock are in the store", fault.Count(f.Objects, "object"))
		return
	}
	t.Printf("fetched  %s  %s\n", fault.Count(f.Fetched, "object"), cli.ByteSize(float64(f.Bytes)))
}

func (*fetchRun) Run(ctx context.Context, a *cli.App) (cli.Answer, error) {
	unlock, err := places.Alone(ctx, a, false) // what the store is to keep is said by the lock that is there in the end
	if err != nil {
		return nil, err
	}
	defer unlock()
	l, err := places.OpenLock(a, false)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	if err := l.NeedLock(); err != nil {
		return nil, err
	}
	if err := l.Open(); err != nil {
		return nil, err
	}
	found, err := fetch(ctx, l)
	if err != nil {
		return nil, err
	}
	return FetchAnswer{found}, nil
}

// fetch fetches what the lock names and shows how far it is.
func fetch(ctx context.Context, l *places.Lock) (content.FetchResult, error) {
	p := l.App.Progress("fetching", 0)
	defer p.Done()
	if l.Progress == nil {
		l.Progress = p.Add
	}
	return content.Fetch(ctx, l.Lock)
}
