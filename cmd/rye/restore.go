package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"slices"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/lock"
	lockfile "github.com/rye-build/rye/lock/file"
	"github.com/rye-build/rye/manifest/policy/glob"
)

func restoreCommand() command {
	return command{
		path: "restore", group: "lock", help: "Put items of the project back as the lock has them.",
		more: "The bytes come from .ai/vendor or the store. All files of a tool are put back; files beside it that the lock doesn't know are left and told " +
			"of. What was there before goes into the store, and its digest is said: rye store cat gives it back.\n\nExamples:\n\n" +
			"    rye restore tool:acme/fetch\n    rye restore '**' --dry-run",
		aka: []string{"revert", "reset"},
		new: func() runner { return new(restoreRun) }, schema: "restore/1", output: restoreAnswer{},
	}
}

type restoreRun struct {
	Items  []string `arg:"" name:"item" complete:"locked" help:"Refs or globs of items in the lock."`
	DryRun bool     `name:"dry-run" help:"Say what would change, and write nothing."`
}

type restoreAnswer struct {
	DryRun bool          `json:"dry_run"`
	Items  int           `json:"items"`
	Files  []restoreLine `json:"files"` // those that were not as they are pinned
}

type restoreLine struct {
	File   string `json:"file"`
	Ref    string `json:"ref"`
	Digest string `json:"digest"`
	Before string `json:"before"` // the digest of what was there; empty: nothing
}

func (r restoreAnswer) text(t *terminal) {
	verb := dryVerb(r.DryRun, "restored", "would restore")
	for _, f := range r.Files {
		t.printf("%s  %s  %s\n", verb, f.File, f.Ref)
		if f.Before != "" && !r.DryRun {
			t.note("what was there is %s", f.Before)
		}
	}
	if len(r.Files) == 0 {
		t.note("%s as the lock has them", counted(int64(r.Items), "item"))
	}
}

// A restoring is one rye restore.
type restoring struct {
	l       *locking
	run     *restoreRun
	objects lock.Source
	dir     *confined
	answer  restoreAnswer
	seen    map[string]bool
}

func (c *restoreRun) run(ctx context.Context, a *app) (answer, error) {
	l, err := a.locking(false)
	if err != nil {
		return nil, err
	}
	defer l.close()
	if err := l.needLock(); err != nil {
		return nil, err
	}
	pins, err := c.pins(l)
	if err != nil {
		return nil, err
	}
	r := &restoring{l: l, run: c, answer: restoreAnswer{DryRun: c.DryRun, Files: []restoreLine{}}, seen: map[string]bool{}}
	if r.objects, err = l.objects(); err != nil {
		return nil, err
	}
	if r.dir, err = confine(l.dotAI, 0o777); err != nil {
		return nil, err
	}
	defer r.dir.close()
	for _, p := range pins {
		if err := r.pin(ctx, p); err != nil {
			return r.answer, err
		}
	}
	return r.answer, nil
}

// pins are those of the project that the arguments mean.
func (c *restoreRun) pins(l *locking) (pins []*lockfile.Pin, err error) {
	for _, text := range c.Items {
		found := false
		g, globErr := glob.Parse(text)
		for i := range l.old.Pins {
			p := &l.old.Pins[i]
			if p.Ref.String() != text && (globErr != nil || !g.Match(glob.Name{Kind: p.Ref.Kind, ID: p.Ref.ID})) {
				continue
			}
			found = true
			if p.From == lockfile.FromProject && !slices.Contains(pins, p) {
				pins = append(pins, p)
			} else if p.Ref.String() == text && p.From != lockfile.FromProject {
				l.app.term.note("%s is from %s, and stands in no file of the project", text, p.From)
			}
		}
		if !found {
			return nil, l.notLocked(text)
		}
	}
	return pins, nil
}

// pin puts back the file of a pin, and the others of its directory.
func (r *restoring) pin(ctx context.Context, p *lockfile.Pin) error {
	r.answer.Items++
	if p.Files.IsZero() {
		return r.file(ctx, p.Ref, p.Path, p.Digest, p.Size, p.Mode)
	}
	return cas.Walk(ctx, r.objects, cas.ID{Kind: cas.TreeKind, Digest: p.Files}, func(path string, e cas.Entry) error {
		if e.Mode == cas.Dir {
			return nil
		}
		return r.file(ctx, p.Ref, path, e.Digest, e.Size, e.Mode)
	})
}

// file puts back one file.
func (r *restoring) file(ctx context.Context, ref model.Ref, path string, digest cas.Digest, size int64, mode cas.Mode) error {
	if r.seen[path] {
		return nil
	}
	r.seen[path] = true
	before, err := r.dir.read(path, size+maxRestored)
	if err != nil {
		return err
	}
	if before != nil && cas.Sum(before) == digest {
		return nil
	}
	b, err := r.bytes(ctx, ref, digest)
	if err != nil {
		return err
	}
	line := restoreLine{File: r.dir.where(path), Ref: ref.String(), Digest: digest.String()}
	if before != nil {
		line.Before = cas.Sum(before).String()
	}
	if !r.run.DryRun {
		if before != nil {
			s, err := r.l.found.store(true)
			if err != nil {
				return err
			}
			if _, err := s.Put(ctx, cas.Blob, bytes.NewReader(before)); err != nil {
				return err
			}
		}
		perm := fs.FileMode(0o644)
		if mode == cas.Exec {
			perm = 0o755
		}
		if err := r.dir.write(path, perm, before == nil, b); err != nil {
			return err
		}
	}
	r.answer.Files = append(r.answer.Files, line)
	return nil
}

// maxRestored is how much longer than its pin a file may be that is overwritten: what is larger isn't read into memory.
const maxRestored = 64 << 20

func (r *restoring) bytes(ctx context.Context, ref model.Ref, digest cas.Digest) ([]byte, error) {
	id := cas.ID{Kind: cas.Blob, Digest: digest}
	o, err := r.objects.Get(ctx, id)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = &lock.MissingError{ID: id, NeededBy: ref.String()}
		}
		return nil, err
	}
	defer o.Close()
	return io.ReadAll(o)
}
