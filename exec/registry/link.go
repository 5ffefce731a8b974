package registry

import (
	"context"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/registry/rows"
)

// A Signup says who can make an account.
type Signup string

// Who can make an account.
const (
	SignupClosed Signup = "closed" // the registry's host alone
	SignupInvite Signup = "invite" // who has an account invites others
	SignupOpen   Signup = "open"   // everyone
)

// A Link opens the page on which a passkey is made for an account, once.
type Link struct {
	Account string    `json:"account"`
	By      string    `json:"by,omitempty"` // the account that invites; "" is the registry's host
	New     bool      `json:"new,omitempty"`
	Expires time.Time `json:"expires"`
	URL     string    `json:"-"` // as a person opens it; it is shown once
}

// The limits of links and of accounts that people make themselves.
const (
	linkTime       = time.Hour
	maxInvitations = 5 // of an account that weren't used yet
	maxSignups     = 5 // of an address in a day
)

// link makes a link in place of an earlier one for the same account. Its secret stands behind a #, where neither
// servers nor proxies write it down.
func (r *Registry) link(in rows.Writer, l Link) (*Link, error) {
	if err := r.expire(in, "link/"); err != nil {
		return nil, err
	}
	if err := removeRows(in, "link/", func(old *Link) bool { return old.Account == l.Account }); err != nil {
		return nil, err
	}
	secret := newSecret(secretPrefix + "l_")
	l.Expires = r.now().Add(linkTime)
	l.URL = r.url + "/enrol#" + secret
	return &l, put(in, "link/"+digestOf(secret), &l)
}

// Invite makes a link with which a passkey is enrolled for an account, beside those that it has.
func (r *Registry) Invite(ctx context.Context, name string) (l *Link, err error) {
	if r.site == nil {
		return nil, r.noSite
	}
	return l, r.o.Rows.Update(ctx, func(in rows.Writer) error {
		if _, err := active(in, name); err != nil {
			return err
		}
		l, err = r.link(in, Link{Account: name})
		return err
	})
}

// Reset removes all passkeys, sessions, links, tokens and bindings of an account, what it has staged and its
// approvals, and makes a link for a new passkey. It is the only way back for who has lost the passkeys of an account.
func (r *Registry) Reset(ctx context.Context, name string) (l *Link, err error) {
	if r.site == nil {
		return nil, r.noSite
	}
	var ended []*Staged
	if err := r.o.Rows.Update(ctx, func(in rows.Writer) error {
		if _, err := active(in, name); err != nil {
			return err
		}
		if err := removeRows(in, "passkey/", func(k *Passkey) bool { return k.Account == name }); err != nil {
			return err
		}
		// A thief of the account may have bound a pipeline of their own, staged something, or approved it.
		if err := r.endBindings(ctx, in, name, name, ""); err != nil {
			return err
		}
		if ended, err = endStaged(in, name); err != nil {
			return err
		}
		if err := removeAccess(in, name); err != nil {
			return err
		}
		if err := r.note(in, Event{What: AccountReset, Account: name}); err != nil {
			return err
		}
		l, err = r.link(in, Link{Account: name})
		return err
	}); err != nil {
		return nil, err
	}
	// What the log's files don't show yet, they show after the next change.
	for _, err := range []error{r.Flush(ctx), r.forget(ctx, ended...)} {
		if err != nil {
			r.o.Warn(err)
		}
	}
	return l, nil
}

// removeAccess removes all that acts for an account, except for its passkeys.
func removeAccess(in rows.Writer, name string) error {
	if err := removeRows(in, "session/", func(s *session) bool { return s.Account == name }); err != nil {
		return err
	}
	if err := removeRows(in, "link/", func(l *Link) bool { return l.Account == name || l.By == name }); err != nil {
		return err
	}
	if err := removeRows(in, "device/", func(d *device) bool { return d.Account == name }); err != nil {
		return err
	}
	return removeTokens(in, func(t *Token) bool { return t.Account == name })
}

// CanInvite reports whether accounts invite others.
func (r *Registry) CanInvite() bool { return r.o.Signup == SignupInvite || r.o.Signup == SignupOpen }

// CanSignUp reports whether a stranger can make an account.
func (r *Registry) CanSignUp() bool { return r.o.Signup == SignupOpen }

// AskInvite asks a person to confirm an invitation.
func (r *Registry) AskInvite(ctx context.Context, p *Person) (*Ask, error) {
	return r.AskConfirm(ctx, p, toInvite)
}

// InviteNew makes a link with which another person makes the account with a name, once that is confirmed. The account
// is made when the link is used.
func (r *Registry) InviteNew(ctx context.Context, p *Person, name, sealed string, answer []byte) (l *Link, err error) {
	if !r.CanInvite() {
		return nil, fault.New(fault.Denied, "this registry's accounts can't invite others")
	}
	return l, r.confirmed(ctx, p, toInvite, sealed, answer, func(in rows.Writer) (err error) {
		if err := r.freeAccount(in, name); err != nil {
			return err
		}
		if err := r.expire(in, "link/"); err != nil {
			return err
		}
		open := 0
		if err := each(in, "link/", func(_ string, other *Link) (bool, error) {
			if other.By == p.Account {
				open++
			}
			if other.Account == name && other.By != p.Account {
				return false, fault.New(fault.Conflict, "someone else has invited %q", name)
			}
			return true, nil
		}); err != nil {
			return err
		}
		if open >= maxInvitations {
			return fault.New(fault.Limit, "%d of your invitations aren't used yet: wait an hour", open)
		}
		l, err = r.link(in, Link{Account: name, By: p.Account, New: true})
		return err
	})
}

// freeAccount returns why there can't be a new account with a name.
func (r *Registry) freeAccount(in rows.Reader, name string) error {
	if err := CheckAccount(name); err != nil {
		return err
	}
	return each(in, "account/", func(other string, _ *Account) (bool, error) {
		if fold(other) == fold(name) {
			return false, fault.New(fault.Conflict, "the name %q is taken, or easily mistaken for one that is", name)
		}
		return true, nil
	})
}

var errLink error = fault.New(fault.AuthFailed, "the link is unknown, has expired, or was used").
	Because("a link counts once, for an hour")

// linkOf returns the link with a secret, if it counts.
func (r *Registry) linkOf(in rows.Reader, secret string) (*Link, error) {
	l, err := get[Link](in, "link/"+digestOf(secret))
	if err != nil {
		return nil, err
	}
	if l == nil || !r.o.Now().Before(l.Expires) {
		return nil, errLink
	}
	needed := l.Account
	if l.New {
		needed = l.By
	}
	return l, activeOr(in, needed, errLink)
}

// OpenLink returns what a link is for, and asks the browser for a passkey.
func (r *Registry) OpenLink(ctx context.Context, secret string) (l *Link, ask *Ask, err error) {
	var have []*Passkey
	if err := r.o.Rows.View(ctx, func(in rows.Reader) (err error) {
		if l, err = r.linkOf(in, secret); err != nil {
			return err
		}
		have, err = passkeysOf(in, l.Account)
		return err
	}); err != nil {
		return nil, nil, err
	}
	ask, err = r.askCreate(ctx, ceremony{Purpose: toEnrol, Account: l.Account, Bound: "link/" + digestOf(secret)},
		keysOf(have))
	return l, ask, err
}

// Enrol adds the passkey that OpenLink asked for, signs its person in, and ends the link.
func (r *Registry) Enrol(ctx context.Context, link, sealed, label string, answer []byte) (secret string, err error) {
	label, err = checkLabel(label)
	if err != nil {
		return "", err
	}
	c, err := r.openCeremony(ctx, sealed, toEnrol)
	if err != nil {
		return "", err
	}
	row := "link/" + digestOf(link)
	err = r.o.Rows.Update(ctx, func(in rows.Writer) error {
		l, err := r.linkOf(in, link)
		if err != nil {
			return err
		}
		if c.Bound != row || c.Account != l.Account {
			return errCeremony
		}
		in.Delete(row)
		if l.New {
			if err := r.newAccount(in, Account{Name: l.Account, InvitedBy: l.By}); err != nil {
				return err
			}
		}
		secret, err = r.firstPasskey(in, c, label, answer)
		return err
	})
	if err != nil {
		return "", err
	}
	return secret, nil
}

func (r *Registry) newAccount(in rows.Writer, a Account) error {
	if err := r.freeAccount(in, a.Name); err != nil {
		return err
	}
	a.Created = r.now()
	e := Event{What: AccountAdded, Account: a.Name}
	if a.InvitedBy != "" {
		e.Detail = "invited by " + a.InvitedBy
	}
	if err := r.note(in, e); err != nil {
		return err
	}
	return put(in, "account/"+a.Name, &a)
}

// firstPasskey adds the first passkey of a page, and signs its person in.
func (r *Registry) firstPasskey(in rows.Writer, c *ceremony, label string, answer []byte) (secret string, err error) {
	if err := r.spend(in, c); err != nil {
		return "", err
	}
	if err := r.addPasskey(in, c, label, answer); err != nil {
		return "", err
	}
	return r.newSession(in, c.Account)
}

var errSignup error = fault.New(fault.NotFound, "this registry's host makes its accounts")

// MaySignUp returns why a stranger can't make an account.
func (r *Registry) MaySignUp() error {
	if !r.CanSignUp() {
		return errSignup
	}
	return r.noSite
}

// AskSignUp asks a stranger's browser for the passkey of a new account.
func (r *Registry) AskSignUp(ctx context.Context, name string) (*Ask, error) {
	if err := r.MaySignUp(); err != nil {
		return nil, err
	}
	if err := r.o.Rows.View(ctx, func(in rows.Reader) error { return r.freeAccount(in, name) }); err != nil {
		return nil, err
	}
	return r.askCreate(ctx, ceremony{Purpose: toSignUp, Account: name}, nil)
}

// SignUp makes the account that AskSignUp was asked for, and signs its person in.
func (r *Registry) SignUp(ctx context.Context, sealed, label string, answer []byte, address string) (secret string,
	err error) {
	if err := r.MaySignUp(); err != nil {
		return "", err
	}
	label, err = checkLabel(label)
	if err != nil {
		return "", err
	}
	c, err := r.openCeremony(ctx, sealed, toSignUp)
	if err != nil {
		return "", err
	}
	err = r.o.Rows.Update(ctx, func(in rows.Writer) (err error) {
		if err := r.within(in, "new accounts", networkOf(address), maxSignups); err != nil {
			return err
		}
		if err := r.count(in, "new accounts", networkOf(address), 1, 24*time.Hour); err != nil {
			return err
		}
		if err := r.newAccount(in, Account{Name: c.Account}); err != nil {
			return err
		}
		secret, err = r.firstPasskey(in, c, label, answer)
		return err
	})
	if err != nil {
		return "", err
	}
	return secret, nil
}
