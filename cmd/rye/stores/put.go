package stores

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/disk"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/worktree"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
)

type storePutRun struct {
	Paths    []string `arg:"" name:"path" complete:"file" help:"Files and directories; - for standard input."`
	Ref      string   `placeholder:"NAME" help:"Point this ref at the one PATH."`
	Paranoid bool     `help:"Read every file; ignore the stat cache."`
}

type storePutAnswer struct {
	Objects []putLine `json:"objects"`
}

type putLine struct {
	Path      string     `json:"path"`
	Kind      string     `json:"kind"`
	Digest    cas.Digest `json:"digest"`
	Files     int64      `json:"files"`
	Bytes     int64      `json:"bytes"`
	Read      int64      `json:"read"` // files; the others had not changed
	EmptyDirs int64      `json:"empty_dirs"`
	Droppings int64      `json:"droppings"` // left out: .git, caches, and the like
	Ref       string     `json:"ref,omitempty"`
}

func (s storePutAnswer) Text(t *cli.Terminal) {
	for _, o := range s.Objects {
		if len(s.Objects) == 1 {
			t.Printf("%s\n", o.Digest)
		} else {
			t.Printf("%s  %s\n", o.Digest, o.Path)
		}
	}
}

func (c *storePutRun) Run(ctx context.Context, app *cli.App) (cli.Answer, error) {
	if c.Ref != "" && len(c.Paths) > 1 {
		return nil, fault.New(fault.Validation, "--ref takes exactly one path").
			Try(fault.Command("rye store put --ref", c.Ref, c.Paths[0]))
	}
	if c.Ref != "" {
		if err := disk.CheckRefName(c.Ref); err != nil {
			return nil, err
		}
	}
	s, err := paths.MakeStore(app)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	ans, err := c.put(ctx, app, s)
	if len(ans.Objects) == 0 {
		return nil, err
	}
	return ans, err
}

// put stores the paths in one batch. Its answer lists the objects that are durable, even with an error.
func (c *storePutRun) put(ctx context.Context, app *cli.App, store *disk.Store) (ans storePutAnswer, err error) {
	cache := paths.OpenStatCache(app, c.Paranoid)
	defer cache.Finish(ctx, app)
	p := app.Progress("storing", 0)
	defer p.Done()
	p.Expect(ctx, c.size)
	batch, err := store.Batch(ctx)
	if err != nil {
		return ans, err
	}
	defer func() { err = errors.Join(err, batch.Close()) }()
	var lines []putLine
	for _, path := range c.Paths {
		line, err := c.one(ctx, app, batch, path, cache, p)
		if err != nil {
			return ans, err
		}
		lines = append(lines, line)
	}
	if err := batch.Commit(ctx); err != nil {
		return ans, err
	}
	ans.Objects = lines
	if c.Ref != "" {
		// Until the batch is closed, gc keeps its objects.
		kind, _ := cas.ParseKind(ans.Objects[0].Kind)
		err = store.PutRef(ctx, c.Ref, cas.ID{Kind: kind, Digest: ans.Objects[0].Digest})
	}
	return ans, err
}

// size returns the size of the files to put, for the progress bar.
func (c *storePutRun) size(ctx context.Context) (sum int64, err error) {
	for _, path := range c.Paths {
		err := filepath.WalkDir(path, func(_ string, d fs.DirEntry, err error) error {
			if err == nil {
				err = ctx.Err()
			}
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			fi, err := d.Info()
			if err == nil {
				sum += fi.Size()
			}
			return err
		})
		if err != nil {
			return 0, err
		}
	}
	return sum, nil
}

// one stores one path.
func (c *storePutRun) one(ctx context.Context, app *cli.App, batch cas.Batch, path string, cache *paths.StatCache,
	p *cli.Progress) (putLine, error) {
	line := putLine{Path: path, Ref: c.Ref}
	if path == "-" {
		info, err := batch.Put(ctx, cas.Blob, p.Counted(app.Input(ctx)))
		line.Kind, line.Digest, line.Files, line.Bytes, line.Read = cas.Blob.String(), info.Digest, 1, info.Size, 1
		return line, err
	}
	var last int64
	o := worktree.Options{Cache: cache.Cache}
	if p != nil {
		o.Progress = func(_, bytes int64) { p.Sum.Store(last + bytes) }
	}
	result, err := worktree.Import(ctx, batch, path, o)
	if err != nil {
		return line, err
	}
	cache.Files.Add(result.Files)
	cache.Read.Add(result.Read)
	line.Kind, line.Digest, line.Files, line.Bytes, line.Read = result.ID.Kind.String(), result.ID.Digest,
		result.Files, result.Bytes,
		result.Read
	line.EmptyDirs, line.Droppings = result.EmptyDirs, result.Droppings
	app.Term.Note("stored %s, %s, of %q", fault.Count(result.Files, "file"), cli.ByteSize(float64(result.Bytes)), path)
	if result.Droppings > 0 {
		app.Term.Note("skipped %s that trees never contain (.git, caches and the like)",
			fault.Count(result.Droppings, "name"))
	}
	if result.EmptyDirs > 0 {
		app.Term.Note("skipped %s without files", fault.Count(result.EmptyDirs, "directory"))
	}
	return line, nil
}
