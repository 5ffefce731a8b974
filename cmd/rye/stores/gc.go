package stores

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"time"

	"github.com/rye-build/rye/cas/disk"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/lock/gcroot"
)

type storeGcRun struct {
	Grace  time.Duration `default:"336h" help:"Minimum time an object has been unreachable (${default})."`
	DryRun bool          `name:"dry-run" help:"Show what would be removed; remove nothing."`
}

type storeGcAnswer struct {
	DryRun bool `json:"dry_run"`
	disk.GCResult
	Released []string `json:"released"` // locks that no longer exist
}

func (s storeGcAnswer) Text(term *cli.Terminal) {
	removed, released := "removed", "released"
	if s.DryRun {
		removed, released = "would remove", "would release"
	}
	for _, path := range s.Released {
		term.Note("%s the objects of %q, which no longer exists", released, path)
	}
	term.Printf("%s %d of %s; %d reachable from %s\n", removed, s.Removed,
		fault.Count(s.Unreachable, "unreachable record"), s.Reachable, fault.Count(int64(s.Roots), "root"))
	if !s.DryRun && s.Removed > 0 {
		term.Printf("%s, was %s\n", cli.ByteSize(float64(s.BytesAfter)), cli.ByteSize(float64(s.BytesBefore)))
	}
}

func (c *storeGcRun) Run(ctx context.Context, a *cli.App) (cli.Answer, error) {
	if c.Grace < 0 {
		return nil, fault.New(fault.Validation, "--grace must not be negative")
	}
	s, err := paths.HaveStore(a)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	released, err := c.release(ctx, a, s)
	if err != nil {
		return nil, err
	}
	r, err := s.GC(ctx, disk.GCOptions{Grace: c.Grace, DryRun: c.DryRun})
	if err != nil {
		return nil, err
	}
	return storeGcAnswer{c.DryRun, r, released}, nil
}

// release removes the refs of locks that no longer exist, and returns their paths. Refs that can't be read stay: fsck
// reports them.
func (c *storeGcRun) release(ctx context.Context, app *cli.App, store *disk.Store) (released []string, err error) {
	refs, err := store.Refs()
	if err != nil {
		return nil, err
	}
	released = []string{}
	for _, r := range refs {
		path, err := gcroot.Path(ctx, store, r.Name)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err != nil {
			app.Term.Detail("%s: %s", r.Name, fault.Of(err).Text)
		}
		if path == "" {
			continue
		}
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		released = append(released, path)
		if c.DryRun {
			continue
		}
		if err := gcroot.Forget(ctx, store, path); err != nil {
			return nil, err
		}
	}
	return released, nil
}
