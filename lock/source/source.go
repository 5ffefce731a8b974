package source

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rye-build/rye/ai/semver"
	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/bundle/install"
	"github.com/rye-build/rye/bundle/remote"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/oci"
	"github.com/rye-build/rye/lock/file"
	"github.com/rye-build/rye/lock/git"
	"github.com/rye-build/rye/lock/index"
	"github.com/rye-build/rye/lock/project"
	"github.com/rye-build/rye/lock/registry"
	"github.com/rye-build/rye/lock/resolve"
	"github.com/rye-build/rye/manifest/rollback"
	"github.com/rye-build/rye/manifest/tlog"
)

// A Fetcher gets files by https, as *web.Client does.
type Fetcher = registry.Fetcher

// Options configures New. Dir, Store, Verify.Trust, Journal and Now are required.
type Options struct {
	Dir      string // the directory of rye.yaml, an absolute path
	Requires []project.Requirement
	// Registries are the registries of bundles, with the policies of witnesses that hold for their logs.
	Registries []project.Registry
	Witnesses  []*tlog.Policy
	Locked     func(id string) *file.Bundle // the locked bundle, or nil; may be nil
	// Before leaves out versions in registries that are newer, except locked ones, and tells Young; zero: none.
	Before   time.Time
	Young    func(id, version string, since time.Time) // several goroutines call it
	Fetch    Fetcher                                   // nil: offline
	Git      *git.Client                               // nil: offline for git repositories
	OCI      oci.Options                               // without a Transport: offline for registries
	Spool    string                                    // a directory for downloaded layers that aren't used yet
	Store    install.Store
	Verify   bundle.VerifyOptions // how each bundle is verified; Below is Bring's
	Journal  *rollback.Journal
	Now      func() time.Time
	Progress func(bytes int64) // several goroutines call it with the number of bytes read; may be nil
	// Archives are those that other Sources of the command have read. Nil: this one's alone, which its Close removes.
	Archives *Archives
}

// Sources are the sources of a project. They are safe for concurrent use. Close them when no goroutine uses them any
// more.
type Sources struct {
	o        Options
	named    map[string]project.Source
	listing  []string // the places of the indexes, each once
	archives *Archives

	indexes memo[string, *index.Index]
	heads   memo[headKey, *bundle.Bundle]
	plains  memo[string, *plain]      // by the texts of their sources
	tips    memo[string, string]      // commits of revisions, and digests of tags
	commits memo[string, *git.Commit] // by the texts of their sources

	views    memo[string, *registry.View]    // of the logs of registries, by address
	listings memo[registryKey, *index.Index] // of bundles in registries
	proofs   memo[headKey, *tlog.Proof]

	places memo[string, *oci.Place]
	tags   memo[string, []string]       // of a repository
	images memo[string, *remote.Remote] // by references with digests
}

type headKey struct{ id, where string }

// New returns sources with these options. It reads nothing.
func New(o Options) *Sources {
	s := &Sources{o: o, named: map[string]project.Source{}, archives: o.Archives}
	if s.archives == nil {
		s.archives = new(Archives)
	}
	for _, r := range o.Requires {
		s.named[r.ID] = r.Source
		if r.Source.Index && !slices.Contains(s.listing, r.Source.Where) {
			s.listing = append(s.listing, r.Source.Where)
		}
	}
	return s
}

// Close removes fetched and unpacked data.
func (s *Sources) Close() error {
	var wrong []error
	for _, p := range s.plains.found(func(string) bool { return true }) {
		if p != nil {
			wrong = append(wrong, p.close())
		}
	}
	for _, c := range s.commits.found(func(string) bool { return true }) {
		wrong = append(wrong, c.Close())
	}
	if s.o.Archives == nil {
		wrong = append(wrong, s.archives.Close())
	}
	return errors.Join(wrong...)
}

// Versions implements resolve.Sources. A missing bundle is an fs.ErrNotExist.
func (s *Sources) Versions(ctx context.Context, id string) ([]resolve.Candidate, error) {
	src, err := s.of(ctx, id)
	if err != nil {
		return nil, err
	}
	if ref, many := manyImages(src); many {
		return s.tagged(ctx, id, ref)
	}
	if url, ok := src.Registry(); ok {
		return s.registered(ctx, id, url)
	}
	if !src.Index {
		b, err := s.head(ctx, id, src)
		if err != nil {
			return nil, err
		}
		requires, err := requiresOf(b)
		if err != nil {
			return nil, inSource("", "", src.Where, err)
		}
		return []resolve.Candidate{candidate(b.Version, requires)}, nil
	}
	x, err := s.index(ctx, src.Where)
	if err != nil {
		return nil, err
	}
	entries := x.Versions(id)
	if len(entries) == 0 {
		return nil, notListed(id, "", []string{src.Where}, idsOf(x))
	}
	all := make([]resolve.Candidate, len(entries))
	for i := range entries {
		all[i] = candidate(entries[i].Version, entries[i].Requires)
	}
	return all, nil
}

func candidate(version string, requires []index.Require) resolve.Candidate {
	c := resolve.Candidate{Version: version, Requires: make(map[string]semver.Range, len(requires))}
	for _, r := range requires {
		c.Requires[r.ID] = r.Range
	}
	return c
}

// requiresOf reads the ranges of a manifest.
func requiresOf(b *bundle.Bundle) ([]index.Require, error) {
	all := make([]index.Require, len(b.Requires))
	for i, r := range b.Requires {
		var err error
		if all[i], err = index.NewRequire(r.BundleID, r.Version); err != nil {
			return nil, fmt.Errorf("%q: %w", b.Name, err)
		}
	}
	return all, nil
}

// Manifest returns the manifest of a version and its source, as a lock names them. A version that had another
// manifest before is a *rollback.Error.
func (s *Sources) Manifest(ctx context.Context, id, version string) (cas.Digest, project.Source, error) {
	src, err := s.of(ctx, id)
	if err != nil {
		return cas.Digest{}, src, err
	}
	var digest cas.Digest
	if ref, many := manyImages(src); many {
		at, b, err := s.version(ctx, id, version, ref)
		if err != nil {
			return cas.Digest{}, src, err
		}
		src, digest = at, b.ID
	} else if url, ok := src.Registry(); ok {
		if digest, err = s.published(ctx, id, version, url); err != nil {
			return cas.Digest{}, src, err
		}
	} else if src.Index {
		x, err := s.index(ctx, src.Where)
		if err != nil {
			return cas.Digest{}, src, err
		}
		e := x.Find(id, version)
		if e == nil {
			return cas.Digest{}, src, notListed(id, version, []string{src.Where}, nil)
		}
		digest = e.Manifest
	} else {
		b, err := s.head(ctx, id, src)
		if err != nil {
			return cas.Digest{}, src, err
		}
		if b.Version != version {
			return cas.Digest{}, src, inSource(id, version, src.Where, Mismatch("version", version, b.Version))
		}
		if err := s.byName(ctx, src, b); err != nil {
			return cas.Digest{}, src, inSource(id, version, src.Where, err)
		}
		digest = b.ID
	}
	if err := s.check(src, s.step(id, version, src, digest)); err != nil {
		return cas.Digest{}, src, inSource(id, version, src.Where, err)
	}
	return digest, src, nil
}

// of returns the only source that a bundle may come from, as a lock names it.
func (s *Sources) of(ctx context.Context, id string) (project.Source, error) {
	if src, ok := s.named[id]; ok {
		return s.pin(ctx, id, src)
	}
	var found, listed []string
	for _, where := range s.listing {
		x, err := s.index(ctx, where)
		if err != nil {
			return project.Source{}, err
		}
		if len(x.Versions(id)) > 0 {
			found = append(found, where)
		}
		listed = append(listed, idsOf(x)...)
	}
	for i := range s.o.Registries {
		if r := &s.o.Registries[i]; r.Has(id) {
			found = append(found, project.RegistryAt(r.URL).Where)
		}
	}
	switch len(found) {
	case 0:
		return project.Source{}, notListed(id, "", s.listing, listed)
	case 1:
		return project.Source{Index: !strings.HasPrefix(found[0], "registry:"), Where: found[0]}, nil
	}
	return project.Source{}, ambiguous(id, found)
}

// idsOf returns the ids of the bundles in an index.
func idsOf(x *index.Index) (ids []string) {
	for i := range x.Entries {
		if id := x.Entries[i].ID; !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// path returns the path of a source without an address.
func (s *Sources) path(where string) string {
	return filepath.Join(s.o.Dir, filepath.FromSlash(where))
}

// place returns a source's name in the journal.
func (s *Sources) place(src project.Source) string {
	if ref, image := src.OCI(); image {
		return s.imagePlace(ref, "")
	}
	if src.Remote() {
		return src.Where
	}
	return s.path(src.Where)
}

// step returns the journal entry of a version from a source.
func (s *Sources) step(id, version string, src project.Source, manifest cas.Digest) rollback.Step {
	return rollback.Step{Source: s.place(src), Name: "bundle:" + id, Position: version, ID: manifest, At: s.o.Now()}
}

// remembered reports whether the journal records a source.
func remembered(src project.Source) bool {
	_, image := src.OCI()
	return src.Index || src.Remote() || image
}

func (s *Sources) check(src project.Source, step rollback.Step) error {
	if !remembered(src) {
		return nil
	}
	return s.o.Journal.Check(step)
}

func (s *Sources) progress(bytes int64) {
	if s.o.Progress != nil {
		s.o.Progress(bytes)
	}
}

// A memo computes each value once. Concurrent callers wait; a computation that its context has cancelled is repeated.
type memo[K comparable, V any] struct {
	mu    sync.Mutex
	cells map[K]*cell[V]
}

type cell[V any] struct {
	turn  chan struct{} // full while one goroutine holds the lock; unlike a mutex, waiting for it can be cancelled
	known bool
	value V
	err   error
}

func (m *memo[K, V]) get(ctx context.Context, key K, find func() (V, error)) (V, error) {
	m.mu.Lock()
	found := m.cells[key]
	if found == nil {
		found = &cell[V]{turn: make(chan struct{}, 1)}
		if m.cells == nil {
			m.cells = map[K]*cell[V]{}
		}
		m.cells[key] = found
	}
	m.mu.Unlock()
	select {
	case found.turn <- struct{}{}:
		defer func() { <-found.turn }()
	case <-ctx.Done():
		var none V
		return none, context.Cause(ctx)
	}
	if !found.known {
		value, err := find()
		if err != nil && ctx.Err() != nil {
			return value, context.Cause(ctx)
		}
		found.value, found.err, found.known = value, err, true
	}
	return found.value, found.err
}

// found returns the values for which f holds, after waiting for computations in progress.
func (m *memo[K, V]) found(f func(K) bool) (found []V) {
	var cells []*cell[V]
	m.mu.Lock()
	for key, c := range m.cells {
		if f(key) {
			cells = append(cells, c)
		}
	}
	m.mu.Unlock()
	for _, c := range cells {
		c.turn <- struct{}{}
		if c.known && c.err == nil {
			found = append(found, c.value)
		}
		<-c.turn
	}
	return found
}
