package registry

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/registry/blobs"
	"github.com/rye-build/rye/exec/registry/rows"
	client "github.com/rye-build/rye/lock/registry"
	"github.com/rye-build/rye/manifest/tlog"
)

// A Staged waits until owners of its namespace approve it: versions that are released together, by one entry of the
// log, or a change of the namespace.
type Staged struct {
	ID        string         `json:"id"`
	Space     string         `json:"space"`
	By        string         `json:"by"`               // the account that staged it
	Binder    string         `json:"binder,omitempty"` // of a pipeline: the account that made its binding
	Created   time.Time      `json:"created"`
	Expires   time.Time      `json:"expires"`
	Digest    cas.Digest     `json:"digest"` // of the versions' archives or of the change: what is approved
	Versions  []*Version     `json:"versions,omitempty"`
	Change    *client.Change `json:"change,omitempty"`
	Approvals []Approval     `json:"approvals"`
	Needs     int            `json:"needs"` // how many approvals there must be, when this was read
	Done      bool           `json:"done,omitempty"`
}

// An Approval is an owner's consent to what had a digest.
type Approval struct {
	Account string     `json:"account"`
	Digest  cas.Digest `json:"digest"`
	Time    time.Time  `json:"time"`
}

const (
	// stagedTime is how long something waits.
	stagedTime = 30 * 24 * time.Hour
	// maxStaged is how many things of one account wait at once.
	maxStaged = 100
)

func newStagedID() string { return "s" + strings.ToLower(rand.Text()[:12]) }

// parts returns the versions as they are approved.
func (s *Staged) parts() (parts []client.Part) {
	for _, v := range s.Versions {
		parts = append(parts, client.Part{Bundle: v.Bundle, Version: v.Version, Archive: v.Archive})
	}
	return parts
}

// waits reports whether it can still be approved.
func (s *Staged) waits(now time.Time) bool { return !s.Done && now.Before(s.Expires) }

// Stage verifies an archive as Publish does, and keeps it where only owners see it. With the id of an earlier release
// of this account it becomes a part of that, in place of another version of its bundle: then earlier approvals don't
// count any more.
func (r *Registry) Stage(ctx context.Context, by *Caller, id string, body io.Reader) (*Staged, error) {
	scope := ScopeStage
	if by != nil && slices.Contains(by.Token.Scopes, ScopePublish) {
		scope = ScopePublish // it may do more
	}
	if err := by.has(scope); err != nil { // before an archive is read
		return nil, err
	}
	file, digest, size, err := r.spool(ctx, body)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	version, err := r.inspect(ctx, file, digest, size)
	if err != nil {
		return nil, err
	}
	if err := r.o.Rows.View(ctx, func(in rows.Reader) error {
		_, err := r.mayStage(in, by, scope, version)
		return err
	}); err != nil {
		return nil, err
	}
	var staged, before *Staged
	stage := func(in rows.Writer) error {
		space, err := r.mayStage(in, by, scope, version)
		if err != nil {
			return err
		}
		l, err := r.logOf(in, space.Name)
		if err != nil {
			return err
		}
		if err := unused(in, l, version); err != nil {
			return err
		}
		if staged, err = r.begun(in, by, space, id); err != nil {
			return err
		}
		if staged.Change != nil {
			return fault.New(fault.Conflict, "%q is a change of a namespace, not a release", id)
		}
		if by.Binder == "" {
			staged.Binder = "" // not all of it is a pipeline's any more
		}
		before = &Staged{Versions: staged.Versions}
		staged.Versions = slices.DeleteFunc(slices.Clone(staged.Versions), func(v *Version) bool {
			return v.Bundle == version.Bundle
		})
		if len(staged.Versions) == tlog.MaxReleases {
			return fault.New(fault.Limit, "a release has at most %d versions", tlog.MaxReleases)
		}
		staged.Versions = append(staged.Versions, version)
		slices.SortFunc(staged.Versions, func(a, b *Version) int { return strings.Compare(a.Key(), b.Key()) })
		staged.Digest = client.ReleaseDigest(staged.parts())
		if err := r.fewStaged(in, staged); err != nil {
			return err
		}
		return put(in, "staged/"+staged.ID, staged)
	}
	if err := r.stored(ctx, stagedFile(digest), version, file, r.isStaged, func() error {
		return r.o.Rows.Update(ctx, stage)
	}); err != nil {
		return nil, err
	}
	if err := r.forget(ctx, before); err != nil { // the version that this one has replaced
		return nil, err
	}
	return staged, r.sweep(ctx)
}

// fewStaged refuses what is about to be staged if too much of its account waits then.
func (r *Registry) fewStaged(in rows.Reader, staged *Staged) error {
	waiting, bytes := 0, int64(0)
	count := func(s *Staged) {
		waiting++
		for _, v := range s.Versions {
			bytes += v.Size
		}
	}
	if err := each(in, "staged/", func(id string, s *Staged) (bool, error) {
		if id != staged.ID && s.By == staged.By && s.waits(r.now()) {
			count(s)
		}
		return true, nil
	}); err != nil {
		return err
	}
	if count(staged); waiting > maxStaged || bytes > r.o.Limits.Account {
		return fault.New(fault.Limit, "too much of the account %q waits for approval", staged.By).
			On("waiting", waiting).On("bytes", bytes).Try("rye release list")
	}
	return nil
}

// begun returns what the caller has staged under an id, or something new.
func (r *Registry) begun(in rows.Writer, by *Caller, space *Space, id string) (*Staged, error) {
	now := r.now()
	if id != "" {
		staged, err := get[Staged](in, "staged/"+checkedID(id))
		switch {
		case err != nil:
			return nil, err
		case staged == nil || !staged.waits(now) || staged.By != by.Account:
			return nil, noStaged(id)
		case staged.Space != space.Name:
			return nil, fault.New(fault.Validation, "the release %q is of the namespace %q", id, staged.Space)
		}
		staged.Needs = needs(space)
		return staged, nil
	}
	return &Staged{ID: newStagedID(), Space: space.Name, By: by.Account, Binder: by.Binder, Created: now,
		Expires: now.Add(stagedTime), Approvals: []Approval{}, Needs: needs(space)}, nil
}

// stageChange stages a change of a namespace.
func (r *Registry) stageChange(in rows.Writer, by *Caller, space *Space, change client.Change) (*Staged, error) {
	staged, err := r.begun(in, by, space, "")
	if err != nil {
		return nil, err
	}
	staged.Change = &change
	if staged.Digest, err = change.Digest(space.Name); err != nil {
		return nil, err
	}
	if err := r.fewStaged(in, staged); err != nil {
		return nil, err
	}
	return staged, put(in, "staged/"+staged.ID, staged)
}

// needs returns how many approvals a namespace demands: without a rule of its own, what is staged needs one.
func needs(space *Space) int { return max(1, space.Approvals) }

// checkedID returns an id, or "" for a text that can't be one.
func checkedID(id string) string {
	if len(id) > 32 || strings.Trim(id, "abcdefghijklmnopqrstuvwxyz0123456789") != "" {
		return ""
	}
	return id
}

func noStaged(id string) error {
	return fault.New(fault.NotFound, "nothing with the id %q is staged", fault.Clip(id, 40)).On("id", id).
		Try("rye release list")
}

// seen returns what is staged under an id, if the caller may see it: who staged it, and the owners.
func (r *Registry) seen(in rows.Reader, by *Caller, id string) (*Staged, *Space, error) {
	staged, err := get[Staged](in, "staged/"+checkedID(id))
	if err != nil {
		return nil, nil, err
	}
	if staged == nil || !staged.Done && !staged.waits(r.o.Now()) {
		return nil, nil, noStaged(id)
	}
	space, err := get[Space](in, "space/"+staged.Space)
	if err != nil {
		return nil, nil, err
	}
	if !space.owns(by.Account) && by.Account != staged.By || !by.mayIn(staged) {
		return nil, nil, noStaged(id)
	}
	staged.Needs = needs(space)
	return staged, space, nil
}

// mayIn reports whether the caller's token is for everything that is staged.
func (c *Caller) mayIn(s *Staged) bool {
	if s.Change != nil {
		return c.mayName(ScopeOwner, s.Space)
	}
	return !slices.ContainsFunc(s.Versions, func(v *Version) bool { return !c.mayName(ScopePublish, v.Bundle) })
}

// Staged returns what is staged under an id, to who staged it and to the owners of its namespace.
func (r *Registry) Staged(ctx context.Context, by *Caller, id string) (staged *Staged, err error) {
	if by == nil {
		return nil, by.may(ScopeStage, "")
	}
	return staged, r.o.Rows.View(ctx, func(in rows.Reader) (err error) {
		staged, _, err = r.seen(in, by, id)
		return err
	})
}

// AllStaged returns what waits and the caller may see, the oldest first.
func (r *Registry) AllStaged(ctx context.Context, by *Caller) (all []*Staged, err error) {
	if by == nil {
		return nil, by.may(ScopeStage, "")
	}
	err = r.o.Rows.View(ctx, func(in rows.Reader) error {
		all = []*Staged{}
		return each(in, "staged/", func(id string, s *Staged) (bool, error) {
			if !s.waits(r.o.Now()) {
				return true, nil
			}
			staged, _, err := r.seen(in, by, id)
			if err == nil {
				all = append(all, staged)
			} else if fault.CodeOf(err) != fault.NotFound {
				return false, err
			}
			return true, nil
		})
	})
	slices.SortFunc(all, func(a, b *Staged) int { return a.Created.Compare(b.Created) })
	return all, err
}

// StagedArchive opens an archive that is staged under an id.
func (r *Registry) StagedArchive(ctx context.Context, by *Caller, id string, archive cas.Digest) (*blobs.File, error) {
	staged, err := r.Staged(ctx, by, id)
	if err != nil {
		return nil, err
	}
	for _, v := range staged.Versions {
		if v.Archive != archive {
			continue
		}
		file, err := r.o.Blobs.Open(ctx, stagedFile(archive))
		if errors.Is(err, fs.ErrNotExist) { // it has been released meanwhile
			var l *log
			if err := r.o.Rows.View(ctx, func(in rows.Reader) (err error) {
				l, err = r.logOf(in, staged.Space)
				return err
			}); err != nil {
				return nil, err
			}
			file, err = r.o.Blobs.Open(ctx, l.dir+client.ArchiveFile(archive))
		}
		return file, err
	}
	return nil, fault.New(fault.NotFound, "%q has no such archive", id).On("id", id)
}

// counted returns how many approvals count: those of distinct owners for what is staged now. Where a namespace demands
// approvals, who staged it doesn't count; a pipeline stages as the account that has bound it.
func (s *Staged) counted(in rows.Reader, space *Space) (n int, err error) {
	for _, a := range s.Approvals {
		counts, err := s.mayCount(in, space, a.Account)
		if err != nil {
			return 0, err
		}
		if a.Digest == s.Digest && counts == nil {
			n++
		}
	}
	return n, nil
}

// mayCount returns why an account's approval doesn't count; nil if it does.
func (s *Staged) mayCount(in rows.Reader, space *Space, account string) (why, err error) {
	owns, err := space.ownedBy(in, account)
	switch {
	case err != nil:
		return nil, err
	case !owns:
		return fault.New(fault.Denied, "the account %q doesn't own the namespace %q", account, s.Space).
			On("namespace", s.Space).Try("rye owner list " + fault.Quote(s.Space)), nil
	case space.Approvals > 0 && account == s.By:
		return fault.New(fault.Denied, "%q was staged by %q, whose approval doesn't count", s.ID, account).
			On("id", s.ID).Because("the namespace demands the approval of other owners: " +
			strings.Join(slices.DeleteFunc(slices.Clone(space.Owners), func(o string) bool {
				return o == s.By
			}), ", ")), nil
	}
	return nil, nil
}

// errPromote ends a transaction that would release archives which aren't where clients read them yet.
var errPromote = errors.New("the archives come first")

// Approve adds an owner's approval of what has a digest. The last one that is needed has it done.
func (r *Registry) Approve(ctx context.Context, by *Caller, id string, digest cas.Digest) (*Staged, error) {
	staged, err := r.Staged(ctx, by, id)
	if err != nil {
		return nil, err
	}
	if err := r.mayApprove(by, staged); err != nil {
		return nil, err
	}
	var to *log // whose files have the archives
	approve := func() error {
		return r.o.Rows.Update(ctx, func(in rows.Writer) error {
			var l *log
			staged, l, err = r.approve(ctx, in, by, id, digest)
			switch {
			case err == nil && to != nil:
				// Another approval may have released them meanwhile, or there may be too few now.
				if l, err = r.logOf(in, staged.Space); err == nil && (!staged.Done || l.name != to.name) {
					err = fault.New(fault.Busy, "%q has changed meanwhile: approve it again", id).On("id", id)
				}
			case err == nil && l != nil:
				to, err = l, errPromote
			}
			return err
		})
	}
	if err = approve(); errors.Is(err, errPromote) {
		err = r.promoted(ctx, to, staged.Versions, approve)
	}
	if err == nil {
		err = r.flushOf(ctx, staged.Space)
	}
	if err == nil && staged.Done {
		err = r.forget(ctx, staged)
	}
	if err != nil {
		return nil, err
	}
	return staged, nil
}

// approve records an approval, and does what is staged if that was the last one needed. It returns the log that has
// released versions by it, whose files need their archives.
func (r *Registry) approve(ctx context.Context, in rows.Writer, by *Caller, id string, digest cas.Digest) (
	staged *Staged, l *log, err error) {
	staged, space, err := r.seen(in, by, id)
	if err != nil || staged.Done {
		return staged, nil, err // done: the answer to an earlier request was lost
	}
	if staged.Digest != digest {
		return nil, nil, fault.New(fault.Conflict, "%q has changed since you have seen it", id).On("id", id).
			Try("rye release show " + fault.Quote(id))
	}
	if why, err := staged.mayCount(in, space, by.Account); why != nil || err != nil {
		return nil, nil, errors.Join(why, err)
	}
	// An owner and k others decide: what a former owner has left would need k alone.
	owns, err := space.ownedBy(in, staged.By)
	if err == nil && !owns {
		err = fault.New(fault.Denied, "%q was staged by %q, who doesn't own %q any more", id, staged.By, space.Name).
			On("id", id).Try("rye release reject " + fault.Quote(id))
	}
	if err != nil {
		return nil, nil, err
	}
	for _, v := range staged.Versions {
		if err := space.trusts(staged.Binder, v.Bundle); err != nil {
			return nil, nil, err
		}
	}
	staged.Approvals = slices.DeleteFunc(staged.Approvals, func(a Approval) bool { return a.Account == by.Account })
	staged.Approvals = append(staged.Approvals, Approval{by.Account, digest, r.now()})
	n, err := staged.counted(in, space)
	if err != nil {
		return nil, nil, err
	}
	if staged.Done = n >= needs(space); staged.Done {
		if staged.Change != nil {
			err = r.apply(ctx, in, staged.By, space, *staged.Change)
		} else if l, err = r.logOf(in, staged.Space); err == nil {
			err = r.enter(in, staged.By, l, staged.Versions...)
		}
		if err != nil {
			return nil, nil, err
		}
	}
	return staged, l, put(in, "staged/"+id, staged)
}

// mayApprove returns why a token may not approve what is staged: who approves publishes, or changes a namespace.
func (r *Registry) mayApprove(by *Caller, s *Staged) error {
	if s.Change != nil {
		return by.may(ScopeOwner, s.Space)
	}
	for _, v := range s.Versions {
		if err := by.may(ScopePublish, v.Bundle); err != nil {
			return err
		}
	}
	return nil
}

// Cosign replaces an archive of a release by one of the same manifest with more signatures. The bundle stays the same,
// and the archive is another one: earlier approvals don't count any more.
func (r *Registry) Cosign(ctx context.Context, by *Caller, id string, body io.Reader) (*Staged, error) {
	staged, err := r.Staged(ctx, by, id)
	if err != nil {
		return nil, err
	}
	if err := r.mayApprove(by, staged); err != nil {
		return nil, err
	}
	file, digest, size, err := r.spool(ctx, body)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	made, err := r.inspect(ctx, file, digest, size)
	if err != nil {
		return nil, err
	}
	if err := fits(staged, made); err != nil {
		return nil, err
	}
	var before *Staged
	cosign := func(in rows.Writer) error {
		var err error
		if staged, _, err = r.seen(in, by, id); err != nil {
			return err
		}
		if staged.Done {
			return noStaged(id)
		}
		if err := fits(staged, made); err != nil {
			return err
		}
		before = &Staged{Versions: slices.Clone(staged.Versions)}
		for i, v := range staged.Versions {
			if v.Manifest == made.Manifest {
				staged.Versions[i] = made
			}
		}
		staged.Digest = client.ReleaseDigest(staged.parts())
		if err := r.fewStaged(in, staged); err != nil {
			return err
		}
		return put(in, "staged/"+id, staged)
	}
	if err := r.stored(ctx, stagedFile(digest), made, file, r.isStaged, func() error {
		return r.o.Rows.Update(ctx, cosign)
	}); err != nil {
		return nil, err
	}
	return staged, r.forget(ctx, before)
}

// fits refuses an archive that isn't one of the release with more signatures.
func fits(s *Staged, made *Version) error {
	for _, v := range s.Versions {
		if v.Key() != made.Key() || v.Manifest != made.Manifest {
			continue
		}
		for _, signer := range v.Signers {
			if !slices.Contains(made.Signers, signer) {
				return fault.New(fault.Conflict, "the archive lacks a signature of %s that was staged", made.Key()).
					On("signer", signer)
			}
		}
		return nil
	}
	return fault.New(fault.Conflict, "%q has no version with the manifest of %s", s.ID, made.Key()).On("id", s.ID)
}

// Reject ends what is staged, by who staged it or by an owner.
func (r *Registry) Reject(ctx context.Context, by *Caller, id string) error {
	if by == nil {
		return by.may(ScopeStage, "")
	}
	var staged *Staged
	if err := r.o.Rows.Update(ctx, func(in rows.Writer) error {
		var err error
		if staged, _, err = r.seen(in, by, id); err != nil {
			return err
		}
		if staged.Done {
			return noStaged(id)
		}
		// Who may stage it may end it, if the account is the same.
		stages := by.Account == staged.By && staged.Change == nil && slices.Contains(by.Token.Scopes, ScopeStage)
		if !stages {
			if err := r.mayApprove(by, staged); err != nil {
				return err
			}
		}
		in.Delete("staged/" + id)
		return nil
	}); err != nil {
		return err
	}
	return r.forget(ctx, staged)
}

// endStaged ends what an account has staged, and takes its approvals back.
func endStaged(in rows.Writer, account string) (ended []*Staged, err error) {
	var changed []*Staged
	if err := each(in, "staged/", func(_ string, s *Staged) (bool, error) {
		left := slices.DeleteFunc(slices.Clone(s.Approvals), func(a Approval) bool { return a.Account == account })
		switch {
		case s.Done: // it stays as it was
		case s.By == account:
			ended = append(ended, s)
		case len(left) < len(s.Approvals):
			s.Approvals = left
			changed = append(changed, s)
		}
		return true, nil
	}); err != nil {
		return nil, err
	}
	for _, s := range ended {
		in.Delete("staged/" + s.ID)
	}
	for _, s := range changed {
		if err := put(in, "staged/"+s.ID, s); err != nil {
			return nil, err
		}
	}
	return ended, nil
}

// sweep removes what has waited too long.
func (r *Registry) sweep(ctx context.Context) error {
	var ended []*Staged
	if err := r.o.Rows.Update(ctx, func(in rows.Writer) error {
		ended = nil
		if err := each(in, "staged/", func(_ string, s *Staged) (bool, error) {
			if !s.Done && !s.waits(r.o.Now()) {
				ended = append(ended, s)
			}
			return true, nil
		}); err != nil {
			return err
		}
		for _, s := range ended {
			in.Delete("staged/" + s.ID)
		}
		return nil
	}); err != nil || len(ended) == 0 {
		return err
	}
	return r.forget(ctx, ended...)
}
