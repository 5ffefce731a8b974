package workspace

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/bundle/plugin"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	lockfile "github.com/rye-build/rye/lock/file"
	ryeyaml "github.com/rye-build/rye/lock/project"
	"github.com/rye-build/rye/lock/registry"
	"github.com/rye-build/rye/manifest/policy"
	"github.com/rye-build/rye/manifest/trust"
)

// Advisories returns the advisories of registries that were read for this user.
func (w *Workspace) Advisories() *registry.Kept {
	return &registry.Kept{Dir: filepath.Join(w.State.Path, "advisories"), Journal: w.Journal(), Now: w.Now}
}

// An Advised is what registries say about the bundles of a lock that came from them, as far as policies ask.
type Advised struct {
	ID      cas.Digest                // of the answers that policies give
	bundles map[string]*policy.Advice // by the labels of their spaces
}

// Of implements bundle.Listing.Advice.
func (a *Advised) Of(space, item string) *policy.Advice { return ofBundle(a.bundles, space, item) }

// ofBundle returns the value for the bundle of a space, or for the one that an item was made of as an unsigned plugin.
func ofBundle[T any](bundles map[string]T, space, item string) T {
	value, known := bundles[space]
	if ref, err := model.ParseRef(item); err == nil && !known && plugin.Derived(ref) {
		return bundles[lockfile.System+plugin.Owned(ref.ID)]
	}
	return value
}

// advised returns what registries say about the bundles of a lock. Nothing that keeps it from knowing is an error
// here: the policy then refuses what came from that registry, and nothing else.
func (w *Workspace) advised(t *trust.Trust, bundles []lockfile.Bundle) *Advised {
	advised := &Advised{bundles: map[string]*policy.Advice{}}
	feeds, broken := map[string]*registry.Feed{}, map[string]error{}
	var said []byte
	read := func(url string) *registry.Feed {
		if feeds[url] == nil && broken[url] == nil {
			feeds[url], broken[url] = w.feed(url)
		}
		return feeds[url]
	}
	for i := range bundles {
		line := &bundles[i]
		url, ok := line.Source.Registry()
		if ok && !asks(t, url) {
			url, ok = askedOf(t, line, read)
		}
		if !ok {
			continue
		}
		read(url)
		advice := adviceOf(line, url, feeds[url], broken[url])
		advised.bundles[lockfile.System+line.ID] = advice
		for _, au := range t.Authorities() {
			for _, purpose := range []policy.Purpose{policy.ToUse, policy.ToCall} {
				said = fmt.Appendf(said, "%s %d %q\n", advice.Bundle, purpose, au.Side.Advise(advice, purpose, t.Now))
			}
		}
	}
	advised.ID = cas.Sum(said)
	return advised
}

// asks reports whether a policy asks for the advisories of a registry.
func asks(t *trust.Trust, url string) bool {
	return t != nil && slices.ContainsFunc(t.Authorities(), func(au *trust.Authority) bool {
		return slices.ContainsFunc(au.Side.Policy.Sections().Advisories, func(a policy.AdvisorySource) bool {
			return a.Registry == url
		})
	})
}

// askedOf returns the registry whose advisories a policy asks for and whose log has a bundle. A project may name a
// mirror of a registry, or write its address otherwise: the advisories count all the same.
func askedOf(t *trust.Trust, line *lockfile.Bundle, read func(url string) *registry.Feed) (string, bool) {
	if t == nil || line.Log == "" {
		return "", false
	}
	for _, au := range t.Authorities() {
		for _, source := range au.Side.Policy.Sections().Advisories {
			if feed := read(source.Registry); feed != nil && feed.At.Log.Name == line.Log {
				return source.Registry, true
			}
		}
	}
	return "", false
}

func (w *Workspace) feed(url string) (*registry.Feed, error) {
	if w.State.Err != nil {
		return nil, w.State.Err
	}
	return w.Advisories().Load(url)
}

// adviceOf returns what the kept advisories of a registry say about a bundle of a lock.
func adviceOf(line *lockfile.Bundle, url string, feed *registry.Feed, err error) *policy.Advice {
	advice := &policy.Advice{Registry: url, Bundle: line.ID + "@" + line.Version}
	if errors.Is(err, fs.ErrNotExist) {
		advice.Missing = true
		return advice
	}
	if err == nil && line.Log != "" && feed.At.Log.Name != line.Log {
		err = fmt.Errorf("belong to the log %q, and the bundle to %q", feed.At.Log.Name, line.Log)
	}
	if err != nil {
		advice.Broken = "can't be used: " + fault.Of(err).Text
		return advice
	}
	advice.Issued = feed.Issued
	all, err := feed.Of(line.ID)
	if err != nil {
		advice.Broken = "can't be used: " + fault.Of(err).Text
	}
	for _, a := range registry.Covering(all, line.Version) {
		advice.Notices = append(advice.Notices, a.Notice())
	}
	return advice
}

// Advised returns what registries say about the bundles of the lock, by the policies that the lock was opened with.
func (l *Lock) Advised() *Advised {
	if l.Old == nil {
		return l.advised(l.Trust, nil)
	}
	return l.advised(l.Trust, l.Old.Bundles)
}

// A Cover is an advisory that covers a locked bundle, whether or not a policy refuses the bundle for it.
type Cover struct {
	Bundle   string `json:"bundle"` // as ID@VERSION
	Registry string `json:"registry"`
	Advisory string `json:"advisory"`
	Kind     string `json:"kind"`
	Severity string `json:"severity"`
	Summary  string `json:"summary"`
}

// Covers returns the advisories that cover bundles, by the last good list of each registry. It fetches nothing. What
// can't be read says nothing here: where a policy asks for it, the policy refuses.
func (w *Workspace) Covers(bundles []lockfile.Bundle) (all []Cover) {
	feeds := map[string]*registry.Feed{}
	for i := range bundles {
		line := &bundles[i]
		url, ok := line.Source.Registry()
		if !ok {
			continue
		}
		feed, known := feeds[url]
		if !known {
			feed, _ = w.feed(url)
			feeds[url] = feed
		}
		if feed == nil {
			continue
		}
		advice := adviceOf(line, url, feed, nil)
		for _, n := range advice.Notices {
			all = append(all, Cover{advice.Bundle, url, n.ID, n.Kind, n.Severity.String(), n.Summary})
		}
	}
	return all
}

// Published returns the version of the bundle that an item of a space is from, and the registry that it came from; ""
// if it came from none.
func Published(bundles []lockfile.Bundle) func(space, item string) (version, registry string) {
	type origin struct{ version, registry string }
	all := map[string]origin{}
	for i := range bundles {
		if url, ok := bundles[i].Source.Registry(); ok {
			all[lockfile.System+bundles[i].ID] = origin{bundles[i].ID + "@" + bundles[i].Version, url}
		}
	}
	return func(space, item string) (string, string) {
		from := ofBundle(all, space, item)
		return from.version, from.registry
	}
}

// A FeedUpdate is the outcome of updating the advisories of one registry.
type FeedUpdate struct {
	Registry string
	Feed     *registry.Feed // nil with Err
	Changed  bool
	Err      error
}

// UpdateAdvisories reads the advisories of the registries that policies name, or only of the one named only. fetch
// reads from a registry, which is a stranger if only the project's policy names it; it is nil offline. The keys are
// those of rye.yaml, or those by which the advisories were read before.
func (l *Lock) UpdateAdvisories(ctx context.Context, fetch func(stranger bool) registry.Fetcher, only string,
	policies ...*trust.Authority) (all []FeedUpdate, err error) {
	witnesses, err := l.witnesses(l.DotAI)
	if err != nil {
		return nil, err
	}
	done := map[string]bool{}
	for i, au := range policies {
		if au == nil {
			continue
		}
		for _, source := range au.Side.Policy.Sections().Advisories {
			url := source.Registry
			if done[url] || only != "" && only != url {
				continue
			}
			done[url] = true
			update := FeedUpdate{Registry: url}
			update.Feed, update.Changed, update.Err = l.updateFeed(ctx, url, func() registry.Fetcher {
				if fetch == nil {
					return nil
				}
				return fetch(i > 0)
			}, func(c *registry.Client) { c.Policies = witnesses })
			all = append(all, update)
		}
	}
	return all, ctx.Err()
}

func (l *Lock) updateFeed(ctx context.Context, url string, fetch func() registry.Fetcher,
	demand func(*registry.Client)) (*registry.Feed, bool, error) {
	if l.State.Err != nil {
		return nil, false, l.State.Err
	}
	kept := l.Advisories()
	at, err := l.registryAt(kept, url)
	if err != nil {
		return nil, false, err
	}
	from := fetch()
	if from == nil {
		return nil, false, fault.New(fault.Offline, "the advisories of %q are not read: rye is offline", url).
			On("registry", url)
	}
	client := &registry.Client{At: *at, Fetch: from, Journal: kept.Journal, Now: kept.Now}
	demand(client)
	return kept.Update(ctx, client)
}

// registryAt returns a registry with its keys.
func (l *Lock) registryAt(kept *registry.Kept, url string) (*ryeyaml.Registry, error) {
	for i := range l.Yaml.Registries {
		if l.Yaml.Registries[i].URL == url {
			return &l.Yaml.Registries[i], nil
		}
	}
	at, err := kept.Source(url)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fault.New(fault.NotFound, "the keys of the registry %q are unknown", url).From(err).
			On("registry", url).Because("they are in the rye.yaml of a project that takes bundles from it").
			Try("rye -C PROJECT trust update")
	}
	return at, err
}
