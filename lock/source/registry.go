package source

import (
	"context"
	"errors"
	"io/fs"
	"time"

	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/bundle/install"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/lock/file"
	"github.com/rye-build/rye/lock/index"
	"github.com/rye-build/rye/lock/project"
	"github.com/rye-build/rye/lock/registry"
	"github.com/rye-build/rye/lock/resolve"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/tlog"
)

// This file has the source that is a registry (package registry).

type registryKey struct{ url, id string }

// client returns the client of a registry that rye.yaml names.
func (s *Sources) client(url string) (*registry.Client, error) {
	for _, r := range s.o.Registries {
		if r.URL == url {
			return &registry.Client{At: r, Fetch: s.o.Fetch, Journal: s.o.Journal, Policies: s.o.Witnesses,
				Keeper: kept{s}, Now: s.o.Now}, nil
		}
	}
	return nil, fault.New(fault.NotFound, "rye.yaml doesn't name the registry %q", url).On("registry", url).
		Try("rye docs registry")
}

// view reads the checkpoint of a registry's log, once.
func (s *Sources) view(ctx context.Context, client *registry.Client) (*registry.View, error) {
	return s.views.get(ctx, client.At.URL, func() (*registry.View, error) {
		view, err := client.View(ctx)
		if err != nil {
			return nil, inSource("", "", client.At.URL, err)
		}
		return view, nil
	})
}

// registryIndex reads the index of a bundle in a registry, once.
func (s *Sources) registryIndex(ctx context.Context, id, url string) (*index.Index, error) {
	return s.listings.get(ctx, registryKey{url, id}, func() (*index.Index, error) {
		client, err := s.client(url)
		if err != nil {
			return nil, err
		}
		if s.o.Fetch == nil {
			list, err := client.KeptIndex(ctx, id)
			if errors.Is(err, fs.ErrNotExist) {
				return nil, &OfflineError{Address: url + "/" + registry.IndexFile(id)}
			}
			if err != nil {
				return nil, inSource(id, "", url, err)
			}
			return list, nil
		}
		var unseen error
		list, err := client.Index(ctx, id, func() error {
			_, unseen = s.view(ctx, client)
			return unseen
		})
		switch {
		case unseen != nil:
			return nil, unseen
		case errors.Is(err, fs.ErrNotExist):
			return nil, notRegistered(id, "", url)
		case err != nil:
			return nil, inSource(id, "", url, err)
		}
		return list, nil
	})
}

// notRegistered is the error for a bundle, or a version of it, that a registry doesn't have. It is fs.ErrNotExist.
func notRegistered(id, version, url string) error {
	what := id
	if version != "" {
		what += "@" + version
	}
	f := fault.New(fault.NotFound, "the registry %q has no %s", url, what).From(fs.ErrNotExist).On("bundle", id).
		On("version", version).On("registry", url)
	return registry.Hint(url, f).Try("rye docs registry")
}

// registered returns the versions of a bundle in a registry. One that is yanked or too new is offered to locks that
// have it, and to nothing else.
func (s *Sources) registered(ctx context.Context, id, url string) ([]resolve.Candidate, error) {
	locked := ""
	if pin := s.locked(id); pin != nil {
		locked = pin.Version
	}
	list, err := s.registryIndex(ctx, id, url)
	if _, unkept := errors.AsType[*OfflineError](err); unkept && s.pinned(id, locked, url) != nil {
		return s.onlyLocked(ctx, s.locked(id))
	}
	if err != nil {
		return nil, err
	}
	client, err := s.client(url)
	if err != nil {
		return nil, err
	}
	var all []resolve.Candidate
	young := false
	for i := range list.Entries {
		e := &list.Entries[i]
		if e.Version != locked {
			if e.Logged.Yanked > 0 {
				continue
			}
			late, err := s.late(client, e)
			if err != nil {
				return nil, err
			}
			if late {
				young = true
				continue
			}
		}
		all = append(all, candidate(e.Version, e.Requires))
	}
	if len(all) == 0 && young {
		return nil, fault.New(fault.NotFound, "the registry %q has no %s from before %s", url, id,
			s.o.Before.Format(time.RFC3339)).On("bundle", id).On("registry", url).
			Because("a version counts from when this user could have seen it: at first contact with a log, from now").
			Try("rye info " + fault.Quote(id))
	}
	if len(all) == 0 {
		return nil, notRegistered(id, "", url)
	}
	return all, nil
}

// locked returns the locked bundle, or nil.
func (s *Sources) locked(id string) *file.Bundle {
	if s.o.Locked == nil {
		return nil
	}
	return s.o.Locked(id)
}

// pinned returns the locked bundle if it is this version from that registry and rye is offline, else nil. Its proof
// was checked when it was locked.
func (s *Sources) pinned(id, version, url string) *file.Bundle {
	b := s.locked(id)
	if s.o.Fetch != nil || b == nil || b.Version != version {
		return nil
	}
	client, err := s.client(url)
	if from, ok := b.Source.Registry(); !ok || from != url || err != nil || b.Log != client.At.Log.Name {
		return nil
	}
	return b
}

// onlyLocked returns the locked version, for a bundle whose index isn't kept.
func (s *Sources) onlyLocked(ctx context.Context, pin *file.Bundle) ([]resolve.Candidate, error) {
	needs, err := s.Requires(ctx, *pin)
	if err != nil {
		return nil, err
	}
	requires := make([]index.Require, len(needs))
	for i, r := range needs {
		if requires[i], err = index.NewRequire(r.BundleID, r.Version); err != nil {
			return nil, err
		}
	}
	return []resolve.Candidate{candidate(pin.Version, requires)}, nil
}

// late reports whether a version is newer than those that are asked for.
func (s *Sources) late(client *registry.Client, e *index.Entry) (bool, error) {
	if s.o.Before.IsZero() {
		return false, nil
	}
	since, err := client.Since(e)
	if err != nil || !since.After(s.o.Before) {
		return false, err
	}
	s.o.Young(e.ID, e.Version, since)
	return true, nil
}

// registryEntry returns the index entry of a version in a registry.
func (s *Sources) registryEntry(ctx context.Context, id, version, url string) (*index.Entry, error) {
	list, err := s.registryIndex(ctx, id, url)
	if err != nil {
		return nil, err
	}
	entry := list.Find(id, version)
	if entry == nil {
		return nil, notRegistered(id, version, url)
	}
	return entry, nil
}

// published returns the manifest of a version, after the registry's log has shown that it has it. Offline, the lock
// or a kept proof must say so.
func (s *Sources) published(ctx context.Context, id, version, url string) (cas.Digest, error) {
	if s.o.Fetch != nil {
		entry, err := s.proven(ctx, id, version, url)
		if err != nil {
			return cas.Digest{}, err
		}
		return entry.Manifest, nil
	}
	pin := s.pinned(id, version, url)
	entry, err := s.registryEntry(ctx, id, version, url)
	if _, unkept := errors.AsType[*OfflineError](err); unkept && pin != nil {
		return pin.Manifest, nil
	}
	if err == nil && pin != nil {
		err = fitsEntry(pin, entry)
	} else if err == nil {
		_, err = s.keptProof(ctx, entry, url)
	}
	if err != nil {
		return cas.Digest{}, err
	}
	return entry.Manifest, nil
}

// fitsEntry compares a locked bundle with the index entry of its version.
func fitsEntry(locked *file.Bundle, entry *index.Entry) error {
	if entry.Manifest != locked.Manifest {
		return Mismatch("manifest", locked.Manifest.String(), entry.Manifest.String())
	}
	if locked.Log != "" && locked.Leaf != entry.Logged.Leaf {
		return fault.New(fault.Integrity, "%s@%s is entry %d of the log in rye.lock, and %d in the registry",
			locked.ID, locked.Version, locked.Leaf, entry.Logged.Leaf).On("reason", "leaf")
	}
	return nil
}

// keptProof returns the proof that the store has of an index entry, after it was checked.
func (s *Sources) keptProof(ctx context.Context, entry *index.Entry, url string) (*tlog.Proof, error) {
	client, err := s.client(url)
	if err != nil {
		return nil, err
	}
	proof, err := bundle.ReadProof(ctx, s.o.Store, s.o.Store, entry.Manifest, client.At.Log.Name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &OfflineError{Address: url, ID: entry.ID, Version: entry.Version, Proof: true}
	}
	if err == nil {
		err = s.logs().CheckEntry(ctx, proof, entry)
	}
	if err != nil {
		return nil, inSource(entry.ID, entry.Version, url, err)
	}
	return proof, nil
}

// Proof returns the proof that a registry's log has a locked bundle: the kept one, if it still counts, or else a new
// one, which is kept.
func (s *Sources) Proof(ctx context.Context, want file.Bundle) (*tlog.Proof, error) {
	url, _ := want.Source.Registry()
	client, err := s.client(url)
	if err != nil {
		return nil, err
	}
	of := tlog.Release{Bundle: want.ID, Version: want.Version, Manifest: want.Manifest}
	proof, err := bundle.ReadProof(ctx, s.o.Store, s.o.Store, want.Manifest, client.At.Log.Name)
	if err == nil && proof.Index == want.Leaf {
		if _, _, err = s.logs().Check(ctx, proof, of); err == nil {
			return proof, nil
		}
	}
	if s.o.Fetch == nil {
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			err = &OfflineError{Address: url, ID: want.ID, Version: want.Version, Proof: true}
		}
		return nil, err
	}
	entry, err := s.proven(ctx, want.ID, want.Version, url)
	if err == nil {
		err = fitsEntry(&want, entry)
	}
	if err != nil {
		return nil, err
	}
	proof = s.shown(want.ID, want.Version, url)
	return proof, install.KeepProof(ctx, s.o.Store, want.Manifest, proof)
}

// shown returns the proof that proven has found, or nil.
func (s *Sources) shown(id, version, url string) *tlog.Proof {
	for _, p := range s.proofs.found(func(k headKey) bool { return k == headKey{id + "@" + version, url} }) {
		return p
	}
	return nil
}

// keepProof keeps the proof of a bundle that came from a registry, unless the kept one counts as well: so that what is
// made of it doesn't change each time.
func (c *carrier) keepProof(ctx context.Context, url string) error {
	proof := c.shown(c.want.ID, c.want.Version, url)
	if proof == nil {
		return nil
	}
	entry, err := c.registryEntry(ctx, c.want.ID, c.want.Version, url)
	if err != nil || entry.Manifest != c.want.Manifest {
		return err
	}
	if _, err := c.keptProof(ctx, entry, url); err == nil {
		return nil
	}
	return install.KeepProof(ctx, c.o.Store, c.want.Manifest, proof)
}

func (s *Sources) logs() *registry.Logs {
	return &registry.Logs{Registries: s.o.Registries, Policies: s.o.Witnesses, Journal: s.o.Journal,
		Now: s.o.Now}
}

// proven returns the index entry of a version, after the registry's log has shown that it has it.
func (s *Sources) proven(ctx context.Context, id, version, url string) (*index.Entry, error) {
	entry, err := s.registryEntry(ctx, id, version, url)
	if err != nil {
		return nil, err
	}
	_, err = s.proofs.get(ctx, headKey{id + "@" + version, url}, func() (*tlog.Proof, error) {
		client, err := s.client(url)
		if err != nil {
			return nil, err
		}
		view, err := s.view(ctx, client)
		if err != nil {
			return nil, err
		}
		proof, err := client.Prove(ctx, view, entry)
		if err != nil {
			return nil, inSource(id, version, url, err)
		}
		return proof, nil
	})
	return entry, err
}

// Logged returns what the log of a registry says of a locked version that Manifest has named: the log's origin and the
// number of the entry.
func (s *Sources) Logged(ctx context.Context, id, version string, src project.Source) (log string, leaf int64,
	err error) {
	url, ok := src.Registry()
	if !ok {
		return "", 0, nil
	}
	if pin := s.pinned(id, version, url); pin != nil {
		return pin.Log, pin.Leaf, nil
	}
	entry, err := s.registryEntry(ctx, id, version, url)
	if err != nil {
		return "", 0, err
	}
	client, err := s.client(url)
	if err != nil {
		return "", 0, err
	}
	return client.At.Log.Name, entry.Logged.Leaf, nil
}

// fitsRegistry compares a manifest with the index of its registry, if that was read.
func (c *carrier) fitsRegistry(list *manifest.FileList, url string) error {
	for _, x := range c.listings.found(func(k registryKey) bool { return k == registryKey{url, list.BundleID} }) {
		e := x.Find(list.BundleID, list.Version)
		if e == nil || e.Manifest != list.ID {
			continue
		}
		if said, is := requireTexts(requiresIn(e)), requireTexts(list.Requires); said != is {
			return Mismatch("requires", said, is)
		}
	}
	return nil
}

// fromRegistry brings the bundle from its archive in a registry, after the log has shown that it has this version.
func (c *carrier) fromRegistry(ctx context.Context, url string) error {
	entry, err := c.proven(ctx, c.want.ID, c.want.Version, url)
	if err != nil {
		return err
	}
	if err := fitsEntry(&c.want, entry); err != nil {
		return err
	}
	client, err := c.client(url)
	if err != nil {
		return err
	}
	body, err := client.Archive(ctx, entry)
	if err != nil {
		return err
	}
	defer body.Close()
	return c.archive(ctx, body, url+"/"+entry.Archive)
}
