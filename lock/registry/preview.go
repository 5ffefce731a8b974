package registry

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/bundle/archive"
	"github.com/rye-build/rye/bundle/diff"
	"github.com/rye-build/rye/bundle/find"
	"github.com/rye-build/rye/bundle/secret"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/lock/web"
	"github.com/rye-build/rye/manifest"
)

// A Preview is what someone should know before an archive is sent: what is in it, and what has changed since the last
// version.
type Preview struct {
	Published // as the registry would have it
	Files     int
	Secrets   []secret.Finding

	Last    string       // the version before, as the registry has it; "" for the first one
	Changes *diff.Report // since then
	Least   string       // the lowest version that the changes allow
}

// Early reports whether the version promises more than the changes allow.
func (p *Preview) Early() bool {
	return p.Least != "" && manifest.CompareVersions(p.Version, p.Least) < 0
}

// Preview verifies an archive as the registry will, scans it for secrets, and compares it with the last version there.
// below are the spaces that its items may use.
func (s *Session) Preview(ctx context.Context, file io.ReadSeeker, below []*ai.Space,
	o bundle.VerifyOptions) (*Preview, error) {
	p := &Preview{}
	hasher := cas.NewHasher()
	var err error
	if p.Size, err = io.Copy(hasher, file); err != nil {
		return nil, err
	}
	p.Archive = hasher.Digest()
	if err := p.verify(ctx, file, below, o); err != nil {
		return nil, err
	}
	if err := p.scan(ctx, file); err != nil {
		return nil, err
	}
	return p, p.compare(ctx, s, file, below)
}

// verify verifies the archive with the keys that it carries: the registry vouches for no signer.
func (p *Preview) verify(ctx context.Context, file io.ReadSeeker, below []*ai.Space, o bundle.VerifyOptions) error {
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	head, err := archive.ReadHead(ctx, file)
	if err != nil {
		return err
	}
	for _, k := range head.Keys {
		o.Signers = append(o.Signers, k.Public)
	}
	if len(o.Signers) == 0 {
		return fault.New(fault.Unsigned, "%q carries no key of a signer, and a registry takes signed bundles alone",
			head.List.Name).Try(fault.Command("rye bundle create", head.List.BundleID))
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	o.Threshold, o.Below = 1, below
	report, err := bundle.Verify(ctx, bundle.InArchive(file), o)
	if err != nil {
		return err
	}
	if !report.OK() {
		return report.Fault()
	}
	p.Files = len(head.Files)
	p.Bundle, p.Version, p.Manifest = report.BundleID, report.Version, report.ID
	p.License, p.About = report.License, report.Description
	for _, signer := range report.Manifest.Signers {
		p.Signers = append(p.Signers, signer.Key.Fingerprint().String())
	}
	return nil
}

// scan looks for secrets in the names and the content of the archive's files.
func (p *Preview) scan(ctx context.Context, file io.ReadSeeker) error {
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	_, err := archive.Read(ctx, file, &scanning{p: p, scanner: secret.NewScanner()})
	return err
}

// A scanning scans the files of an archive as they are read.
type scanning struct {
	p       *Preview
	scanner *secret.Scanner
}

// Begin implements archive.Sink.
func (s *scanning) Begin(*archive.Head) error { return nil }

// File implements archive.Sink.
func (s *scanning) File(e archive.Entry, r io.Reader) error {
	if found, ok := secret.Named(e.Path); ok {
		s.p.Secrets = append(s.p.Secrets, found)
	}
	found, err := s.scanner.Scan(e.Path, r)
	s.p.Secrets = append(s.p.Secrets, found...)
	return err
}

// compare finds the last version before this one at the registry, and compares the two.
func (p *Preview) compare(ctx context.Context, s *Session, file io.ReadSeeker, below []*ai.Space) error {
	known, err := s.Bundle(ctx, p.Bundle)
	if fault.CodeOf(err) == fault.NotFound {
		return nil // it will be the first
	}
	if err != nil {
		return err
	}
	var last *Published
	for i := range known.Versions {
		v := &known.Versions[i]
		if v.Yanked > 0 || manifest.CheckVersion(v.Version) != nil ||
			manifest.CompareVersions(v.Version, p.Version) >= 0 {
			continue
		}
		if last == nil || manifest.CompareVersions(v.Version, last.Version) > 0 {
			last = v
		}
	}
	if last == nil {
		return nil
	}
	old, err := s.published(ctx, last, below)
	if err != nil {
		return err
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	made, err := unpacked(ctx, "the archive", file, below)
	if err != nil {
		return err
	}
	if p.Changes, err = diff.Diff(ctx, *old, *made); err != nil {
		return err
	}
	p.Last, p.Least = last.Version, p.Changes.Next(last.Version)
	return nil
}

// SameItem reports whether the newest version that the registry has of an archive's id, if there is one, is of the
// same single item: it has the same entrypoint, and no item that the archive lacks. It reads no more than the file
// lists, and goes back to the beginning of the archive.
func (s *Session) SameItem(ctx context.Context, file io.ReadSeeker) (bool, error) {
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return false, err
	}
	made, err := archive.ReadHead(ctx, file)
	if err != nil {
		return false, err
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return false, err
	}
	known, err := s.Bundle(ctx, made.List.BundleID)
	if fault.CodeOf(err) == fault.NotFound || err == nil && len(known.Versions) == 0 {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	last := &known.Versions[len(known.Versions)-1]
	body, err := s.archiveOf(ctx, last)
	if err != nil {
		return false, err
	}
	defer body.Close()
	old, err := archive.ReadHead(ctx, body)
	if err != nil {
		return false, fault.New(fault.Registry, "the registry's %s@%s can't be compared with: %v", last.Bundle,
			last.Version, err).From(err)
	}
	items := map[string]bool{}
	for i := range made.Files {
		items[made.Files[i].Ref] = true
	}
	return old.List.Entrypoint == made.List.Entrypoint && !slices.ContainsFunc(old.Files, func(f manifest.File) bool {
		return f.Ref != "" && !items[f.Ref]
	}), nil
}

// published brings a version that the registry has. Its word for what that is suffices here: nothing is locked by it.
func (s *Session) published(ctx context.Context, v *Published, below []*ai.Space) (*diff.Side, error) {
	body, err := s.archiveOf(ctx, v)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	info := cas.Info{ID: cas.ID{Kind: cas.Blob, Digest: v.Archive}, Size: v.Size}
	side, err := unpacked(ctx, v.Bundle+"@"+v.Version, cas.Verify(info, body), below)
	if err == nil && side.Bundle.ID != v.Manifest {
		err = errors.New("its archive has another manifest than it says")
	}
	if err != nil {
		return nil, fault.New(fault.Registry, "the registry's %s@%s can't be compared with: %v", v.Bundle, v.Version,
			err).From(err)
	}
	return side, nil
}

// archiveOf opens the archive of a version. That of a private namespace needs the token.
func (s *Session) archiveOf(ctx context.Context, v *Published) (io.ReadCloser, error) {
	host, _, _ := SplitPrivate(s.URL)
	if !v.Private {
		body, _, err := s.Client.Get(ctx, host+"/"+ArchiveFile(v.Archive), v.Size)
		return body, err
	}
	space, _, _ := strings.Cut(v.Bundle, "/")
	return s.Client.Download(ctx, web.Request{Method: "GET", Token: s.Token,
		Address: host + PrivatePath(space) + "/" + ArchiveFile(v.Archive)}, v.Size)
}

func unpacked(ctx context.Context, name string, r io.Reader, below []*ai.Space) (*diff.Side, error) {
	found := &find.Found{Where: find.InArchive, Place: name, Archive: r}
	if err := found.Unpack(ctx, func(r io.Reader) io.Reader { return r }); err != nil {
		return nil, err
	}
	return &diff.Side{Bundle: found.Bundle, Files: found.Files, Below: below}, nil
}
