package restore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/edit"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/lock"
	"github.com/rye-build/rye/lock/drift"
	lockfile "github.com/rye-build/rye/lock/file"
	"github.com/rye-build/rye/lock/workspace"
)

// A RestoreResult lists what Restore did, or would do with DryRun.
type RestoreResult struct {
	DryRun bool           `json:"dry_run"`
	Items  int            `json:"items"`
	Files  []RestoredFile `json:"files"` // those that differed from their pins
	Left   []LeftFile     `json:"left"`  // files that would be part of an item but aren't in the lock
}

// A RestoredFile is a file that has its locked content again.
type RestoredFile struct {
	File   string `json:"file"`
	Ref    string `json:"ref"`
	Digest string `json:"digest"`
	Before string `json:"before"` // the digest of the old content; empty: no file
	Only   string `json:"only"`   // "mode" if only the mode differed
}

// A LeftFile is a file in an item's directory that is not in the lock.
type LeftFile struct {
	File string `json:"file"`
	Ref  string `json:"ref"`
}

// Restore gives the files of pins from the project their locked content. It replaces all files of all pins or none,
// and first saves the current content in the store. The result is nil if nothing was tried.
func Restore(ctx context.Context, lock *workspace.Lock, pins []lockfile.Pin, dryRun bool) (*RestoreResult, error) {
	restoring := &restoring{l: lock, writes: !dryRun}
	var err error
	if restoring.objects, err = lock.Objects(); err != nil {
		return nil, err
	}
	if restoring.dir, err = openDir(lock.DotAI, !dryRun); err != nil {
		return nil, err
	}
	if restoring.dir != nil {
		defer restoring.dir.Close()
	}
	if err := restoring.add(ctx, pins); err != nil {
		return nil, err
	}
	if err := restoring.compare(ctx); err != nil {
		return nil, err
	}
	if dryRun {
		err = restoring.missing(ctx)
	} else if err = restoring.write(ctx); errors.Is(err, cas.ErrDamaged) {
		err = restoring.damaged(ctx, err)
	}
	result := &RestoreResult{DryRun: dryRun, Items: len(pins), Files: make([]RestoredFile, 0, len(restoring.files)),
		Left: []LeftFile{}}
	for _, f := range restoring.files {
		if f.done || dryRun && err == nil {
			result.Files = append(result.Files, f.line())
		}
	}
	if err == nil {
		result.Left = append(result.Left, left(ctx, lock, pins)...)
	}
	return result, err
}

// damaged restores from the store if .ai/vendor is damaged. If the store is damaged too, git may have the files.
func (r *restoring) damaged(ctx context.Context, err error) error {
	if v, s := r.l.Vendor, r.l.DiskStore(); v != nil && s != nil {
		r.objects = lock.First(s, v)
		if err = r.write(ctx); err == nil {
			r.l.Warn(fmt.Sprintf("%q has damaged objects: rye vendor writes them again", r.l.Show(r.l.VendorDir())),
				nil)
			return nil
		}
	}
	if !errors.Is(err, cas.ErrDamaged) {
		return err
	}
	var paths []string
	for _, x := range r.files {
		paths = append(paths, x.path)
	}
	f := fault.Of(err)
	f.Hint = fromGit(r.l, paths...)
	return f
}

// openDir opens .ai for writing, and creates it if it was deleted. It returns nil if it is missing and write is
// false.
func openDir(dir string, write bool) (*osfile.Dir, error) {
	if write {
		return edit.OpenDir(dir, ai.Project)
	}
	if err := ai.Inside(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	d, err := osfile.OpenDir(dir, 0o777)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return d, err
}

// left lists unlocked files that would be part of restored tools. Without a policy, which decides what counts, it is
// empty.
func left(ctx context.Context, lock *workspace.Lock, pins []lockfile.Pin) (left []LeftFile) {
	var refs []model.Ref
	for i := range pins {
		if p := &pins[i]; !p.Files.IsZero() {
			refs = append(refs, p.Ref)
		}
	}
	if len(refs) == 0 {
		return nil
	}
	err := lock.Look(ctx)
	var found []*drift.Difference
	if err == nil {
		found, err = Drift(ctx, lock, refs...)
	}
	if err != nil {
		lock.Detail("files that aren't in the lock", err)
		return nil
	}
	for _, d := range found {
		if d.Kind == drift.Added && slices.Contains(refs, d.Ref) {
			left = append(left, LeftFile{path.Join(workspace.MarkerDir, d.Path), d.Ref.String()})
		}
	}
	return left
}

// line returns the entry for a file in the result.
func (f *restored) line() RestoredFile {
	line := RestoredFile{File: workspace.MarkerDir + "/" + f.path, Ref: f.ref.String(), Digest: f.want.Digest.String()}
	if f.before != nil {
		line.Before = f.found.String()
		if f.found == f.want.Digest {
			line.Only = "mode"
		}
	}
	return line
}

// A restored file is a file that differs from its pin.
type restored struct {
	ref    model.Ref
	path   string // below .ai
	dir    string // of path
	where  string // path for messages
	want   cas.Info
	mode   cas.Mode
	there  bool        // whether the directory exists
	before fs.FileInfo // nil: no file existed
	found  cas.Digest  // the digest of the old content
	staged *osfile.Staged
	done   bool
}

func (f *restored) notRegular() error {
	return fault.New(fault.Denied, "%q is not a regular file", f.where).On("reason", "special").On("path", f.where).
		Try("ls -l " + fault.Quote(f.where))
}

// sameMode reports whether a file has the right executable bit. On systems without that bit it is always right.
func (f *restored) sameMode(fi fs.FileInfo) bool {
	return !modesAreKept || (fi.Mode().Perm()&0o100 != 0) == (f.mode == cas.Exec)
}
