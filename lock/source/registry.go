package source

import (
	"context"
	"errors"
	"io/fs"
	"time"

	"github.com/rye-build/rye/cas/fault"
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
				Now: s.o.Now}, nil
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
		address := url + "/" + registry.IndexFile(id)
		if s.o.Fetch == nil {
			text, err := s.keptIndex(ctx, address)
			if err != nil {
				return nil, err
			}
			list, err := client.ParseIndex(id, text)
			if err != nil {
				return nil, inSource(id, "", url, err)
			}
			return list, nil
		}
		// The log comes first: what a registry says that contradicts itself must not be remembered.
		if _, err := s.view(ctx, client); err != nil {
			return nil, err
		}
		list, text, err := client.Index(ctx, id)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, notRegistered(id, "", url)
		}
		if err != nil {
			return nil, inSource(id, "", url, err)
		}
		return list, s.keepIndex(ctx, address, text, list)
	})
}

// notRegistered is the error for a bundle, or a version of it, that a registry doesn't have. It is fs.ErrNotExist.
func notRegistered(id, version, url string) error {
	what := id
	if version != "" {
		what += "@" + version
	}
	return fault.New(fault.NotFound, "the registry %q has no %s", url, what).From(fs.ErrNotExist).On("bundle", id).
		On("version", version).On("registry", url).Try("rye docs registry")
}

// registered returns the versions of a bundle in a registry. One that is yanked or too new is offered to locks that
// have it, and to nothing else.
func (s *Sources) registered(ctx context.Context, id, url string) ([]resolve.Candidate, error) {
	list, err := s.registryIndex(ctx, id, url)
	if err != nil {
		return nil, err
	}
	locked := ""
	if s.o.Locked != nil {
		locked = s.o.Locked(id)
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

// proven returns the index entry of a version, after the registry's log has shown that it has it.
func (s *Sources) proven(ctx context.Context, id, version, url string) (*index.Entry, error) {
	entry, err := s.registryEntry(ctx, id, version, url)
	if err != nil {
		return nil, err
	}
	if s.o.Fetch == nil {
		return nil, &OfflineError{Address: url + "/" + registry.LogDir, ID: id, Version: version}
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
	if entry.Manifest != c.want.Manifest {
		return Mismatch("manifest", c.want.Manifest.String(), entry.Manifest.String())
	}
	if c.want.Log != "" && (c.want.Leaf != entry.Logged.Leaf) {
		return fault.New(fault.Integrity, "%s@%s is entry %d of the log in rye.lock, and %d in the registry",
			c.want.ID, c.want.Version, c.want.Leaf, entry.Logged.Leaf).On("reason", "leaf")
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
