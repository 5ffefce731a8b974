// Package publish is the publisher of indexes: it makes and updates the signed index of a directory of archives.
//
// How a call goes through here: Publish verifies every archive (archives, find, archive), reads the existing index
// (last) and keeps its entries for archives elsewhere (kept). If the entries changed, issue raises the counter, signs
// the index, writes the keys (writeKeys) and then the index (write).
package publish

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/bundle/find"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/cas/portable"
	"github.com/rye-build/rye/lock/index"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/admission"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/policy"
	"github.com/rye-build/rye/manifest/policy/yamltree"
	"github.com/rye-build/rye/manifest/rollback"
	"github.com/rye-build/rye/manifest/trust"
)

// Options configures Publish.
type Options struct {
	Dir     string    // the directory of archives; an absolute path
	Shown   string    // the directory as messages write it
	Name    string    // of a new index
	Expires time.Time // zero: as in the existing index
	Key     key.Private

	Finder  *find.Finder
	Verify  bundle.VerifyOptions // verified by a policy
	Journal *rollback.Journal    // remembers every published index and bundle
	Clock   func() time.Time

	Counted func(io.Reader) io.Reader // wraps the readers of archives
	Note    func(format string, args ...any)
	Warn    func(format string, args ...any)
}

// A Result is the index after Publish.
type Result struct {
	File       string   `json:"file"`
	Name       string   `json:"name"`
	Counter    int64    `json:"counter"`
	ID         string   `json:"id"` // of the document
	Expires    string   `json:"expires,omitempty"`
	Bundles    int      `json:"bundles"`
	Versions   int      `json:"versions"`
	Added      []string `json:"added"` // ID@VERSION
	Removed    []string `json:"removed"`
	Key        string   `json:"key"`
	Signatures int      `json:"signatures"`
	Changed    bool     `json:"changed"`
	Allowed    bool     `json:"allowed"` // the policy believes it now
}

// A publisher holds the state of one Publish.
type publisher struct {
	Options
	file string
}

// Publish verifies every archive in a directory and below it, and lists them in its signed index. It writes nothing
// if an archive is refused or nothing has changed.
func Publish(ctx context.Context, o Options) (*Result, error) {
	publisher := &publisher{o, filepath.Join(o.Dir, index.File)}
	if !o.Expires.IsZero() && !o.Expires.After(o.Clock()) {
		return nil, fault.New(fault.Validation, "--expires is in the past")
	}
	switch fi, err := os.Stat(o.Dir); {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fault.New(fault.Files, "no directory %q", o.Shown).Missing().From(err).On("path", o.Dir)
	case err == nil && !fi.IsDir():
		return nil, fault.New(fault.Validation, "%q is a file: expected a directory of archives", o.Shown)
	}
	entries, err := publisher.archives(ctx)
	if err != nil {
		return nil, err
	}
	unlock, err := trust.LockPolicy(ctx, publisher.file)
	if err != nil {
		return nil, err
	}
	defer unlock()
	return publisher.issue(ctx, entries)
}

// archives verifies the archives of the directory, and returns their entries.
func (x *publisher) archives(ctx context.Context) ([]index.Entry, error) {
	files, err := x.find()
	if err != nil {
		return nil, err
	}
	type refusal struct {
		File     string           `json:"file"`
		Failures []bundle.Finding `json:"failures"`
	}
	var all []index.Entry
	var refused []refusal
	var codes []fault.Code
	var why []string
	at := map[string]index.Entry{}
	for _, file := range files {
		entry, failures, err := x.archive(ctx, file)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", file, err)
		}
		if len(failures) > 0 {
			r := refusal{File: file}
			for _, f := range failures {
				l := f.Finding()
				r.Failures, codes = append(r.Failures, l), append(codes, l.Code)
				if len(why) < fault.MaxLines {
					why = append(why, file+": "+l.Text())
				}
			}
			refused = append(refused, r)
			continue
		}
		name := entry.ID + "@" + entry.Version
		switch twin, twice := at[name]; {
		case twice && twin.Manifest == entry.Manifest:
			x.Note("%q is the same bundle as %q and is listed once", file, twin.Archive)
		case twice:
			return nil, fault.New(fault.Ambiguous, "two different bundles %q", name).
				Because(twin.Manifest.String()+"  "+twin.Archive, entry.Manifest.String()+"  "+entry.Archive).
				On("bundle", name).On("archives", []string{twin.Archive, entry.Archive})
		default:
			at[name] = entry
			all = append(all, entry)
		}
	}
	if len(refused) > 0 {
		first := filepath.Join(x.Shown, filepath.FromSlash(refused[0].File))
		return nil, fault.New(fault.Gravest(codes), "%d of %s refused, and nothing was written", len(refused),
			fault.Count(int64(len(files)), "archive")).
			Because(why...).On("refused", refused).Try("rye bundle verify " + fault.Quote(first))
	}
	return all, nil
}

// find returns the archives of the directory, sorted, as an index writes them.
func (x *publisher) find() (files []string, err error) {
	err = filepath.WalkDir(x.Dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || path == x.Dir {
			return err
		}
		switch {
		case strings.HasPrefix(entry.Name(), "."):
			if entry.IsDir() {
				return fs.SkipDir
			}
			return nil
		case entry.IsDir() || !strings.HasSuffix(entry.Name(), ".tar.zst") && !strings.HasSuffix(entry.Name(), ".rye"):
			return nil
		}
		rel, err := filepath.Rel(x.Dir, path)
		if err != nil {
			return err
		}
		file := filepath.ToSlash(rel)
		if !entry.Type().IsRegular() {
			x.Warn("%q is not a regular file and is not listed", file)
			return nil
		}
		if err := portable.Check(file); err != nil {
			return fault.New(fault.Validation, "%q can't be listed", file).Because(err.Error())
		}
		files = append(files, file)
		return nil
	})
	slices.Sort(files)
	return files, err
}

// archive verifies one archive.
func (x *publisher) archive(ctx context.Context, file string) (entry index.Entry, failures []*bundle.Failure,
	err error) {
	path := filepath.Join(x.Dir, filepath.FromSlash(file))
	l, err := x.Finder.At(ctx, path)
	if err == nil && l.Archive == nil {
		err = fault.New(fault.Validation, "%q is an archive of another program", file).
			Because("an index lists archives of rye bundle export")
	}
	if err != nil {
		return entry, nil, err
	}
	o := x.Verify
	if o.Below, o.Needs, err = l.Below(ctx); err != nil {
		return entry, nil, err
	}
	report, err := bundle.Verify(ctx, l.Source(x.Counted), o)
	if err != nil || !report.OK() {
		if err == nil {
			failures = report.Failures
		}
		return entry, failures, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return entry, nil, err
	}
	entry = index.Entry{ID: report.BundleID, Version: report.Version, Manifest: report.ID, Archive: file,
		Size: info.Size()}
	for _, need := range report.Requires {
		q, err := index.NewRequire(need.BundleID, need.Version)
		if err != nil {
			return entry, []*bundle.Failure{{Check: bundle.CheckManifest, Err: err}}, nil
		}
		entry.Requires = append(entry.Requires, q)
	}
	return entry, nil, nil
}

// issue writes the index if its content changed, or if this key hasn't signed it.
func (x *publisher) issue(ctx context.Context, entries []index.Entry) (*Result, error) {
	old, err := x.last()
	if err != nil {
		return nil, err
	}
	if old == nil && x.Name == "" {
		return nil, fault.New(fault.Validation, "no index in %q yet: a new one needs a name", x.Shown).
			Because("policies say by its name who may sign it").
			Try("rye bundle index " + fault.Quote(x.Shown) + " --name acme/bundles")
	}
	next := &index.Index{Label: x.Name, Counter: 1, Expires: x.Expires, Entries: entries}
	if old != nil {
		next.Label, next.Counter = old.Label, old.Counter
		if x.Expires.IsZero() {
			next.Expires = old.Expires
		}
		if next.Entries, err = kept(old, entries); err != nil {
			return nil, err
		}
	}
	seen, err := x.seen(next.Label)
	if err != nil {
		return nil, err
	}
	body, doc, err := index.Append(nil, next)
	if err != nil {
		return nil, err
	}
	same := old != nil && doc.ID == old.ID && seen <= old.Counter
	if same {
		err = doc.Merge(x.Verify.Trust.Find, old.Signatures)
	} else if old != nil || seen > 0 {
		next.Counter = max(next.Counter, seen) + 1
		body, doc, err = index.Append(nil, next)
	}
	if err == nil {
		err = doc.Sign(x.Key, x.Clock().UTC().Truncate(time.Second))
	}
	if err != nil {
		return nil, err
	}
	ans := x.result(old, doc)
	if err := x.writeKeys(doc); err != nil {
		return nil, err
	}
	if ans.Changed = !same || !slices.Equal(doc.Signatures, old.Signatures); ans.Changed {
		if err := x.write(ctx, old == nil, manifest.Join(nil, body, doc.Signatures), doc); err != nil {
			return nil, err
		}
	}
	e, err := x.Verify.Trust.ExamineDocument(&doc.Document, doc.Expires, policy.ToUse)
	_, ended := errors.AsType[*admission.ExpiredError](err)
	switch {
	case ended:
		x.Warn("%s", err)
	case err != nil:
		return nil, err
	case !e.Decision.Allowed:
		x.Warn("that is not enough: %q %s", doc.Name, e.Decision.Reason())
	}
	ans.Allowed = err == nil && e.Decision.Allowed
	return ans, nil
}

// last reads the existing index, or returns nil. The new index continues it, so it must be signed by this key or
// accepted by the policy, although it may have expired.
func (x *publisher) last() (*index.Index, error) {
	text, err := osfile.ReadSmall(x.file, index.MaxBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	old, err := index.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%q: %w", x.file, err)
	}
	if x.Name != "" && x.Name != old.Label {
		return nil, fault.New(fault.Validation, "the index in %q is named %q: an index keeps its name", x.Shown,
			old.Label).
			Because("projects that have seen it would refuse another one in its place")
	}
	own := x.Key.Public()
	if by, err := old.Check(func(f key.Fingerprint) (key.Public, bool) {
		return own, f == own.Fingerprint()
	}); err == nil && len(by) > 0 {
		return old, nil
	}
	e, err := x.Verify.Trust.ExamineDocument(&old.Document, time.Time{}, policy.ToUse)
	if err == nil && !e.Decision.Allowed {
		err = &bundle.NotAdmittedError{Name: old.Name, Decision: e.Decision}
	}
	if err != nil {
		return nil, fmt.Errorf("%q, which would be continued: %w", x.file, err)
	}
	return old, nil
}

// kept adds the entries of the old index for archives elsewhere. It refuses a version that became another bundle.
func kept(old *index.Index, entries []index.Entry) ([]index.Entry, error) {
	has := map[string]bool{}
	for i := range entries {
		e := &entries[i]
		has[e.ID+"@"+e.Version] = true
		if was := old.Find(e.ID, e.Version); was != nil && was.Manifest != e.Manifest {
			return nil, fault.New(fault.Rollback, "%q is already listed as another bundle", e.ID+"@"+e.Version).
				Because("expected  "+was.Manifest.String(), "found     "+e.Manifest.String()+"  "+e.Archive,
					"its users would refuse it: a changed bundle needs another version").
				On("reason", rollback.Other).On("bundle", e.ID+"@"+e.Version).On("expected",
				was.Manifest.String()).On("found", e.Manifest.String())
		}
	}
	for i := range old.Entries {
		if e := &old.Entries[i]; e.Remote() && !has[e.ID+"@"+e.Version] {
			entries = append(entries, *e)
		}
	}
	return entries, nil
}

// seen returns the counter of the last index of this name that was published here, or 0. Counting continues even if
// the file was lost or replaced by an older one, because readers refuse to go back.
func (x *publisher) seen(label string) (int64, error) {
	all, err := x.Journal.Seen()
	if err != nil {
		return 0, err
	}
	for _, s := range all {
		if s.Source == x.Dir && s.Name == "index:"+label && s.ByName {
			return strconv.ParseInt(s.Position, 10, 64)
		}
	}
	return 0, nil
}

// writeKeys writes the public keys of the signers beside the index, for readers who don't know them. It comes first:
// keys of another issue count as none.
func (x *publisher) writeKeys(doc *index.Index) error {
	var keys []manifest.SignerKey
	for _, l := range doc.Signatures {
		if k, ok := x.Verify.Trust.Root.Policy.Key(l.Key); ok {
			keys = append(keys, manifest.SignerKey{Public: k.Public, Owner: k.Owner})
		} else if own := x.Key.Public(); own.Fingerprint() == l.Key {
			keys = append(keys, manifest.SignerKey{Public: own})
		}
	}
	file, text := index.KeysOf(x.file), manifest.AppendSignerKeys(nil, doc.Signatures, keys)
	if there, err := osfile.ReadSmall(file, index.MaxKeys); err == nil && bytes.Equal(there, text) {
		return nil
	}
	return osfile.WriteFile(file, 0o644, false, osfile.BytesOf(text))
}

// write writes the index. If another process has created the first one meanwhile, that one stays.
func (x *publisher) write(ctx context.Context, first bool, text []byte, doc *index.Index) error {
	now := x.Clock()
	steps := []rollback.Step{{Source: x.Dir, Name: doc.Name, Position: strconv.FormatInt(doc.Counter, 10), ID: doc.ID,
		ByName: true, At: now}}
	for i := range doc.Entries {
		// A version that leaves the index may not return as another bundle.
		e := &doc.Entries[i]
		steps = append(steps, rollback.Step{Source: x.Dir, Name: "bundle:" + e.ID, Position: e.Version, ID: e.Manifest,
			At: now})
	}
	if err := x.Journal.Record(ctx, steps...); err != nil {
		return err
	}
	err := osfile.WriteFile(x.file, 0o644, first, osfile.BytesOf(text))
	if errors.Is(err, os.ErrExist) {
		err = fault.New(fault.Conflict, "another process created %q meanwhile: it was left as it is", x.file)
	}
	return err
}

func (x *publisher) result(old, doc *index.Index) *Result {
	ans := &Result{File: filepath.Join(x.Shown, index.File), Name: doc.Label, Counter: doc.Counter,
		ID: doc.ID.String(), Expires: yamltree.DateText(doc.Expires),
		Versions: len(doc.Entries), Added: []string{}, Removed: []string{}, Key: x.Key.Public().Fingerprint().String(),
		Signatures: len(doc.Signatures)}
	if old == nil {
		old = &index.Index{}
	}
	for i := range doc.Entries {
		e := &doc.Entries[i]
		if i == 0 || doc.Entries[i-1].ID != e.ID {
			ans.Bundles++
		}
		if old.Find(e.ID, e.Version) == nil {
			ans.Added = append(ans.Added, e.ID+"@"+e.Version)
		}
	}
	for i := range old.Entries {
		if e := &old.Entries[i]; doc.Find(e.ID, e.Version) == nil {
			ans.Removed = append(ans.Removed, e.ID+"@"+e.Version)
		}
	}
	return ans
}
