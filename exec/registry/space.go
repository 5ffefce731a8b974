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

	// Approvals is how many other owners must approve what is staged here: 0 where owners publish by themselves.
	Approvals int `json:"approvals,omitempty"`
	// TrustedOnly are the bundles that only their pipelines may publish, sorted.
	TrustedOnly []string `json:"trusted_only,omitempty"`
	// Private namespaces have a log of their own, which only their owners' tokens read.
	Private bool `json:"private,omitempty"`
}

// owns reports whether an account is one of the owners.
func (s *Space) owns(account string) bool { return s != nil && slices.Contains(s.Owners, account) }

// ownedBy reports whether an account is one of the owners, and not disabled.
func (s *Space) ownedBy(in rows.Reader, account string) (bool, error) {
	known, err := get[Account](in, "account/"+account)
	return s.owns(account) && known != nil && !known.Disabled, err
}

// reserved are the namespaces that can't be claimed anywhere, because rye gives them a meaning.
var reserved = []string{"mcp", "plugins", client.PrivateDir, "rye", "skills", "std"}

// SpaceOf returns the namespace of a bundle's id.
func SpaceOf(id string) string {
	space, _, _ := strings.Cut(id, "/")
	return space
}

// Claim makes an account the owner of a namespace. A name that is easily mistaken for one of another owner is refused.
// A namespace that is private from the start leaves nothing in the public log.
func (r *Registry) Claim(ctx context.Context, by *Caller, name string, visibility client.Visibility) (*Space, error) {
	if err := by.may(ScopeOwner, name); err != nil {
		return nil, err
	}
	if err := portable.CheckID(name); err != nil || strings.Contains(name, "/") {
		return nil, fault.New(fault.Validation,
			"%q is not a namespace: expected the first segment of an id, such as acme", name)
	}
	if err := r.checkVisibility(name, visibility); err != nil {
		return nil, err
	}
	var claimed *Space
	may := func(in rows.Reader) error {
		space, err := get[Space](in, "space/"+name)
		switch {
		case err != nil:
			return err
		case space.owns(by.Account):
			claimed = space
			if visibility != "" && space.Private != (visibility == client.Private) {
				return fault.New(fault.Conflict, "the namespace %q is yours already, and not %s", name, visibility).
					Try("rye owner set " + fault.Quote(name) + " --visibility " + string(visibility))
			}
			return nil
		case space != nil && !space.Private:
			return taken(name, name)
		}
		return r.free(in, by.Account, name)
	}
	if err := r.o.Rows.View(ctx, may); err != nil || claimed != nil {
		return claimed, err
	}
	if err := r.prove(ctx, by.Account, name); err != nil {
		return nil, err
	}
	err := r.change(ctx, name, func(in rows.Writer) error {
		if err := may(in); err != nil || claimed != nil {
			return err
		}
		claimed = &Space{Name: name, Owners: []string{by.Account}, Claimed: r.now(),
			Private: visibility == client.Private}
		if err := put(in, "space/"+name, claimed); err != nil {
			return err
		}
		l, err := r.logOf(in, name)
		if err != nil {
			return err
		}
		return r.appendOwner(ctx, in, l, by.Name(), claimed)
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
	taboo := fault.New(fault.Denied, "the namespace %q is reserved", name).On("namespace", name)
	for _, word := range slices.Concat(reserved, r.o.Reserved) {
		if fold(word) == folded {
			return taboo
		}
	}
	return each(in, "space/", func(other string, space *Space) (bool, error) {
		if space.owns(account) {
			return true, nil
		}
		like := fold(other)
		if like == folded || len(name) >= similarFrom && len(other) >= similarFrom &&
			suggest.Distance([]byte(folded), []byte(like), 2) <= 1 {
			if space.Private { // whose name would be given away
				return false, taboo
			}
			return false, taken(name, other)
		}
		return true, nil
	})
}

// appendOwner records the owners and settings of a namespace in a log.
func (r *Registry) appendOwner(ctx context.Context, in rows.Writer, l *log, by string, space *Space) error {
	document, err := json.Marshal(space)
	if err != nil {
		return err
	}
	return r.appendDocument(ctx, in, l, tlog.Owner, space.Name, by, document)
}

// appendDocument writes a document, and the entry of a log that names it.
func (r *Registry) appendDocument(ctx context.Context, in rows.Writer, l *log, kind tlog.Kind, of, by string,
	document []byte) error {
	digest := cas.Sum(document)
	if err := r.o.Blobs.Replace(ctx, l.newDocument(digest), document); err != nil {
		return err
	}
	_, err := r.appendEntry(in, l, &tlog.Entry{Kind: kind, Release: tlog.Release{Bundle: of}, Document: digest,
		By: by})
	return err
}

// Space returns a namespace that a caller may see.
func (r *Registry) Space(ctx context.Context, by *Caller, name string) (space *Space, err error) {
	if portable.CheckID(name) != nil {
		return nil, unclaimed(name)
	}
	err = r.o.Rows.View(ctx, func(in rows.Reader) error {
		space, err = spaceFor(in, by, name)
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

var errOneChange error = fault.New(fault.Validation, "a change is of the owners, of the settings or of a publisher")

// A Changed is a namespace after a change, or with the change that waits for approvals.
type Changed struct {
	*Space
	Staged *Staged `json:"staged,omitempty"`
}

// Change changes a namespace as one of its owners wants it. Where others must approve, it stages the change: whatever
// could lower the number of approvals needs as many.
func (r *Registry) Change(ctx context.Context, by *Caller, name string, change client.Change) (*Changed, error) {
	if err := by.may(ScopeOwner, name); err != nil {
		return nil, err
	}
	if portable.CheckID(name) != nil {
		return nil, unclaimed(name)
	}
	if change.Publisher != nil && (change.Owner != nil || change.Settings != nil) {
		return nil, errOneChange
	}
	if change.Settings != nil {
		if err := r.checkVisibility(name, change.Settings.Visibility); err != nil {
			return nil, err
		}
	}
	var changed *Changed
	err := r.change(ctx, name, func(in rows.Writer) error {
		space, err := r.owned(in, by, name)
		if err != nil {
			return err
		}
		changed = &Changed{Space: space}
		if space.Approvals == 0 {
			return r.apply(ctx, in, by.Account, space, change)
		}
		// What can't be done is not worth anyone's approval.
		if change.Publisher != nil {
			_, err = r.publisherChange(in, by.Account, space.Name, *change.Publisher)
		} else {
			next := space.clone()
			if err = next.set(in, by.Account, change); err == nil {
				err = r.mayShow(in, space, next)
			}
		}
		if err != nil {
			return err
		}
		changed.Staged, err = r.stageChange(in, by, space, change)
		return err
	})
	return changed, err
}

// apply changes a namespace, and records it in the log.
func (r *Registry) apply(ctx context.Context, in rows.Writer, by string, space *Space, change client.Change) error {
	if change.Publisher != nil {
		return r.setPublisher(ctx, in, by, space.Name, *change.Publisher)
	}
	before := space.clone()
	if err := space.set(in, by, change); err != nil {
		return err
	}
	if slices.Equal(before.Owners, space.Owners) && before.Approvals == space.Approvals &&
		slices.Equal(before.TrustedOnly, space.TrustedOnly) && before.Private == space.Private {
		return nil
	}
	if err := r.mayShow(in, before, space); err != nil {
		return err
	}
	// A binding ends with the ownership of who made it: it must not come back with it. It ends first, since the log
	// that has it is that of the owners before.
	for _, account := range before.Owners {
		if !space.owns(account) {
			if err := r.endBindings(ctx, in, by, account, space.Name); err != nil {
				return err
			}
		}
	}
	if err := put(in, "space/"+space.Name, space); err != nil {
		return err
	}
	if before.Private && !space.Private {
		return r.publishAnew(ctx, in, by, space)
	}
	l, err := r.logOf(in, space.Name)
	if err != nil {
		return err
	}
	return r.appendOwner(ctx, in, l, by, space)
}

func (s *Space) clone() *Space {
	c := *s
	c.Owners, c.TrustedOnly = slices.Clone(s.Owners), slices.Clone(s.TrustedOnly)
	return &c
}

// set changes the namespace as one of its owners wants it. There must be enough owners for the approvals that are
// demanded: the one who stages something can't approve it.
func (s *Space) set(in rows.Reader, by string, change client.Change) (err error) {
	switch {
	case change.Owner != nil && change.Settings == nil:
		err = s.setOwner(in, by, *change.Owner)
	case change.Settings != nil && change.Owner == nil:
		err = s.setSettings(*change.Settings)
	default:
		err = errOneChange
	}
	if err != nil {
		return err
	}
	if s.Approvals < 0 {
		return fault.New(fault.Validation, "the number of approvals can't be below 0")
	}
	if s.Approvals > len(s.Owners)-1 {
		return fault.New(fault.Conflict, "%q would need %d approvals and have %s", s.Name, s.Approvals,
			fault.Count(int64(len(s.Owners)), "owner")).On("namespace", s.Name).
			Because("the owner who stages something can't approve it, so there must be one more")
	}
	return nil
}

func (s *Space) setSettings(to client.Settings) error {
	if k := to.Approvals; k != nil {
		s.Approvals = *k
	}
	if to.Visibility != "" {
		s.Private = to.Visibility == client.Private
	}
	for bundle, only := range to.TrustedOnly {
		if portable.CheckID(bundle) != nil || SpaceOf(bundle) != s.Name || bundle == s.Name {
			return fault.New(fault.Validation, "%q is no bundle of the namespace %q", fault.Clip(bundle, 200), s.Name)
		}
		s.TrustedOnly = slices.DeleteFunc(s.TrustedOnly, func(b string) bool { return b == bundle })
		if only {
			s.TrustedOnly = append(s.TrustedOnly, bundle)
		}
	}
	slices.Sort(s.TrustedOnly)
	return nil
}

// setOwner changes the owners. The last one can't be removed.
func (s *Space) setOwner(in rows.Reader, by string, change client.OwnerChange) error {
	if CheckAccount(change.Account) != nil {
		return noAccount(change.Account)
	}
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
	case space == nil, space.Private && !space.owns(by.Account):
		return nil, unclaimed(name)
	case !space.owns(by.Account):
		return nil, fault.New(fault.Denied, "the account %q doesn't own the namespace %q", by.Account, name).
			On("namespace", name).Try("rye owner list " + fault.Quote(name))
	}
	return space, nil
}
