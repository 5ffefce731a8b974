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
	"github.com/rye-build/rye/exec/registry/pipeline"
	"github.com/rye-build/rye/exec/registry/rows"
	client "github.com/rye-build/rye/lock/registry"
	"github.com/rye-build/rye/manifest/tlog"
)

const (
	// pendingTime is how long a binding waits for the first version of its bundle.
	pendingTime = 30 * 24 * time.Hour
	// runTime is how long the token of a run lives.
	runTime = 15 * time.Minute
	// maxBindings is how many bindings a bundle has.
	maxBindings = 20
	// maxPending is how many bindings of an account wait for first versions: they reserve nothing, and cost space.
	maxPending = 100
)

func publisherRow(b *client.Binding) string { return "publisher/" + b.Bundle + "@" + b.ID }

// SetPublisher binds a pipeline to a bundle, or ends a binding. A bundle of a namespace that belongs to no one yet can
// be bound, too: that reserves nothing, and is checked as a claim when the pipeline first publishes.
func (r *Registry) SetPublisher(ctx context.Context, by *Caller, bundle string,
	change client.PublisherChange) (*Changed, error) {
	name := SpaceOf(bundle)
	if err := by.may(ScopeOwner, name); err != nil {
		return nil, err
	}
	if change.Add != nil {
		change.Add.Bundle = bundle
	}
	if portable.CheckID(name) != nil {
		return nil, unclaimed(name)
	}
	var space *Space
	if err := r.o.Rows.View(ctx, func(in rows.Reader) (err error) {
		space, err = get[Space](in, "space/"+name)
		return err
	}); err != nil {
		return nil, err
	}
	// To others a private namespace is one that belongs to no one.
	hidden := func() bool { return space == nil || space.Private && !space.owns(by.Account) }
	if !hidden() {
		return r.Change(ctx, by, name, client.Change{Publisher: &change})
	}
	if err := r.prove(ctx, by.Account, name); err != nil {
		return nil, err
	}
	err := r.change(ctx, name, func(in rows.Writer) (err error) {
		if space, err = get[Space](in, "space/"+name); err != nil || !hidden() {
			return fault.New(fault.Conflict, "the namespace %q was claimed meanwhile", name).From(err)
		}
		if change.Add != nil {
			if err := r.free(in, by.Account, name); err != nil {
				return err
			}
		}
		return r.setPublisher(ctx, in, by.Account, name, change)
	})
	return &Changed{Space: &Space{Name: name, Owners: []string{}}}, err
}

// setPublisher changes the bindings of a bundle, and records it in the log.
func (r *Registry) setPublisher(ctx context.Context, in rows.Writer, by, space string,
	change client.PublisherChange) error {
	binding, err := r.publisherChange(in, by, space, change)
	if err != nil {
		return err
	}
	if change.Add != nil {
		if err = r.fewPending(in, by); err == nil {
			err = put(in, publisherRow(binding), binding)
		}
	} else {
		in.Delete(publisherRow(binding))
		err = removeTokens(in, func(t *Token) bool { return t.Binding == binding.ID })
	}
	if err != nil {
		return err
	}
	l, err := r.logFor(in, space, by)
	if err != nil {
		return err
	}
	return r.appendBinding(ctx, in, l, by, binding, change.Add == nil)
}

// logFor returns the log of a namespace as an account knows it. To those who don't own it, a private one is a name
// that belongs to no one: the public log has what was bound there before.
func (r *Registry) logFor(in rows.Reader, space, account string) (*log, error) {
	owned, err := get[Space](in, "space/"+space)
	if err != nil || owned == nil || !owned.Private || !owned.owns(account) {
		return r.public, err
	}
	return r.private(space)
}

// appendBinding records in a log that a binding was made or has ended.
func (r *Registry) appendBinding(ctx context.Context, in rows.Writer, l *log, by string, b *client.Binding,
	removed bool) error {
	document, err := json.Marshal(struct {
		Removed bool `json:"removed,omitempty"`
		*client.Binding
	}{removed, b})
	if err != nil {
		return err
	}
	return r.appendDocument(ctx, in, l, tlog.TrustedPublisher, b.Bundle, by, document)
}

// waits reports whether a binding waits for the first version of its bundle, or has waited for it in vain.
func waits(b *client.Binding, versions []*Version) bool {
	return b.Pending != nil && !slices.ContainsFunc(versions, func(v *Version) bool {
		return v.Time.Before(*b.Pending)
	})
}

// fewPending removes what has waited too long for a first version, and refuses an account for which too much waits.
func (r *Registry) fewPending(in rows.Writer, account string) error {
	waiting := 0
	var ended []*client.Binding
	if err := each(in, "publisher/", func(_ string, b *client.Binding) (bool, error) {
		if b.By == account && b.Pending != nil {
			if r.o.Now().Before(*b.Pending) {
				waiting++
			} else {
				ended = append(ended, b)
			}
		}
		return true, nil
	}); err != nil {
		return err
	}
	for _, b := range ended {
		versions, err := r.versions(in, b.Bundle, account)
		if err != nil {
			return err
		}
		if waits(b, versions) {
			in.Delete(publisherRow(b))
		}
	}
	if waiting >= maxPending {
		return fault.New(fault.Limit, "%d bindings of the account %q wait for first versions", waiting, account).
			On("waiting", waiting)
	}
	return nil
}

// endBindings ends what an account has bound below a namespace, or with "" everywhere.
func (r *Registry) endBindings(ctx context.Context, in rows.Writer, by, account, space string) error {
	prefix := "publisher/"
	if space != "" {
		prefix += space + "/"
	}
	var all []*client.Binding
	if err := each(in, prefix, func(_ string, b *client.Binding) (bool, error) {
		if b.By == account {
			all = append(all, b)
		}
		return true, nil
	}); err != nil {
		return err
	}
	for _, b := range all {
		end := client.PublisherChange{Remove: b.ID}
		if err := r.setPublisher(ctx, in, by, SpaceOf(b.Bundle), end); err != nil {
			return err
		}
	}
	return nil
}

// publisherChange returns the binding that a change makes or ends.
func (r *Registry) publisherChange(in rows.Reader, by, space string, change client.PublisherChange) (*client.Binding,
	error) {
	if (change.Add == nil) == (change.Remove == "") {
		return nil, fault.New(fault.Validation, "a publisher is added or removed")
	}
	if change.Add == nil {
		return bindingOf(in, by, space, change.Remove)
	}
	b := *change.Add
	if err := checkBinding(&b); err != nil {
		return nil, err
	}
	if SpaceOf(b.Bundle) != space || b.Bundle == space {
		return nil, fault.New(fault.Validation, "%q is no bundle of the namespace %q", b.Bundle, space)
	}
	others, err := bindings(in, b.Bundle)
	if err != nil {
		return nil, err
	}
	versions, err := r.versions(in, b.Bundle, by)
	if err != nil {
		return nil, err
	}
	b.By, b.Created, b.Pending = by, r.now(), nil
	if len(versions) == 0 {
		until := b.Created.Add(pendingTime)
		b.Pending = &until
	}
	b.ID = cas.Sum([]byte(b.String() + " " + by)).Short()
	others = slices.DeleteFunc(others, func(o *client.Binding) bool { return o.ID == b.ID })
	if len(others) >= maxBindings {
		return nil, fault.New(fault.Limit, "%q has %d publishers already", b.Bundle, len(others)).
			Try("rye owner publisher list " + fault.Quote(b.Bundle))
	}
	return &b, nil
}

// versions returns the versions of a bundle that an account knows.
func (r *Registry) versions(in rows.Reader, bundle, account string) ([]*Version, error) {
	l, err := r.logFor(in, SpaceOf(bundle), account)
	if err != nil {
		return nil, err
	}
	return versionsOf(in, l, bundle)
}

// bindingOf returns a binding of a namespace by its id. Where no one owns the namespace, or for others a private one,
// only who made it may end it.
func bindingOf(in rows.Reader, by, space, id string) (found *client.Binding, err error) {
	owned, err := get[Space](in, "space/"+space)
	if err != nil {
		return nil, err
	}
	if err := each(in, "publisher/"+space+"/", func(_ string, b *client.Binding) (bool, error) {
		if b.ID == id && (owned != nil && (!owned.Private || owned.owns(by)) || b.By == by) {
			found = b
		}
		return found == nil, nil
	}); err != nil {
		return nil, err
	}
	if found == nil {
		return nil, fault.New(fault.NotFound, "there is no publisher %q", fault.Clip(id, 40)).On("id", id)
	}
	return found, nil
}

// checkBinding refuses a binding that says too little. Without an environment or a ref, anyone who may push a branch
// would publish.
func checkBinding(b *client.Binding) error {
	for _, field := range []struct{ name, value string }{{"issuer", b.Issuer}, {"repository", b.Repository},
		{"repository id", b.RepositoryID}, {"owner id", b.OwnerID}, {"workflow", b.Workflow}} {
		if !plain(field.value) || field.value == "" {
			return fault.New(fault.Validation, "the binding has no valid %s: %q", field.name,
				fault.Clip(field.value, 100))
		}
	}
	if !plain(b.Environment) || !plain(b.Ref) || portable.CheckID(b.Bundle) != nil {
		return fault.New(fault.Validation, "the binding of %q is not valid", fault.Clip(b.Bundle, 100))
	}
	if (b.Environment == "") == (b.Ref == "") {
		return fault.New(fault.Validation, "a binding names a protected environment or a ref").
			Because("otherwise anyone who may push a branch to the repository would publish")
	}
	star := strings.IndexByte(b.Ref, '*')
	if b.Ref == "refs/heads/*" {
		return fault.New(fault.Validation, "%q is every branch: expected one, or several such as refs/heads/release/*",
			b.Ref)
	}
	if b.Ref != "" && (!strings.HasPrefix(b.Ref, "refs/heads/") && !strings.HasPrefix(b.Ref, "refs/tags/") ||
		star >= 0 && star != len(b.Ref)-1) {
		return fault.New(fault.Validation, "%q is not a ref: expected one such as refs/heads/main or refs/tags/v*",
			b.Ref)
	}
	return nil
}

// plain reports whether a text can be shown and compared: short, printable, without spaces at its ends.
func plain(text string) bool {
	return len(text) <= 300 && strings.TrimSpace(text) == text &&
		!strings.ContainsFunc(text, func(c rune) bool { return c < ' ' || c == 0x7f })
}

func bindings(in rows.Reader, bundle string) (all []*client.Binding, err error) {
	err = each(in, "publisher/"+bundle+"@", func(_ string, b *client.Binding) (bool, error) {
		all = append(all, b)
		return true, nil
	})
	slices.SortFunc(all, func(a, b *client.Binding) int { return a.Created.Compare(b.Created) })
	return all, err
}

// Publishers returns the bindings of a bundle that a caller may see. The log has them, so they are no secret, except
// for those of a private namespace.
func (r *Registry) Publishers(ctx context.Context, by *Caller, bundle string) (all []*client.Binding, err error) {
	if portable.CheckID(bundle) != nil {
		return nil, fault.New(fault.NotFound, "no bundle %q is published here", fault.Clip(bundle, 200))
	}
	err = r.o.Rows.View(ctx, func(in rows.Reader) (err error) {
		space, err := get[Space](in, "space/"+SpaceOf(bundle))
		if err != nil {
			return err
		}
		if all, err = bindings(in, bundle); err == nil && space != nil && space.Private &&
			!by.sees(space.Name, space) {
			all = slices.DeleteFunc(all, func(b *client.Binding) bool { return space.owns(b.By) })
		}
		return err
	})
	if len(all) == 0 {
		all = nil // whatever was left out
	}
	return all, err
}

// admits reports whether a binding lets a run publish.
func admits(b *client.Binding, run *pipeline.Run) bool {
	if b.Issuer != run.Issuer || b.RepositoryID != run.RepositoryID || b.OwnerID != run.OwnerID ||
		b.Workflow != run.Workflow {
		return false
	}
	if b.Environment != "" {
		return b.Environment == run.Environment
	}
	if start, any := strings.CutSuffix(b.Ref, "*"); any {
		return strings.HasPrefix(run.Ref, start)
	}
	return b.Ref == run.Ref
}

// Trust gives the run of a pipeline a token for one bundle, if a binding lets it publish that. The run's own token
// counts once.
func (r *Registry) Trust(ctx context.Context, e client.Exchange) (secret string, made *Token, err error) {
	if r.o.Issuers == nil {
		return "", nil, fault.New(fault.Denied, "this registry believes no issuer of pipelines' tokens").
			Because("its host names issuers in config.json")
	}
	run, err := r.o.Issuers.Identify(ctx, e.Token)
	if err != nil {
		return "", nil, err
	}
	if portable.CheckID(e.Bundle) != nil {
		return "", nil, unbound(e.Bundle, run)
	}
	var claims string // the account for which the namespace is claimed; "" if it is claimed already
	if err := r.o.Rows.View(ctx, func(in rows.Reader) error {
		found, err := r.bound(in, e.Bundle, run)
		if claims = ""; err == nil && found.claims {
			claims = found.By
		}
		return err
	}); err != nil {
		return "", nil, err
	}
	if claims != "" {
		if err := r.prove(ctx, claims, SpaceOf(e.Bundle)); err != nil {
			return "", nil, err
		}
	}
	secret = newSecret(secretPrefix)
	err = r.change(ctx, SpaceOf(e.Bundle), func(in rows.Writer) error {
		now := r.now()
		if err := r.use(in, run); err != nil {
			return err
		}
		found, err := r.bound(in, e.Bundle, run)
		if err != nil {
			return err
		}
		if found.claims && found.By != claims {
			return fault.New(fault.Busy, "the publishers of %q have changed meanwhile: ask again", e.Bundle)
		}
		if err := r.take(ctx, in, found); err != nil {
			return err
		}
		if err := r.fewTokens(in, found.By); err != nil {
			return err
		}
		made = &Token{ID: cas.Sum([]byte(secret)).Short(), Account: found.By, Label: found.Repository,
			Scopes: []Scope{ScopePublish, ScopeStage}, Names: []string{e.Bundle}, Created: now,
			Expires: now.Add(runTime), Binding: found.ID}
		return put(in, rowOf(secret), made)
	})
	return secret, made, err
}

func unbound(bundle string, run *pipeline.Run) error {
	return fault.New(fault.Denied, "no binding lets this run publish %q", fault.Clip(bundle, 200)).
		On("bundle", bundle).
		Because("it is "+run.Workflow+" of "+run.Repository+" (repository "+run.RepositoryID+", owner "+
			run.OwnerID+") at "+run.Issuer, "for "+run.Ref+", in the environment "+orNone(run.Environment)).
		Try("rye owner publisher list " + fault.Quote(bundle))
}

func orNone(text string) string {
	if text == "" {
		return "none"
	}
	return text
}

// use refuses a token that was used before, and remembers it until it ends.
func (r *Registry) use(in rows.Writer, run *pipeline.Run) error {
	row := "used/" + hexOf(cas.Sum([]byte(run.Issuer+"\n"+run.Token)))
	old, err := get[mark](in, row)
	if err != nil {
		return err
	}
	if old != nil {
		return fault.New(fault.AuthFailed, "the pipeline's token was used before, and counts once").
			Try("rye docs registry-release")
	}
	if err := r.expire(in, "used/"); err != nil {
		return err
	}
	return put(in, row, mark{run.Expires.Add(time.Hour)})
}

// A match is the binding that lets a run publish a bundle.
type match struct {
	*client.Binding
	waits  bool // for the first version of its bundle
	claims bool // no one owns the namespace: it is claimed for who has made the binding
}

// bound returns the binding that lets a run publish a bundle. Where no one owns the namespace, bindings of two
// accounts for one pipeline are refused: the account that came first would own what the other's pipeline publishes.
func (r *Registry) bound(in rows.Reader, bundle string, run *pipeline.Run) (found *match, err error) {
	all, err := bindings(in, bundle)
	if err != nil {
		return nil, err
	}
	space, err := get[Space](in, "space/"+SpaceOf(bundle))
	if err != nil {
		return nil, err
	}
	for _, b := range all {
		if !admits(b, run) {
			continue
		}
		versions, err := r.versions(in, bundle, b.By)
		if err != nil {
			return nil, err
		}
		pending := waits(b, versions)
		if pending && !r.o.Now().Before(*b.Pending) {
			continue
		}
		account, err := get[Account](in, "account/"+b.By)
		if err != nil {
			return nil, err
		}
		if account == nil || account.Disabled || space != nil && !space.owns(b.By) {
			continue // it has ended with the ownership of who made it
		}
		if found == nil {
			found = &match{b, pending, space == nil}
		} else if found.claims && found.By != b.By {
			return nil, fault.New(fault.Conflict, "the accounts %q and %q have both bound this pipeline to %q",
				found.By, b.By, bundle).On("bundle", bundle).Try("rye owner claim " + fault.Quote(SpaceOf(bundle)))
		}
	}
	if found == nil {
		return nil, unbound(bundle, run)
	}
	return found, nil
}

// take claims the namespace for who has made a binding, as they would, or ends the binding's waiting.
func (r *Registry) take(ctx context.Context, in rows.Writer, m *match) error {
	switch {
	case m.claims:
		return r.claimFor(ctx, in, m.Binding)
	case m.Pending != nil && !m.waits:
		m.Pending = nil
		return put(in, publisherRow(m.Binding), m.Binding)
	}
	return nil
}

// claimFor claims the namespace of a bundle for who has bound it.
func (r *Registry) claimFor(ctx context.Context, in rows.Writer, b *client.Binding) error {
	name := SpaceOf(b.Bundle)
	if err := r.free(in, b.By, name); err != nil {
		return err
	}
	space := &Space{Name: name, Owners: []string{b.By}, Claimed: r.now()}
	if err := put(in, "space/"+name, space); err != nil {
		return err
	}
	return r.appendOwner(ctx, in, r.public, b.By, space)
}
