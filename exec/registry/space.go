package registry

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/portable"
	"github.com/rye-build/rye/cas/suggest"
	"github.com/rye-build/rye/exec/registry/rows"
	client "github.com/rye-build/rye/lock/registry"
	"github.com/rye-build/rye/manifest/tlog"
)

// A Space is a namespace: the first segment of bundle ids.
type Space struct {
	Name    string    `json:"name"`
	Owners  []string  `json:"owners"` // accounts, sorted
	Claimed time.Time `json:"claimed"`
}

// owns reports whether an account is one of the owners.
func (s *Space) owns(account string) bool { return s != nil && slices.Contains(s.Owners, account) }

// reserved are the namespaces that can't be claimed anywhere, because rye gives them a meaning.
var reserved = []string{"mcp", "plugins", "rye", "skills", "std"}

// SpaceOf returns the namespace of a bundle's id.
func SpaceOf(id string) string {
	space, _, _ := strings.Cut(id, "/")
	return space
}

// Claim makes an account the owner of a namespace. A name that is easily mistaken for one of another owner is refused.
func (r *Registry) Claim(ctx context.Context, by *Caller, name string) (*Space, error) {
	if err := by.may(ScopeOwner, name); err != nil {
		return nil, err
	}
	if err := portable.CheckID(name); err != nil || strings.Contains(name, "/") {
		return nil, fault.New(fault.Validation,
			"%q is not a namespace: expected the first segment of an id, such as acme", name)
	}
	var claimed *Space
	err := r.change(ctx, func(in rows.Writer) error {
		space, err := get[Space](in, "space/"+name)
		switch {
		case err != nil:
			return err
		case space.owns(by.Account):
			claimed = space
			return nil
		case space != nil:
			return taken(name, name)
		}
		if err := r.free(in, by.Account, name); err != nil {
			return err
		}
		claimed = &Space{Name: name, Owners: []string{by.Account}, Claimed: r.now()}
		if err := put(in, "space/"+name, claimed); err != nil {
			return err
		}
		return r.appendOwner(ctx, in, by, claimed)
	})
	return claimed, err
}

func taken(name, other string) error {
	e := fault.New(fault.Conflict, "the namespace %q can't be claimed", name).On("namespace", name)
	if name == other {
		return e.Because("it belongs to another account").Try("rye owner list " + fault.Quote(name))
	}
	return e.Because("it is easily mistaken for "+other+", which belongs to another account").On("like", other)
}

// fold returns what is left of a name when case and the characters between words don't count.
func fold(name string) string {
	return strings.Map(func(c rune) rune {
		if c == '-' || c == '_' || c == '.' {
			return -1
		}
		return c
	}, strings.ToLower(name))
}

// similarFrom is the length from which names that differ by one character are mistaken for each other.
const similarFrom = 5

// free returns why an account can't claim a name that no row has.
func (r *Registry) free(in rows.Reader, account, name string) error {
	folded := fold(name)
	for _, word := range slices.Concat(reserved, r.o.Reserved) {
		if fold(word) == folded {
			return fault.New(fault.Denied, "the namespace %q is reserved", name).On("namespace", name)
		}
	}
	return each(in, "space/", func(other string, space *Space) (bool, error) {
		if space.owns(account) {
			return true, nil
		}
		like := fold(other)
		if like == folded || len(name) >= similarFrom && len(other) >= similarFrom &&
			suggest.Distance([]byte(folded), []byte(like), 2) <= 1 {
			return false, taken(name, other)
		}
		return true, nil
	})
}

// appendOwner records the owners of a namespace in the log.
func (r *Registry) appendOwner(ctx context.Context, in rows.Writer, by *Caller, space *Space) error {
	document, err := json.Marshal(space)
	if err != nil {
		return err
	}
	digest := cas.Sum(document)
	if err := r.o.Blobs.Replace(ctx, client.DocumentFile(digest), document); err != nil {
		return err
	}
	_, err = r.appendEntry(in, &tlog.Entry{Kind: tlog.Owner, Release: tlog.Release{Bundle: space.Name},
		Document: digest, By: by.Name()})
	return err
}

// Space returns a namespace.
func (r *Registry) Space(ctx context.Context, name string) (space *Space, err error) {
	if portable.CheckID(name) != nil {
		return nil, unclaimed(name)
	}
	err = r.o.Rows.View(ctx, func(in rows.Reader) error {
		space, err = get[Space](in, "space/"+name)
		if err == nil && space == nil {
			err = unclaimed(name)
		}
		return err
	})
	return space, err
}

func unclaimed(name string) error {
	return fault.New(fault.NotFound, "no account owns the namespace %q", fault.Clip(name, 200)).On("namespace", name).
		Try("rye owner claim " + fault.Quote(name))
}

// SetOwner changes the owners of a namespace. The last one can't be removed.
func (r *Registry) SetOwner(ctx context.Context, by *Caller, name string, change client.OwnerChange) (*Space, error) {
	if err := by.may(ScopeOwner, name); err != nil {
		return nil, err
	}
	if portable.CheckID(name) != nil {
		return nil, unclaimed(name)
	}
	if CheckAccount(change.Account) != nil {
		return nil, noAccount(change.Account)
	}
	var changed *Space
	err := r.change(ctx, func(in rows.Writer) error {
		space, err := r.owned(in, by, name)
		if err != nil {
			return err
		}
		before := slices.Clone(space.Owners)
		if err := space.set(in, by.Account, change); err != nil {
			return err
		}
		changed = space
		if slices.Equal(before, space.Owners) {
			return nil
		}
		if err := put(in, "space/"+name, space); err != nil {
			return err
		}
		return r.appendOwner(ctx, in, by, space)
	})
	return changed, err
}

// set changes the owners as one of them wants it.
func (s *Space) set(in rows.Reader, by string, change client.OwnerChange) error {
	add := func() error {
		known, err := get[Account](in, "account/"+change.Account)
		if err == nil && (known == nil || known.Disabled) {
			err = noAccount(change.Account)
		}
		if err == nil && !s.owns(change.Account) {
			s.Owners = append(s.Owners, change.Account)
			slices.Sort(s.Owners)
		}
		return err
	}
	remove := func(account string) error {
		if s.owns(account) && len(s.Owners) == 1 {
			return fault.New(fault.Conflict, "%q is the only owner of %q: a namespace keeps one", account, s.Name).
				Try("rye owner add " + fault.Quote(s.Name) + " ACCOUNT")
		}
		s.Owners = slices.DeleteFunc(s.Owners, func(owner string) bool { return owner == account })
		return nil
	}
	switch change.Action {
	case client.AddOwner:
		return add()
	case client.RemoveOwner:
		return remove(change.Account)
	case client.TransferOwner:
		if change.Account == by {
			return fault.New(fault.Validation, "%q is the account that transfers it", by)
		}
		if err := add(); err != nil {
			return err
		}
		return remove(by)
	}
	return fault.New(fault.Validation, "unknown action %q: expected add, remove or transfer",
		fault.Clip(string(change.Action), 100))
}

// owned returns a namespace that belongs to the caller.
func (r *Registry) owned(in rows.Reader, by *Caller, name string) (*Space, error) {
	space, err := get[Space](in, "space/"+name)
	switch {
	case err != nil:
		return nil, err
	case space == nil:
		return nil, unclaimed(name)
	case !space.owns(by.Account):
		return nil, fault.New(fault.Denied, "the account %q doesn't own the namespace %q", by.Account, name).
			On("namespace", name).Try("rye owner list " + fault.Quote(name))
	}
	return space, nil
}

// change updates rows, and then the files that show them.
func (r *Registry) change(ctx context.Context, change func(rows.Writer) error) error {
	if err := r.o.Rows.Update(ctx, change); err != nil {
		return err
	}
	return r.Flush(ctx)
}
