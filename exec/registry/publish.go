package registry

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/bundle/archive"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/canon"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/portable"
	"github.com/rye-build/rye/exec/registry/blobs"
	"github.com/rye-build/rye/exec/registry/rows"
	"github.com/rye-build/rye/lock/index"
	client "github.com/rye-build/rye/lock/registry"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/tlog"
)

// A Version is a published version of a bundle.
type Version struct {
	Bundle   string     `json:"bundle"`
	Version  string     `json:"version"`
	Manifest cas.Digest `json:"manifest"`
	Archive  cas.Digest `json:"archive"`
	Size     int64      `json:"size"` // of the archive
	Requires []string   `json:"requires,omitempty"`
	License  string     `json:"license,omitempty"`
	About    string     `json:"about,omitempty"` // the description
	Signers  []string   `json:"signers"`         // fingerprints whose signatures of the manifest are valid
	By       string     `json:"by"`
	Time     time.Time  `json:"time"`
	Leaf     int64      `json:"leaf"`
	Skills   []Skill    `json:"skills,omitempty"` // that clients of other programs get by themselves

	Yanked      int64 `json:"yanked,omitempty"` // the number of the entry that yanked it
	Unpublished int64 `json:"unpublished,omitempty"`
	Private     bool  `json:"private,omitempty"` // it is in the log of a private namespace
}

// Key returns "ID@VERSION".
func (v *Version) Key() string { return v.Bundle + "@" + v.Version }

// entry returns the version as the index has it.
func (v *Version) entry() (index.Entry, error) {
	e := index.Entry{ID: v.Bundle, Version: v.Version, Manifest: v.Manifest, Archive: client.ArchiveFile(v.Archive),
		Size: v.Size, Logged: &index.Logged{Digest: v.Archive, By: v.By, Time: v.Time, Leaf: v.Leaf, Yanked: v.Yanked}}
	for _, text := range v.Requires {
		id, versions, _ := strings.Cut(text, " ")
		require, err := index.NewRequire(id, versions)
		if err != nil {
			return e, err
		}
		e.Requires = append(e.Requires, require)
	}
	return e, nil
}

// Publish verifies an archive and publishes its version. It returns when clients can see it. An archive that is
// published already, by an owner of its namespace, is returned again.
func (r *Registry) Publish(ctx context.Context, by *Caller, body io.Reader) (v *Version, err error) {
	defer func() { r.o.Metrics.publishes(v, err) }()
	if err := by.has(ScopePublish); err != nil { // before an archive is read
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
	// Who may not publish this isn't told whether it exists. Nothing of what would be refused is stored: the archive
	// of a version that was taken down must not come back.
	var l *log
	if err := r.o.Rows.View(ctx, func(in rows.Reader) error {
		var published *Version
		l, published, err = r.published(in, by, version)
		if err == nil && published == nil {
			_, err = r.mayEnter(in, by.Account, l, version)
		}
		return err
	}); err != nil {
		return nil, err
	}
	name, space := l.dir+client.ArchiveFile(version.Archive), SpaceOf(version.Bundle)
	if err := r.stored(ctx, name, version, file, l.released, func() error {
		return r.change(ctx, space, func(in rows.Writer) error { return r.admit(in, by, l, version) })
	}); err != nil {
		return nil, err
	}
	return version, nil
}

// errMoved ends a publish whose namespace became private or public after its archive was stored.
var errMoved error = fault.New(fault.Busy, "the namespace has become private or public meanwhile: publish again")

// inspect reads an archive whole, as bundle verify does, with the keys that it carries: the registry vouches for its
// form and for who published it, never for its signers.
func (r *Registry) inspect(ctx context.Context, file *os.File, digest cas.Digest, size int64) (*Version, error) {
	head, err := archive.ReadHead(ctx, file)
	if err != nil {
		return nil, err
	}
	if err := r.bounded(head, size); err != nil {
		return nil, err
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	options := bundle.VerifyOptions{Threshold: 1, Now: r.o.Now(), Below: r.o.Below, TempDir: r.o.TempDir}
	for _, known := range head.Keys {
		options.Signers = append(options.Signers, known.Public)
	}
	if len(options.Signers) == 0 {
		return nil, fault.New(fault.Unsigned, "%q carries no key of a signer", head.List.Name).
			Because("a registry takes bundles with a valid signature by a key that the archive carries")
	}
	for _, need := range head.List.Requires {
		options.Needs = append(options.Needs, bundle.Need{Bundle: need.BundleID, Version: need.Version})
	}
	report, err := bundle.Verify(ctx, bundle.InArchive(file), options)
	if err != nil {
		return nil, err
	}
	if !report.OK() {
		return nil, report.Fault()
	}
	version := &Version{Bundle: report.BundleID, Version: report.Version, Manifest: report.ID, Archive: digest,
		Size: size, License: report.License, About: report.Description, Signers: signersOf(report)}
	for _, need := range report.Requires {
		require, err := index.NewRequire(need.BundleID, need.Version)
		if err != nil {
			return nil, fault.New(fault.Validation, "%v", err).From(err)
		}
		version.Requires = append(version.Requires, require.ID+" "+require.Text)
	}
	if version.Skills, err = skillsIn(ctx, file, head); err != nil {
		return nil, err
	}
	return version, version.listable()
}

// listable returns why no index can have the version. What an index can't have must not get into the log: every later
// entry would wait for it.
func (v *Version) listable() error {
	entry, err := v.entry()
	if err != nil {
		return err
	}
	entry.Logged = &index.Logged{Digest: v.Archive, By: strings.Repeat("a", maxAccountName), Time: time.Unix(0, 0),
		Leaf: canon.MaxInt - 1, Yanked: canon.MaxInt}
	_, _, err = index.Append(nil, &index.Index{Label: "a", Counter: 1, Entries: []index.Entry{entry}})
	if err != nil {
		return fault.New(fault.Validation, "%s can't be in an index: %v", v.Key(), err).From(err)
	}
	return nil
}

// fitsIndex refuses a version with which the index of its bundle would be too large. A row has all that the index says
// of its version, except for a few numbers.
func fitsIndex(in rows.Reader, l *log, v *Version) error {
	const numbers = 200
	size := 0
	for row, err := range in.Scan(l.versionRow(v.Bundle+"@"), "") {
		if err != nil {
			return err
		}
		size += len(row.Value) + numbers
	}
	row, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if size+len(row)+numbers > blobs.MaxReplace {
		return fault.New(fault.Limit, "the index of %q would have more than %d bytes", v.Bundle, blobs.MaxReplace).
			On("bundle", v.Bundle).Because("its versions are too many, or require too much")
	}
	return nil
}

func signersOf(report *bundle.Report) (fingerprints []string) {
	for _, signer := range report.Manifest.Signers {
		fingerprints = append(fingerprints, signer.Key.Fingerprint().String())
	}
	slices.Sort(fingerprints)
	return fingerprints
}

// bounded refuses an archive whose files, evidence among them, would be too many or too large. The manifest's sizes
// are what the archive is then read by.
func (r *Registry) bounded(head *archive.Head, size int64) error {
	limits := r.o.Limits
	var unpacked int64
	for i := range head.Files {
		unpacked += head.Files[i].Size
	}
	for i := range head.List.Evidence {
		unpacked += head.List.Evidence[i].Size
	}
	switch {
	case len(head.Files)+len(head.List.Evidence) > limits.Files:
		return fault.New(fault.Limit, "%q has more than %d files", head.List.Name, limits.Files)
	case unpacked > limits.Unpacked:
		return fault.New(fault.Limit, "the files of %q have more than %d bytes", head.List.Name, limits.Unpacked)
	case unpacked > smallRatio && unpacked/limits.Ratio > size:
		return fault.New(fault.Limit, "the files of %q are more than %d times larger than the archive", head.List.Name,
			limits.Ratio)
	}
	return nil
}

// mayPublish returns why a caller may not publish a version by itself.
func (r *Registry) mayPublish(in rows.Reader, by *Caller, v *Version) error {
	space, err := r.mayStage(in, by, ScopePublish, v)
	if err != nil {
		return err
	}
	if space.Approvals > 0 {
		return fault.New(fault.Approval, "a version in %q needs the approval of other owners (%d)", space.Name,
			space.Approvals).On("namespace", space.Name).On("approvals", space.Approvals).
			Try("rye publish " + fault.Quote(v.Bundle) + " --stage")
	}
	return nil
}

// mayStage returns the namespace of a version, or why a caller may not publish there.
func (r *Registry) mayStage(in rows.Reader, by *Caller, scope Scope, v *Version) (*Space, error) {
	if err := by.may(scope, v.Bundle); err != nil {
		return nil, err
	}
	if err := checkID(v); err != nil {
		return nil, err
	}
	space, err := r.owned(in, by, SpaceOf(v.Bundle))
	if err == nil {
		err = space.trusts(by.Binder, v.Bundle)
	}
	return space, err
}

// trusts returns why a bundle that only its pipelines publish isn't taken from anything else; binder is "" for that.
func (s *Space) trusts(binder, bundle string) error {
	if binder == "" && slices.Contains(s.TrustedOnly, bundle) {
		return fault.New(fault.Denied, "only its pipelines may publish %q", bundle).On("bundle", bundle).
			Try("rye owner publisher list " + fault.Quote(bundle))
	}
	return nil
}

// checkID refuses ids that can't be published anywhere.
func checkID(v *Version) error {
	name := SpaceOf(v.Bundle)
	if name == v.Bundle {
		return fault.New(fault.Validation, "%q has no namespace: expected an id such as acme/base", v.Bundle)
	}
	if name == "plugins" {
		return fault.New(fault.Validation, "%q has no id of its own: plugins/ belongs to all", v.Bundle).
			Because("a published plugin names its id in plugin.json").
			Because(`as in "extensions": {"io.github.rye-build": {"id": "acme/db"}}`)
	}
	for segment := range strings.SplitSeq(path.Dir(v.Bundle), "/") {
		if strings.HasSuffix(segment, ".yaml") { // where the file of an index is, no directory can be
			return fault.New(fault.Validation, "%q can't be published: only the last segment may end in .yaml",
				v.Bundle)
		}
	}
	return nil
}

// published returns the log of a version's namespace, and the version that an archive was published as before, or
// nil, to who may publish it.
func (r *Registry) published(in rows.Reader, by *Caller, v *Version) (*log, *Version, error) {
	if err := r.mayPublish(in, by, v); err != nil {
		return nil, nil, err
	}
	l, err := r.logOf(in, SpaceOf(v.Bundle))
	if err != nil {
		return nil, nil, err
	}
	old, err := get[Version](in, l.versionRow(v.Key()))
	if err != nil || old == nil || old.Archive != v.Archive || old.Unpublished > 0 {
		return l, nil, err
	}
	return l, old, nil
}

// admit writes the version and the log's entry, in one transaction. Of two publishers of one version, one wins.
// stored is the log whose files have the archive.
func (r *Registry) admit(in rows.Writer, by *Caller, stored *log, v *Version) error {
	l, old, err := r.published(in, by, v)
	if err == nil && l.name != stored.name {
		err = errMoved
	}
	if err != nil {
		return err
	}
	if old != nil {
		*v = *old // the answer to an earlier request was lost
		return nil
	}
	return r.enter(in, by.Account, l, v)
}

// mayEnter returns an account as it is after it has published versions in a log, or why it can't publish them.
func (r *Registry) mayEnter(in rows.Reader, by string, l *log, versions ...*Version) (*Account, error) {
	account, err := active(in, by)
	if err != nil {
		return nil, err
	}
	if err := r.within(in, newVersions, by, r.o.Limits.Versions-len(versions)+1); err != nil {
		return nil, err
	}
	for _, v := range versions {
		if err := unused(in, l, v); err != nil {
			return nil, err
		}
		if err := fitsIndex(in, l, v); err != nil {
			return nil, err
		}
		account.Bytes += v.Size
	}
	if account.Bytes > r.o.Limits.Account {
		return nil, fault.New(fault.Limit, "the archives of the account %q would have more than %d bytes", by,
			r.o.Limits.Account)
	}
	return account, nil
}

// newVersions is what the tally of an account's versions counts.
const newVersions = "new versions"

// enter publishes versions by an account: one entry of a log for all, or none.
func (r *Registry) enter(in rows.Writer, by string, l *log, versions ...*Version) error {
	account, err := r.mayEnter(in, by, l, versions...)
	if err != nil {
		return err
	}
	entry := &tlog.Entry{Kind: tlog.Group, By: by}
	for _, v := range versions {
		entry.Releases = append(entry.Releases, tlog.Release{Bundle: v.Bundle, Version: v.Version,
			Manifest: v.Manifest, Archive: v.Archive, Size: v.Size})
	}
	if err := put(in, "account/"+by, account); err != nil {
		return err
	}
	if err := r.count(in, newVersions, by, len(versions), 24*time.Hour); err != nil {
		return err
	}
	if len(versions) == 1 {
		entry.Kind, entry.Release, entry.Releases = tlog.Publish, entry.Releases[0], nil
	}
	leaf, err := r.appendEntry(in, l, entry)
	if err != nil {
		return err
	}
	for _, v := range versions {
		v.By, v.Leaf, v.Time, v.Private = by, leaf, entry.Time, !l.public()
		if err := putVersion(in, l, v); err != nil {
			return err
		}
	}
	return nil
}

// putVersion writes the rows of a version.
func putVersion(in rows.Writer, l *log, v *Version) error {
	if err := put(in, l.archiveRow(hexOf(v.Archive)), archiveRow{v.Key()}); err != nil {
		return err
	}
	return put(in, l.versionRow(v.Key()), v)
}

// unused refuses a version whose number a log was given before.
func unused(in rows.Reader, l *log, v *Version) error {
	old, err := get[Version](in, l.versionRow(v.Key()))
	if err != nil || old == nil {
		return err
	}
	e := fault.New(fault.Conflict, "%s is published already, and a version never changes", v.Key()).
		On("bundle", v.Bundle).On("version", v.Version)
	if old.Unpublished > 0 {
		return e.Because("it was unpublished, and its number is never given again")
	}
	return e.Because("its manifest is "+old.Manifest.String(), "that of this archive is "+v.Manifest.String())
}

type archiveRow struct {
	Version string `json:"version"`
}

func hexOf(d cas.Digest) string { return strings.TrimPrefix(d.String(), "blake3:") }

// unpublishTime is how long a version may be unpublished.
const unpublishTime = 24 * time.Hour

// Withdraw yanks a version: it is never resolved anew, and locks still fetch it. Or it unpublishes it, within a day
// and if no other published bundle requires it: its archive is gone, and its number is never given again.
func (r *Registry) Withdraw(ctx context.Context, by *Caller, id, version string, unpublish bool) (*Version, error) {
	if err := by.may(ScopePublish, id); err != nil {
		return nil, err
	}
	if portable.CheckID(id) != nil || manifest.CheckVersion(version) != nil {
		return nil, noVersion(id, version)
	}
	var v *Version
	err := r.change(ctx, SpaceOf(id), func(in rows.Writer) error {
		if _, err := r.owned(in, by, SpaceOf(id)); err != nil {
			return err
		}
		logs, err := r.logsOf(in, SpaceOf(id))
		if err != nil {
			return err
		}
		l := logs[0]
		if v, err = get[Version](in, l.versionRow(id+"@"+version)); err != nil {
			return err
		}
		switch {
		case unpublish && v != nil && v.Unpublished > 0, !unpublish && v != nil && v.Yanked > 0 && v.Unpublished == 0:
			return nil // the answer to an earlier request was lost
		case v == nil || v.Unpublished > 0:
			return noVersion(id, version)
		case unpublish:
			if err := r.mayUnpublish(in, l, v); err != nil {
				return err
			}
		}
		for _, other := range logs[1:] {
			old, err := get[Version](in, other.versionRow(v.Key()))
			// One that has stopped must not keep the public log from it.
			if err == nil && old != nil && old.Unpublished == 0 && (unpublish || old.Yanked == 0) &&
				signing(in, other) == nil {
				err = r.withdraw(in, other, old, by.Name(), unpublish)
			}
			if err != nil {
				return err
			}
		}
		return r.withdraw(in, l, v, by.Name(), unpublish)
	})
	return v, err
}

// withdraw records in a log that a version is yanked or unpublished.
func (r *Registry) withdraw(in rows.Writer, l *log, v *Version, by string, unpublish bool) (err error) {
	entry := &tlog.Entry{Kind: tlog.Yank, By: by, Release: tlog.Release{Bundle: v.Bundle, Version: v.Version,
		Manifest: v.Manifest}}
	at := &v.Yanked
	if unpublish {
		entry.Kind, at = tlog.Unpublish, &v.Unpublished
	}
	if *at, err = r.appendEntry(in, l, entry); err != nil {
		return err
	}
	return put(in, l.versionRow(v.Key()), v)
}

func noVersion(id, version string) error {
	return fault.New(fault.NotFound, "there is no version %s of %q", version, id).On("bundle", id).
		On("version", version).Try("rye info " + fault.Quote(id))
}

// mayUnpublish returns why a version stays. What a private namespace requires of a public one doesn't count: a refusal
// would tell that it is there.
func (r *Registry) mayUnpublish(in rows.Reader, l *log, v *Version) error {
	if r.o.Now().Sub(v.Time) > unpublishTime {
		return fault.New(fault.Conflict, "%s was published more than a day ago: it can be yanked", v.Key()).
			Try("rye yank " + v.Key())
	}
	user := ""
	if err := each(in, l.versionRows(), func(_ string, other *Version) (bool, error) {
		if other.Bundle == v.Bundle || other.Unpublished > 0 {
			return true, nil
		}
		for _, text := range other.Requires {
			id, versions, _ := strings.Cut(text, " ")
			if id != v.Bundle {
				continue
			}
			require, err := index.NewRequire(id, versions)
			if err != nil {
				return false, err
			}
			if require.Range.Contains(v.Version) {
				user = other.Key()
				return false, nil
			}
		}
		return true, nil
	}); err != nil {
		return err
	}
	if user != "" {
		return fault.New(fault.Conflict, "%s is required by %s: it can be yanked", v.Key(), user).
			On("required_by", user).Try("rye yank " + v.Key())
	}
	return nil
}

// Versions returns the versions of a bundle that a caller may see, in the order in which they were published.
func (r *Registry) Versions(ctx context.Context, by *Caller, id string) (all []*Version, err error) {
	if portable.CheckID(id) == nil {
		err = r.o.Rows.View(ctx, func(in rows.Reader) error {
			l := r.public
			space, err := spaceFor(in, by, SpaceOf(id))
			if err == nil && space != nil && space.Private {
				l, err = r.private(space.Name)
			}
			if err != nil {
				return err
			}
			all, err = versionsOf(in, l, id)
			return err
		})
	}
	if err == nil && len(all) == 0 {
		err = fault.New(fault.NotFound, "no bundle %q is published here", id).On("bundle", id)
	}
	return all, err
}

func versionsOf(in rows.Reader, l *log, id string) (all []*Version, err error) {
	err = each(in, l.versionRow(id+"@"), func(_ string, v *Version) (bool, error) {
		if v.Unpublished == 0 {
			all = append(all, v)
		}
		return true, nil
	})
	slices.SortFunc(all, func(a, b *Version) int { return int(a.Leaf - b.Leaf) })
	return all, err
}

// KeyOf returns the public key that signs indexes.
func (r *Registry) KeyOf() key.Public { return r.public.indexes.Public() }
