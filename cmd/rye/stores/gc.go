package stores

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"time"

	"github.com/rye-build/rye/cas/disk"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/classify"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/places"
	"github.com/rye-build/rye/lock"
)

func StoreGcCommand() cli.Command {
	return cli.Command{
		Path: "store gc", Quiet: true, Group: "store", Help: "Remove unreachable objects.",
		More: "Only what an earlier gc has already seen unreachable, at least the time of grace ago, is removed, and with --grace 0s whatever is unreachable, at once. " +
			"It is safe beside running writers and readers. What a rye.lock names is kept for as long as that file is there.\n\nExamples:\n\n    rye store gc --dry-run\n    rye store gc --grace 0s",
		Aka:    []string{"gc", "prune", "store prune"},
		New:    func() cli.Runner { return new(storeGcRun) },
		Schema: "store-gc/1", Output: storeGcAnswer{},
	}
}

type storeGcRun struct {
	Grace  time.Duration `default:"336h" help:"Minimum time an object has been unreachable (${default})."`
	DryRun bool          `name:"dry-run" help:"Show what would be removed; remove nothing."`
}

type storeGcAnswer struct {
	DryRun      bool     `json:"dryRun"`
	Roots       int      `json:"roots"`
	Reachable   int64    `json:"reachable"`
	Unreachable int64    `json:"unreachable"`
	Removed     int64    `json:"removed"`
	PacksBefore int      `json:"packsBefore"`
	PacksAfter  int      `json:"packsAfter"`
	BytesBefore int64    `json:"bytesBefore"`
	BytesAfter  int64    `json:"bytesAfter"`
	LetGo       []string `json:"letGo"` // locks that are gone, and what they named with them
}

func (s storeGcAnswer) Text(t *cli.Terminal) {
	verb, letGo := "removed", "let go of"
	if s.DryRun {
		verb, letGo = "would remove", "would let go of"
	}
	for _, path := range s.LetGo {
		t.Note("%s what %q named, which is gone", letGo, path)
	}
	t.Printf("%s %d of %s; %d reachable from %s\n", verb, s.Removed, fault.Count(int64(s.Unreachable), "unreachable record"), s.Reachable, fault.Count(int64(s.Roots), "root"))
	if !s.DryRun && s.Removed > 0 {
		t.Printf("%s, was %s\n", cli.ByteSize(float64(s.BytesAfter)), cli.ByteSize(float64(s.BytesBefore)))
	}
}

func (c *storeGcRun) Run(ctx context.Context, a *cli.App) (cli.Answer, error) {
	if c.Grace < 0 {
		return nil, &fault.Error{Code: fault.Validation, Text: "the grace is a time in the future"}
	}
	s, err := places.HaveStore(a)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	gone, err := c.letGo(ctx, a, s)
	if err != nil {
		return nil, err
	}
	r, err := s.GC(ctx, disk.GCOptions{Grace: c.Grace, DryRun: c.DryRun})
	if err != nil {
		return nil, err
	}
	return storeGcAnswer{c.DryRun, r.Roots, r.Reachable, r.Unreachable, r.Removed, r.PacksBefore, r.PacksAfter, r.BytesBefore, r.BytesAfter, gone}, nil
}

// letGo takes the names from what was kept for locks that are gone. What can't be read is kept: fsck tells of it.
func (c *storeGcRun) letGo(ctx context.Context, a *cli.App, s *disk.Store) (gone []string, err error) {
	refs, err := s.Refs()
	if err != nil {
		return nil, err
	}
	gone = []string{}
	for _, r := range refs {
		path, err := lock.KeptPath(ctx, s, r.Name)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err != nil {
			a.Term.Detail("%s: %s", r.Name, classify.Classify(err).Text)
		}
		if path == "" {
			continue
		}
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		gone = append(gone, path)
		if c.DryRun {
			continue
		}
		if err := lock.Forget(ctx, s, path); err != nil {
			return nil, err
		}
	}
	return gone, nil
}
