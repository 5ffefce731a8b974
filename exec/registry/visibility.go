package registry

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/portable"
	"github.com/rye-build/rye/exec/registry/rows"
	client "github.com/rye-build/rye/lock/registry"
	"github.com/rye-build/rye/manifest/tlog"
)

// Host is who runs the registry, and sees everything.
var Host = &Caller{Token: &Token{Scopes: []Scope{ScopeRead}}, host: true}

// sees reports whether a caller may read what is private in a namespace: its account is one of the owners, and its
// token has the scope read and is for the whole namespace, since the log names everything in it.
func (c *Caller) sees(name string, space *Space) bool {
	if c == nil || !slices.Contains(c.Token.Scopes, ScopeRead) {
		return false
	}
	return c.host || space.owns(c.Account) && (len(c.Token.Names) == 0 || slices.Contains(c.Token.Names, name+"/**") ||
		slices.Contains(c.Token.Names, "**"))
}

// absent is read in place of a namespace that doesn't exist, so that it takes no less time than one that does.
var absent = []byte(`{"name":"absent","owners":["absent"],"claimed":"2026-01-01T00:00:00Z","private":true}`)

// spaceFor returns a namespace that a caller may see, or nil: a private one is to strangers as one that doesn't exist.
func spaceFor(in rows.Reader, by *Caller, name string) (*Space, error) {
	space, err := get[Space](in, "space/"+name)
	if err != nil {
		return nil, err
	}
	decoy := space == nil
	if decoy {
		space = new(Space)
		if err := json.Unmarshal(absent, space); err != nil {
			return nil, err
		}
	}
	if space.Private && !by.sees(name, space) || decoy {
		return nil, nil
	}
	return space, nil
}

// Sees reports whether a caller may read the files of a private namespace, or of one that was private. It does the
// same for a name that no one has.
func (r *Registry) Sees(ctx context.Context, by *Caller, name string) (sees bool, err error) {
	if portable.CheckID(name) != nil || by == nil || !slices.Contains(by.Token.Scopes, ScopeRead) {
		return false, nil
	}
	return sees, r.o.Rows.View(ctx, func(in rows.Reader) error {
		space, err := spaceFor(in, by, name)
		sees = space != nil && by.sees(name, space)
		return err
	})
}

// checkVisibility refuses a visibility that there is not, or that a namespace can't have.
func (r *Registry) checkVisibility(name string, visibility client.Visibility) error {
	switch visibility {
	case "", client.Public:
		return nil
	case client.Private:
		if title := r.o.Name + client.PrivatePath(name); len(title) > portable.MaxID {
			return fault.New(fault.Validation, "%q is too long a name for a private namespace", fault.Clip(name, 250))
		}
		return nil
	}
	return fault.New(fault.Validation, "unknown visibility %q: expected public or private",
		fault.Clip(string(visibility), 20))
}

// mayShow refuses to make a namespace private that has published versions: its log is public for good.
func (r *Registry) mayShow(in rows.Reader, before, after *Space) error {
	if before.Private || !after.Private {
		return nil
	}
	if err := r.checkVisibility(after.Name, client.Private); err != nil {
		return err
	}
	return each(in, r.public.versionRow(after.Name+"/"), func(string, *Version) (bool, error) {
		return false, fault.New(fault.Conflict, "%q has published versions, and can't become private", after.Name).
			On("namespace", after.Name).
			Because("the public log has them for good, and mirrors and clients have copies",
				"claim another namespace for what is private").
			Try("rye owner claim NAME --visibility private")
	})
}

// publishAnew publishes each version of a namespace that was made public in the public log, by the account that made
// it so, with its owners, its pipelines, and each advisory that counts. What was yanked stays so, and numbers that
// were given stay given. Archives and documents are copied to where everyone reads them when the files of the log are
// written (bring), so that nothing is public before this transaction. The private log stays for those who read it: it
// gets no new versions.
func (r *Registry) publishAnew(ctx context.Context, in rows.Writer, by string, space *Space) error {
	before, err := r.private(space.Name)
	if err != nil {
		return err
	}
	anew := *r.public
	anew.first = before.dir
	for _, l := range []*log{before, &anew} { // the last entry of the one says that the namespace is public
		if err := r.appendOwner(ctx, in, l, by, space); err != nil {
			return err
		}
	}
	var pipelines []*client.Binding
	if err := each(in, "publisher/"+before.within, func(_ string, b *client.Binding) (bool, error) {
		if space.owns(b.By) {
			pipelines = append(pipelines, b)
		}
		return true, nil
	}); err != nil {
		return err
	}
	for _, b := range pipelines {
		if err := r.appendBinding(ctx, in, &anew, by, b, false); err != nil {
			return err
		}
	}
	var all []*Version
	if err := each(in, before.versionRows(), func(_ string, v *Version) (bool, error) {
		all = append(all, v)
		return true, nil
	}); err != nil {
		return err
	}
	slices.SortStableFunc(all, func(a, b *Version) int { return int(a.Leaf - b.Leaf) })
	for _, v := range all {
		if err := r.versionAnew(in, by, v); err != nil {
			return err
		}
	}
	return r.adviseAnew(ctx, in, before, &anew)
}

// versionAnew publishes a version of a private log in the public one.
func (r *Registry) versionAnew(in rows.Writer, by string, v *Version) error {
	v.Private = false
	if v.Unpublished > 0 {
		return put(in, r.public.versionRow(v.Key()), v)
	}
	yanked := v.Yanked > 0
	entry := &tlog.Entry{Kind: tlog.Publish, By: by, Release: tlog.Release{Bundle: v.Bundle, Version: v.Version,
		Manifest: v.Manifest, Archive: v.Archive, Size: v.Size}}
	leaf, err := r.appendEntry(in, r.public, entry)
	if err != nil {
		return err
	}
	v.By, v.Leaf, v.Time, v.Yanked = by, leaf, entry.Time, 0
	if err := putVersion(in, r.public, v); err != nil || !yanked {
		return err
	}
	return r.withdraw(in, r.public, v, by, false)
}

// adviseAnew publishes the advisories of a private log in the public one. One whose id has another advisory there gets
// a new id.
func (r *Registry) adviseAnew(ctx context.Context, in rows.Writer, before, anew *log) error {
	type known struct {
		id  string
		row *advisoryRow
	}
	var all []known
	if err := each(in, before.advisoryRows(), func(id string, row *advisoryRow) (bool, error) {
		all = append(all, known{id, row})
		return true, nil
	}); err != nil {
		return err
	}
	slices.SortStableFunc(all, func(a, b known) int { return int(a.row.Leaf - b.row.Leaf) })
	for _, k := range all {
		a, err := k.row.parse(before, k.id)
		if err != nil {
			return err
		}
		other, err := advisoryOf(in, anew, a.ID)
		if err != nil {
			return err
		}
		if !a.Withdrawn.IsZero() {
			continue
		}
		if other != nil {
			a.ID = ""
		}
		if _, err := r.advise(ctx, in, anew, a); err != nil {
			return err
		}
	}
	return nil
}
