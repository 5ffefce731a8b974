// Package browse reads what the registries of a project have and its lock doesn't. It is for agents, which search and
// read there and never add: nothing here changes rye.yaml or rye.lock.
//
// How a call goes through here: Search asks each registry that rye.yaml names. Bring selects the newest version of a
// bundle that the names of one registry cover, brings it with what it requires into a store of its own (scratch),
// proven by the log and verified by the policy as for a lock, and returns an Offer, whose files can be read. BringItem
// does so for the bundle that an item's id begins with. The caller's Ask comes before each question.
package browse

import (
	"context"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/cas/portable"
	"github.com/rye-build/rye/lock/project"
	"github.com/rye-build/rye/lock/registry"
	"github.com/rye-build/rye/lock/relock"
	"github.com/rye-build/rye/lock/restore"
	"github.com/rye-build/rye/lock/workspace"
	"github.com/rye-build/rye/manifest"
)

// MaxQuery is the most characters of a query: what an agent tells a registry is bounded.
const MaxQuery = 200

// An Ask learns what is about to be sent to a registry. If it returns an error, nothing is sent.
type Ask func(ctx context.Context, registry, words string) error

// Found is what one registry has for a query, or why it has not answered.
type Found struct {
	Registry string
	Hits     []Hit
	Err      error
}

// A Hit is a bundle that a registry has. That is the registry's word alone.
type Hit struct {
	registry.Hit
	Locked string // the version that rye.lock has; "" if the bundle isn't locked
}

// Search asks the registries of a project for bundles. Each answers with at most limit of them, and with none that
// its names in rye.yaml don't cover: that could not be added from there. Addresses inside a network lead only to the
// hosts that the policy lists.
func Search(ctx context.Context, l *workspace.Lock, query string, limit int, ask Ask) ([]Found, error) {
	if n := len([]rune(query)); n == 0 || n > MaxQuery {
		return nil, fault.New(fault.Validation, "a query to a registry has one to %d characters", MaxQuery).
			On("characters", n)
	}
	if l.Offline {
		return nil, fault.New(fault.Offline, "no registry is asked: rye is offline")
	}
	trust, err := l.Policy()
	if err != nil {
		return nil, err
	}
	client := l.Web(trust)
	all := []Found{}
	for i := range l.Yaml.Registries {
		at := &l.Yaml.Registries[i]
		if err := ask(ctx, at.URL, query); err != nil {
			return nil, err
		}
		found := Found{Registry: at.URL, Hits: []Hit{}}
		hits, err := (&registry.Session{URL: at.URL, Client: client}).Search(ctx, query)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		found.Err = err
		for _, h := range hits {
			if len(found.Hits) == limit || portable.CheckID(h.Bundle) != nil || !at.Has(h.Bundle) ||
				manifest.CheckVersion(h.Version) != nil {
				continue
			}
			hit := Hit{Hit: h}
			if l.Old != nil {
				if line := l.Old.Bundle(h.Bundle); line != nil {
					hit.Locked = line.Version
				}
			}
			found.Hits = append(found.Hits, hit)
		}
		all = append(all, found)
	}
	return all, nil
}

// An Offer is a bundle that isn't locked, complete and verified. Close removes it.
type Offer struct {
	*bundle.Bundle
	Registry string

	files cas.Getter
	close func()
}

// Close removes the bundle.
func (o *Offer) Close() { o.close() }

// scratch returns a workspace of the project with an empty store of its own: what an agent reads is in no store from
// which a person's command could take it.
func scratch(l *workspace.Lock) (*workspace.Workspace, func(), error) {
	dir, err := osfile.TempDir("browse")
	if err != nil {
		return nil, nil, err
	}
	paths := l.Workspace.Paths
	paths.Store = workspace.Place{Path: filepath.Join(dir, "store"), Origin: "temporary"}
	w := workspace.Unread(paths, l.Workspace.Options)
	w.Root = l.Root
	return w, func() {
		w.Close()
		os.RemoveAll(dir)
	}, nil
}

// Bring brings the newest version of a bundle. One that no registry of the project has is an fs.ErrNotExist. The
// caller closes the Offer.
func Bring(ctx context.Context, l *workspace.Lock, id string, ask Ask) (*Offer, error) {
	if err := portable.CheckID(id); err != nil {
		return nil, fault.New(fault.Validation, "%q is not the id of a bundle", fault.Clip(id, MaxQuery)).From(err)
	}
	all := l.Yaml.RegistriesOf(id)
	if len(all) != 1 {
		return nil, fault.New(fault.NotFound, "not one registry of rye.yaml has names that cover %q, but %d", id,
			len(all)).Missing().On("bundle", id).Try("rye docs registry")
	}
	if l.Offline {
		return nil, fault.New(fault.Offline, "no registry is asked for %q: rye is offline", id).On("bundle", id)
	}
	if err := ask(ctx, all[0].URL, id); err != nil {
		return nil, err
	}
	space, done, err := scratch(l)
	if err != nil {
		return nil, err
	}
	lock := space.LockIn(l.Dir, l.DotAI)
	brought, err := bring(ctx, lock, l.Yaml, id, all[0].URL)
	lock.Close()
	if err != nil {
		done()
		return nil, err
	}
	return &Offer{brought, all[0].URL, space.DiskStore(), done}, nil
}

// bring brings the newest version of a bundle, and what it requires, into the store of a lock that isn't opened yet.
func bring(ctx context.Context, lock *workspace.Lock, p *project.Project, id, registry string) (*bundle.Bundle,
	error) {
	var err error
	if lock.Yaml, err = only(p, id, "*", registry); err != nil {
		return nil, err
	}
	if err := lock.Open(); err != nil {
		return nil, err
	}
	version, err := newest(ctx, lock, id)
	if err != nil {
		return nil, err
	}
	if lock.Yaml, err = lock.Yaml.SetVersion(id, "="+version); err != nil {
		return nil, err
	}
	all, err := relock.BringNew(ctx, restore.Request(ctx, lock))
	if err != nil {
		return nil, err
	}
	return all[slices.IndexFunc(all, func(b *bundle.Bundle) bool { return b.BundleID == id })], nil
}

// only returns a project that requires one bundle of a registry and nothing else.
func only(p *project.Project, id, versions, registry string) (*project.Project, error) {
	var err error
	for _, r := range p.Requires {
		if p, err = p.Remove(r.ID); err != nil {
			return nil, err
		}
	}
	need, err := project.NewRequirement(id, versions, project.RegistryAt(registry))
	if err != nil {
		return nil, err
	}
	return p.Add(need)
}

// newest returns the newest version of a bundle that isn't yanked.
func newest(ctx context.Context, l *workspace.Lock, id string) (string, error) {
	all, err := l.Sources.Versions(ctx, id)
	if err != nil {
		return "", err
	}
	versions := make([]string, len(all))
	for i, candidate := range all {
		versions[i] = candidate.Version
	}
	version, _, _ := strings.Cut(manifest.NewestVersion(versions), "+")
	return version, nil
}

// BringItem brings the bundle that has an item: the one with the longest id that the item's is equal to or below. It
// returns nil if no registry has one. The caller closes the Offer.
func BringItem(ctx context.Context, l *workspace.Lock, ref string, ask Ask) (*Offer, *manifest.File, error) {
	_, id, _ := strings.Cut(ref, ":")
	for ; strings.Contains(id, "/"); id = path.Dir(id) {
		if len(l.Yaml.RegistriesOf(id)) != 1 {
			continue
		}
		offer, err := Bring(ctx, l, id, ask)
		if fault.CodeOf(err) == fault.NotFound {
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		if file := offer.Item(ref); file != nil {
			return offer, file, nil
		}
		offer.Close()
	}
	return nil, nil, nil
}

// Item returns the file of an item; nil if the bundle doesn't have it.
func (o *Offer) Item(ref string) *manifest.File {
	i := slices.IndexFunc(o.Files, func(f manifest.File) bool { return f.Ref == ref })
	if i < 0 {
		return nil
	}
	return &o.Files[i]
}

// Read returns the bytes of a file of the bundle.
func (o *Offer) Read(ctx context.Context, file *manifest.File) ([]byte, error) {
	object, err := o.files.Get(ctx, cas.ID{Kind: cas.Blob, Digest: file.Digest})
	if err != nil {
		return nil, err
	}
	defer object.Close()
	return io.ReadAll(object)
}

// maxReadMe is the most bytes of a README that is shown.
const maxReadMe = 64 << 10

// About returns the bundle's README, or else its description.
func (o *Offer) About(ctx context.Context) (string, error) {
	for i := range o.Files {
		file := &o.Files[i]
		if portable.Fold(file.Path) != "readme.md" || file.Size > maxReadMe {
			continue
		}
		text, err := o.Read(ctx, file)
		return strings.ToValidUTF8(string(text), "\uFFFD"), err
	}
	return o.Description, nil
}
