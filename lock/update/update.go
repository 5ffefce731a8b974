// Package update is the command logic of rye lock: it makes the lock of a project or of the user, checks it, and
// writes it together with a changed rye.yaml.
//
// How a lock goes through here: Make builds the request (restore.Request) and makes the lock with restore.Make,
// which calls Options.Sign when the bundles are in the store. weaker compares the new lock with the old one, with
// the sides of a merge, or with locks of the first format (takeOver). With Check, checked returns the difference as
// an error. Otherwise edited puts the rights of plugins' servers into rye.yaml (Allow), and gcroot.Commit keeps the
// objects of both locks while WriteProject writes rye.yaml and l.Write the lock.
package update

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/lock"
	lockfile "github.com/rye-build/rye/lock/file"
	"github.com/rye-build/rye/lock/gcroot"
	"github.com/rye-build/rye/lock/relock"
	"github.com/rye-build/rye/lock/restore"
	sources "github.com/rye-build/rye/lock/source"
	"github.com/rye-build/rye/lock/workspace"
)

// Options configures Make. The zero value changes only what must change.
type Options struct {
	Check     bool     // write nothing; a lock that would change is an error
	DryRun    bool     // write nothing
	Resolve   bool     // select versions again
	Update    []string // bundles to raise to the newest allowed version
	UpdateAll bool
	Accept    []string         // items and bundles that may weaken the lock
	Yaml      []byte           // the new rye.yaml, written before the lock; nil: unchanged
	Allow     *Allow           // rights to write into rye.yaml; nil: none
	Toolchain relock.Toolchain // nil: programs stay as locked

	// Sign runs when the bundles are in the store and before any item is read. An error stops Make. May be nil.
	Sign func(ctx context.Context, bundles []lockfile.Bundle) error
}

// A Result is the new lock with its differences from the old one.
type Result struct {
	File       string            `json:"file"`
	ID         string            `json:"id"` // the digest of rye.lock
	Changed    bool              `json:"changed"`
	DryRun     bool              `json:"dry_run"`
	Checked    bool              `json:"checked"`
	Bundles    int               `json:"bundles"`
	Pins       int               `json:"pins"`
	Artifacts  int               `json:"artifacts"` // files of packages
	Changes    []lockfile.Change `json:"changes"`
	TakenOver  int               `json:"taken_over"` // locks of the first format (v1) that this one replaces
	Weakenings []Weakening       `json:"weakenings"`
	Rights     []Right           `json:"rights"` // of plugins' servers that the edit of rye.yaml changes

	Made     *relock.Made `json:"-"` // nil if Check found that the lock needs other bundles
	V1       int          `json:"-"` // locks of the first format that were read
	UnreadV1 []error      `json:"-"` // errors of those that can't be read
	Written  bool         `json:"-"`
	Edited   bool         `json:"-"` // rye.yaml is written
	// Yaml is rye.yaml with the rights of servers that Options.Allow gives, and without those of changed servers.
	Yaml []byte `json:"-"`
}

// A Weakening is a Weakness, and whether the user has accepted it.
type Weakening struct {
	lock.Weakness
	Accepted bool `json:"accepted"`
}

// NewResult returns the result for a lock that isn't made yet.
func NewResult(o Options) *Result {
	return &Result{DryRun: o.DryRun, Checked: o.Check, Changes: []lockfile.Change{}, Weakenings: []Weakening{},
		Rights: []Right{}}
}

// Make makes the lock of l, which must be open, and writes it unless o forbids that. A crash at any moment leaves the
// old lock or the new one, and until then the store keeps the objects of both. The result is nil without a new lock.
func Make(ctx context.Context, l *workspace.Lock, o Options) (*Result, error) {
	result, err := o.make(ctx, l)
	if at, ok := errors.AsType[*sources.Error](err); ok && result == nil {
		f := restore.OfBundle(l, err)
		if o.strandedBy(l, at) {
			f.Hint = append([]string{fault.Command("rye update", at.ID)}, f.Hint...)
		}
		err = f
	}
	if err != nil && o.Check {
		if f := fault.Of(err); f.Code == fault.LockMismatch {
			err = f.Answer()
		}
	}
	return result, err
}

// strandedBy reports whether an error is that the policy no longer admits a locked bundle, as after a rotation. A
// newer version may be admitted.
func (o *Options) strandedBy(l *workspace.Lock, err *sources.Error) bool {
	if l.Old == nil || o.UpdateAll || len(o.Update) > 0 {
		return false
	}
	if _, unsigned := errors.AsType[*sources.UnadmittedError](err); unsigned {
		return false
	}
	no, ok := errors.AsType[*bundle.NotAdmittedError](err)
	locked := l.Old.Bundle(err.ID)
	return ok && no.From == "" && locked != nil && locked.Version == err.Version
}

func (o *Options) make(ctx context.Context, lock *workspace.Lock) (*Result, error) {
	request := restore.Request(ctx, lock)
	request.Resolve, request.Update, request.UpdateAll, request.Toolchain = o.Resolve, o.Update, o.UpdateAll,
		o.Toolchain
	if lock.Sides != nil {
		var err error
		if request.Old, err = lock.Merged(); err != nil {
			return nil, err
		}
		request.Sides = lock.Sides
	}
	var batch cas.Batch
	if !o.DryRun && !o.Check {
		var err error
		if batch, err = lock.DiskStore().Batch(ctx); err != nil {
			return nil, err
		}
		defer batch.Close()
		request.Store = batch
	}
	if o.Sign != nil {
		// Signing waits for the bundles: a bundle that the old lock lacks may provide an item's executor.
		request.Ready = func(bundles []lockfile.Bundle) error { return o.Sign(ctx, bundles) }
	}
	made, err := restore.Make(ctx, lock, request)
	result := NewResult(*o)
	if errors.Is(err, workspace.ErrElsewhere) {
		return result.elsewhere(lock)
	}
	if err != nil {
		return nil, err
	}
	result.Made = made
	result.describe(lock, made.Lock, made.ID)
	result.Changes = append(result.Changes, made.Changes...)
	result.Changed = made.ID != lock.Id()
	err = result.weaker(ctx, lock, o.Accept)
	if err == nil && !o.Check {
		err = o.edited(lock, result)
	}
	if o.Check {
		// Without the pinned bytes a weakening can't be found; then the hint accepts none.
		var names []string
		if no, ok := errors.AsType[*fault.Error](err); ok {
			names, _ = no.Details["names"].([]string)
		}
		return result, result.checked(lock, names)
	}
	if err != nil || o.DryRun {
		return result, err
	}
	if err := batch.Commit(ctx); err != nil {
		return nil, err
	}
	objects, err := kept(ctx, lock, made)
	if err != nil {
		return nil, err
	}
	err = gcroot.Commit(ctx, lock.DiskStore(), lock.LockPath(), objects, func() (err error) {
		if result.Yaml != nil {
			err = WriteProject(lock.Dir, result.Yaml)
			result.Edited = err == nil
		}
		if err == nil {
			err = lock.Write(made)
			result.Written = err == nil
		}
		if err == nil {
			err = lock.WriteSigners(made.Lock)
		}
		return err
	})
	return result, err
}

// edited decides about the new rye.yaml, nil if it stays as it is.
func (o *Options) edited(lock *workspace.Lock, result *Result) error {
	result.Yaml = o.Yaml
	project, rights, err := o.allowing(lock, result.Made.Lock, result.Weakenings)
	if err == nil && project != lock.Yaml {
		result.Yaml = project.Format()
	}
	result.Rights = append(result.Rights, rights...)
	return err
}

// WriteProject writes the new rye.yaml of a directory.
func WriteProject(dir string, yaml []byte) error {
	d, err := osfile.OpenDir(dir, 0o777)
	if err != nil {
		return err
	}
	defer d.Close()
	_, err = os.Lstat(filepath.Join(dir, workspace.MarkerFile))
	return d.Write(workspace.MarkerFile, 0o644, errors.Is(err, fs.ErrNotExist), yaml)
}

// checked returns the error of Check. Its hint accepts the weaknesses of the new lock by name.
func (r *Result) checked(lock *workspace.Lock, weaker []string) error {
	if !r.Changed {
		return nil
	}
	hint := []string{"rye diff"}
	if lost := r.lost(lock); lost != "" {
		hint = append(hint, fault.Command("rye restore", lost))
	}
	hint = append(hint, lock.LockAgain(weaker))
	return fault.New(fault.LockMismatch, "%q is out of date: %s", lock.LockPath(),
		fault.Count(int64(len(r.Changes)), "change")).
		On("path", lock.LockPath()).Try(hint...)
}

// lost names the pinned items that the project no longer has; several become a pattern.
func (r *Result) lost(l *workspace.Lock) (name string) {
	for _, change := range r.Changes {
		ref, err := model.ParseRef(change.Name)
		if change.Kind != lockfile.PinRemoved || err != nil {
			continue
		}
		if p := l.Old.Pin(ref); p == nil || p.From != lockfile.FromProject {
			continue
		}
		if name != "" {
			return "**"
		}
		name = change.Name
	}
	return name
}

// elsewhere returns the result of Check if the lock needs other bundles.
func (r *Result) elsewhere(l *workspace.Lock) (*Result, error) {
	r.describe(l, l.Old, l.Id())
	r.Changes, r.Changed = append(r.Changes, l.RequirementChanges()...), true
	if len(r.Changes) > 0 {
		return r, r.checked(l, nil)
	}
	f := fault.New(fault.LockMismatch, "%q: %s", l.LockPath(), workspace.ErrElsewhere)
	if l.Here.Unfit != nil {
		f = fault.Of(l.Here.Unfit)
	}
	f.Hint = []string{"rye lock"}
	return r, f.Answer()
}

// describe sets the counts and the id of a lock.
func (r *Result) describe(l *workspace.Lock, lf *lockfile.Lock, id cas.Digest) {
	r.File, r.ID = l.LockPath(), id.String()
	r.Bundles, r.Pins, r.Artifacts = len(lf.Bundles), len(lf.Pins), len(lf.Artifacts)
}

// kept returns the objects that the store keeps for a new lock. The store then has all of them.
func kept(ctx context.Context, l *workspace.Lock, made *relock.Made) ([]lock.Object, error) {
	open := func() (*lock.Set, error) {
		return lock.NewSet(ctx, made.Lock, made.ID, workspace.SetOptions(l.DiskStore()))
	}
	set, err := open()
	if _, missing := errors.AsType[*lock.MissingError](err); missing && l.Vendor != nil {
		// Only the pinned items of a bundle without a source are vendored, and the new lock needs no others.
		if err := restore.TakeVendored(ctx, l); err != nil {
			return nil, err
		}
		set, err = open()
	}
	if err != nil {
		return nil, err
	}
	return set.Objects(ctx)
}

// PinnedBytes returns the locked content of an item, or nil if it isn't available.
func PinnedBytes(ctx context.Context, l *workspace.Lock, ref model.Ref) []byte {
	if l.Old == nil {
		return nil
	}
	pin := l.Old.Pin(ref)
	objects, err := l.Objects()
	if pin == nil || err != nil {
		return nil
	}
	return SignedBytes(ctx, objects, pin.Digest)
}

// maxSigned is how many bytes are read into memory for a comparison.
const maxSigned = 32 << 20

// SignedBytes returns the bytes of a file that may be signed, or nil if they aren't available.
func SignedBytes(ctx context.Context, src cas.Getter, d cas.Digest) []byte {
	o, err := src.Get(ctx, cas.ID{Kind: cas.Blob, Digest: d})
	if err != nil {
		return nil
	}
	defer o.Close()
	b, err := io.ReadAll(io.LimitReader(o, maxSigned))
	if err != nil {
		return nil
	}
	return b
}

// ChangeText returns a change as one line.
func ChangeText(change lockfile.Change) string {
	short := func(s string) string {
		words := strings.Fields(s)
		for i, w := range words {
			if digits, ok := strings.CutPrefix(w, "blake3:"); ok && len(digits) == 64 {
				words[i] = "blake3:" + digits[:12]
			}
			if len(w) == 64 && strings.Trim(w, "0123456789abcdef") == "" {
				words[i] = w[:12]
			}
		}
		return strings.Join(words, " ")
	}
	line := strings.ReplaceAll(string(change.Kind), "_", " ") + "  " + change.Name
	switch {
	case change.From != "" && change.To != "":
		line += "  " + short(change.From) + " -> " + short(change.To)
	case change.From != "" || change.To != "":
		line += "  " + short(change.From+change.To)
	}
	return line
}
