package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/bundle/install"
	"github.com/rye-build/rye/bundle/legacy"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/disk"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/policy"
	"github.com/rye-build/rye/manifest/sign"
)

// Bundles of the first format (v1) are listed, inspected, compared, verified and imported. Nothing else is done with
// them: rye bundle create makes one of today from the same files, whose items count because the old manifest lists them.

// inDir is a bundle of a project, or of the user's directory, in either format.
func (b *bundles) inDir(where, dir, id string) (*located, error) {
	l := &located{where: where, place: dir, id: id, dir: dir}
	first, err := isFirst(dir, id)
	if err != nil || !first {
		return l, err
	}
	space, err := ai.OpenDir(dir, id, ai.Project)
	if err != nil {
		return nil, err
	}
	b.opened = append(b.opened, space)
	l.first = space.FS
	return l, nil
}

// isFirst reports whether the manifest of a bundle below a directory is one of the first format. One that can't be read
// is none, and for others to report.
func isFirst(dir, id string) (bool, error) {
	at, err := bundle.ManifestPath(id)
	if err != nil {
		return false, err
	}
	f, err := openRegular(filepath.Join(dir, filepath.FromSlash(at)))
	if err != nil {
		return false, nil
	}
	defer f.Close()
	head, _ := io.ReadAll(io.LimitReader(f, maxHead))
	return legacy.IsFirst(head), nil
}

// maxHead is more than what stands before the first key of a manifest: lines of signatures.
const maxHead = 64 << 10

// needToday refuses a bundle of the first format where only one of today will do.
func (l *located) needToday() error {
	if l.first == nil {
		return nil
	}
	hint := []string{"rye bundle create " + fault.Quote(l.id)}
	if l.where != inProject {
		hint = []string{"rye bundle create " + fault.Quote(l.id) + " --package DIR"}
	}
	return &fault.Error{Code: fault.Denied, Text: fmt.Sprintf("%q is a bundle of the first format (v1), which is verified and imported, and not written", l.id),
		Why: []string{"a bundle of today can be made of its files"}, Hint: hint, Details: map[string]any{"reason": "v1", "bundle": l.id}}
}

// readFirst reads a bundle of the first format as one of today, with what is wrong with its files.
func (b *bundles) readFirst(ctx context.Context, l *located) (*legacy.Content, error) {
	c, err := legacy.Read(ctx, l.first, l.id)
	if err != nil {
		return nil, err
	}
	if c.Manifest == nil {
		return nil, c.Failures[0].Err // it can't be read
	}
	l.read, err = c.Bundle(ctx, []*ai.Space{librarySpace()})
	l.has = c
	return c, err
}

// verifyFirst verifies a bundle of the first format.
func (b *bundles) verifyFirst(ctx context.Context, l *located, v *vouching) (*legacy.Report, error) {
	if v.trust == nil {
		return nil, &fault.Error{Code: fault.Denied, Text: fmt.Sprintf("%q is a bundle of the first format (v1): that is for a policy to accept, and not for --signer", l.id),
			Why: []string{"its signature binds no name, and its items need one that says \"accept: [v1, v2]\""}, Details: map[string]any{"reason": "v1", "bundle": l.id}}
	}
	p := b.app.progress("verifying", 0)
	defer p.Done()
	return legacy.Verify(ctx, l.first, l.id, legacy.Options{Trust: v.options.Trust, Below: []*ai.Space{librarySpace()}, Progress: p.reached()})
}

// first says what was found of a bundle of the first format, in the words of today.
func (c *bundleVerifyRun) first(ctx context.Context, b *bundles, l *located, v *vouching) (answer, error) {
	if len(c.Require)+len(c.Statement) > 0 {
		return nil, &fault.Error{Code: fault.Validation, Text: fmt.Sprintf("%q is a bundle of the first format (v1), which knows no evidence", l.id)}
	}
	r, err := b.verifyFirst(ctx, l, v)
	if err != nil {
		return nil, err
	}
	same, err := asToday(ctx, r)
	if err != nil {
		return nil, err
	}
	ans := newBundleReport(l, v, same)
	ans.Format = sign.V1.String()
	ans.Extra = true // what else is there was never looked for
	if r.Manifest != nil {
		ans.Of = len(r.Files)
		if ans.Trust == "unsigned" && r.Exam.Signed.Format != sign.None {
			ans.Trust = "refused"
		}
	}
	return c.answer(b.app, ans, same.Failures)
}

// asToday is a report on a bundle of the first format as one of today has it.
func asToday(ctx context.Context, r *legacy.Report) (*bundle.Report, error) {
	same := &bundle.Report{Manifest: r.Exam, Good: int64(len(r.Good)), Read: r.Read, Vouched: r.Vouched, Failures: r.Failures}
	if r.Manifest == nil {
		return same, nil
	}
	var err error
	same.Bundle, err = r.Bundle(ctx, []*ai.Space{librarySpace()})
	return same, err
}

// importFirst brings a bundle of the first format into the store, once it is verified: its files, with the manifest
// among them as it stands in a project.
func (b *bundles) importFirst(ctx context.Context, l *located, v *vouching) (answer, error) {
	r, err := b.verifyFirst(ctx, l, v)
	if err != nil {
		return nil, err
	}
	same, err := asToday(ctx, r)
	if err != nil {
		return nil, err
	}
	if !r.OK() {
		return nil, &install.RefusedError{Report: same}
	}
	s, err := b.store(true)
	if err != nil {
		return nil, err
	}
	batch, err := s.Batch(ctx)
	if err != nil {
		return nil, err
	}
	defer batch.Close() // when the refs are there: until then gc leaves alone what is in it
	at, err := bundle.ManifestPath(l.id)
	if err != nil {
		return nil, err
	}
	files := []manifest.File{{Path: at, Size: int64(len(r.Text)), Mode: cas.File}}
	if files[0].Digest, err = batch.PutBytes(ctx, cas.Blob, r.Text); err != nil {
		return nil, err
	}
	for _, f := range r.Good {
		// Each is hashed as it is read, so that what was verified is what is kept.
		if err := put(ctx, batch, r, f.Digest); err != nil {
			return nil, fmt.Errorf("%q: %w", f.Path, err)
		}
		files = append(files, f)
	}
	if err := batch.Commit(ctx); err != nil {
		return nil, err
	}
	if err := install.KeepFirst(ctx, s, r.Document, r.Body(), files); err != nil {
		return nil, err
	}
	return bundleImport{Bundle: r.Manifest.ID, Version: r.Version, Manifest: r.Document.String(), Format: sign.V1.String(), Files: len(r.Good), Items: len(r.Vouched), Bytes: r.Read}, nil
}

// put brings a file from one place to another.
func put(ctx context.Context, to cas.Batch, from cas.Getter, d cas.Digest) error {
	o, err := from.Get(ctx, cas.ID{Kind: cas.Blob, Digest: d})
	if err != nil {
		return err
	}
	defer o.Close()
	_, err = to.Put(ctx, cas.Blob, o)
	return err
}

// storedFirst is a bundle of the first format in the store; nil if there is none of this digest.
func (b *bundles) storedFirst(ctx context.Context, s *disk.Store, id cas.Digest) (*located, error) {
	root, err := s.Ref(install.FirstRef(id) + "/files")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	l := &located{where: inStore, place: "store"}
	var files []manifest.File
	err = cas.Walk(ctx, s, root, func(name string, e cas.Entry) error {
		if e.Mode == cas.Dir {
			return nil
		}
		files = append(files, manifest.File{Path: name, Digest: e.Digest, Size: e.Size, Mode: e.Mode})
		if id, ok := strings.CutPrefix(path.Dir(name), markerDir+"/bundles/"); ok && path.Base(name) == bundleManifest {
			l.id = id
		}
		return nil
	})
	slices.SortFunc(files, func(x, y manifest.File) int { return strings.Compare(x.Path, y.Path) })
	l.first = bundle.FS(ctx, s, files, ".")
	return l, err
}

// A firstList is what a manifest of the first format in the store says.
type firstList struct {
	*legacy.Manifest
	id cas.Digest
}

// storedFirsts reads the manifests of the first format in the store.
func (b *bundles) storedFirsts(ctx context.Context) ([]firstList, error) {
	return storedDocuments(ctx, b, func(r disk.Ref) bool { return r.Name == install.FirstRef(r.ID.Digest) }, func(o cas.Object) (firstList, error) {
		text, err := io.ReadAll(io.LimitReader(o, legacy.MaxBytes+1))
		if err != nil {
			return firstList{}, err
		}
		m, err := legacy.Parse(text)
		return firstList{m, o.ID.Digest}, err
	})
}

// latestFirst finds a bundle of the first format in the store by its name; nil if there is none.
func (b *bundles) latestFirst(ctx context.Context, id, version string) (*located, error) {
	all, err := b.storedFirsts(ctx)
	if err != nil {
		return nil, err
	}
	var last *firstList
	for i := range all {
		m := &all[i]
		if m.ID != id || version != "" && m.Version != version {
			continue
		}
		if last == nil || manifest.CompareVersions(m.Version, last.Version) > 0 {
			last = m
		} else if m.Version == last.Version {
			return nil, &fault.Error{Code: fault.Ambiguous, Text: fmt.Sprintf("there are several bundles %s@%s in the store", id, m.Version),
				Why: []string{last.id.String(), m.id.String()}, Hint: []string{"rye bundle inspect " + m.id.String()}}
		}
	}
	if last == nil {
		return nil, nil
	}
	s, err := b.store(false)
	if err != nil {
		return nil, err
	}
	return b.storedFirst(ctx, s, last.id)
}

// newFirstLine is a bundle of the first format in a list.
func newFirstLine(where string, m *legacy.Manifest, document string) bundleLine {
	return bundleLine{Bundle: m.ID, Version: m.Version, Manifest: document, Format: sign.V1.String(), Where: where, Description: m.Description, Entrypoint: m.Entrypoint, Files: len(m.Files),
		SignedBy: []string{}, Previous: []versionLink{}}
}

// firstLine is one of a directory.
func firstLine(where, dir, id string) (bundleLine, error) {
	at, err := bundle.ManifestPath(id)
	if err != nil {
		return bundleLine{}, err
	}
	text, err := readSmall(filepath.Join(dir, filepath.FromSlash(at)), legacy.MaxBytes)
	if err != nil {
		return bundleLine{}, err
	}
	m, err := legacy.Parse(text)
	if err != nil {
		return bundleLine{}, err
	}
	return newFirstLine(where, m, cas.Sum(legacy.Body(text)).String()), nil
}

// listing is what examines items where a signature of the first format counts beside an admitted manifest that lists
// them, be it one of today or of the first format. The manifests are those below the directories, and are looked at when
// the first such signature is.
func (t *trust) listing(ctx context.Context, dirs ...string) *bundle.Listing {
	all := sync.OnceValue(func() (found []func(cas.Digest) bool) {
		for _, dir := range dirs {
			ids, _ := projectBundles(dir)
			for _, id := range ids {
				if lists := t.listedBy(ctx, dir, id); lists != nil {
					found = append(found, lists)
				}
			}
		}
		return found
	})
	return &bundle.Listing{Trust: t.exam(), Listed: func(d cas.Digest) bool {
		return slices.ContainsFunc(all(), func(lists func(cas.Digest) bool) bool { return lists(d) })
	}}
}

// listedBy says what a manifest lists, if the policy admits it; else nil.
func (t *trust) listedBy(ctx context.Context, dir, id string) func(cas.Digest) bool {
	if first, err := isFirst(dir, id); err != nil || first {
		space, err := ai.OpenDir(dir, id, ai.Project)
		if err != nil {
			return nil
		}
		defer space.Close()
		r, err := legacy.List(ctx, space.FS, id, legacy.Options{Trust: t.exam()})
		if err != nil {
			return nil
		}
		return r.Listed
	}
	read, err := readManifest(dir, id)
	if err != nil {
		return nil
	}
	e, err := t.exam().ExamineDocument(&read.Document, read.Expires, policy.ToUse)
	if err != nil || !e.Decision.Allowed {
		return nil
	}
	digests := make(map[cas.Digest]bool, len(read.Files))
	for i := range read.Files {
		digests[read.Files[i].Digest] = true
	}
	return func(d cas.Digest) bool { return digests[d] }
}

// installedAll are the installed bundles. Manifests of the first format, which older programs have put there, are no
// error: they are no installed bundles.
func (b *bundles) installedAll(ctx context.Context, space *install.Space) ([]*install.Installed, error) {
	all, err := space.List(ctx)
	if err == nil {
		return all, nil
	}
	var others []error
	for _, e := range each(err) {
		if bad, ok := errors.AsType[*install.ManifestError](e); !ok || !b.firstOfUser(bad) {
			others = append(others, e)
		}
	}
	return all, errors.Join(others...)
}

// firstOfUser reports whether what can't be read as the manifest of an installed bundle is one of the first format.
func (b *bundles) firstOfUser(e *install.ManifestError) bool {
	id, ok := strings.CutPrefix(path.Dir(e.Path), "bundles/")
	home := b.app.userBase()
	if !ok || home.err != nil {
		return false
	}
	first, err := isFirst(home.value, id)
	return err == nil && first
}
