package registry

import (
	"context"
	"crypto/subtle"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/registry/passkey"
	"github.com/rye-build/rye/exec/registry/rows"
)

// A Passkey is how a person signs in on the registry's pages. An account may have several.
type Passkey struct {
	ID      string      `json:"id"`
	Account string      `json:"account"`
	Label   string      `json:"label"`
	Key     passkey.Key `json:"key"`
	Created time.Time   `json:"created"`
	Used    time.Time   `json:"used,omitzero"`
	Copied  bool        `json:"copied,omitempty"` // its counter did not grow once: it counts no more
}

// maxPasskeys is how many passkeys an account has at most.
const maxPasskeys = 20

// digestOf returns the digest of a secret in hexadecimal, as the names of rows have it.
func digestOf(secret string) string {
	return strings.TrimPrefix(cas.Sum([]byte(secret)).String(), "blake3:")
}

func passkeyRow(id []byte) string { return "passkey/" + digestOf(string(id)) }

// userOf returns an account as authenticators keep it. The handle is a digest: it is nothing that a person typed.
func userOf(account string) passkey.User {
	digest := cas.Sum([]byte("rye registry user\x00" + account)).String()
	return passkey.User{Handle: []byte(digest[len("blake3:"):][:32]), Name: account}
}

// siteOf returns the address of a registry's pages.
func siteOf(name, text string) (string, error) {
	local := name == "localhost" || strings.HasSuffix(name, ".localhost")
	if text == "" {
		if local {
			return "http://" + name + ":7338", nil
		}
		return "https://" + name, nil
	}
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme+"://"+u.Host != strings.TrimSuffix(text, "/") {
		return "", fault.New(fault.Config, "url: %q is not the address of a site: expected https://HOST[:PORT]",
			fault.Clip(text, 200))
	}
	if u.Hostname() != name {
		return "", fault.New(fault.Config, "url: the host of %q is not the registry's name, %q", text, name).
			Because("passkeys belong to the registry's name")
	}
	if u.Scheme != "https" && !(u.Scheme == "http" && local) {
		return "", fault.New(fault.Config, "url: %q is not encrypted: browsers use passkeys over https alone", text)
	}
	return strings.TrimSuffix(text, "/"), nil
}

// Site returns the address of the registry's pages, without a slash at its end.
func (r *Registry) Site() string { return r.url }

// active returns an account that isn't disabled.
func active(in rows.Reader, name string) (*Account, error) {
	if CheckAccount(name) != nil {
		return nil, noAccount(name)
	}
	account, err := get[Account](in, "account/"+name)
	if err == nil && (account == nil || account.Disabled) {
		err = noAccount(name)
	}
	return account, err
}

// activeOr returns a refusal for an account that is disabled, or isn't there.
func activeOr(in rows.Reader, name string, refusal error) error {
	_, err := active(in, name)
	if fault.CodeOf(err) == fault.NotFound {
		err = refusal
	}
	return err
}

// A session is a person who has signed in with a browser. Its row's name is the digest of its secret.
type session struct {
	Account string    `json:"account"`
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires"`
	Wrong   int       `json:"wrong,omitempty"` // codes that were none
}

// sessionTime is how long a person stays signed in.
const sessionTime = 12 * time.Hour

// A Person is who has signed in with a browser.
type Person struct {
	Account string
	row     string // of the session
	form    string // the token of its forms
}

// Caller returns the person as one who reads everything of the account.
func (p *Person) Caller() *Caller {
	if p == nil {
		return nil
	}
	return &Caller{Account: p.Account, Token: &Token{Account: p.Account, Scopes: []Scope{ScopeRead}}}
}

// FormToken returns what each form of the person's pages carries, so that a page of another site can't send one.
func (p *Person) FormToken() string { return p.form }

// Sent reports whether a form carries the person's token.
func (p *Person) Sent(token string) bool {
	return subtle.ConstantTimeCompare([]byte(token), []byte(p.form)) == 1
}

// newSession signs an account in, and returns the secret for the browser.
func (r *Registry) newSession(in rows.Writer, account string) (secret string, err error) {
	if err := r.expire(in, "session/"); err != nil {
		return "", err
	}
	secret = newSecret(secretPrefix + "s_")
	now := r.now()
	return secret, put(in, "session/"+digestOf(secret), session{Account: account, Created: now,
		Expires: now.Add(sessionTime)})
}

var errSession error = fault.New(fault.SessionExpired, "you are not signed in, or not any more")

// Person returns who has the secret of a session.
func (r *Registry) Person(ctx context.Context, secret string) (p *Person, err error) {
	row := "session/" + digestOf(secret)
	return p, r.o.Rows.View(ctx, func(in rows.Reader) error {
		p = &Person{row: row, form: digestOf("rye registry form\x00" + secret)}
		s, err := r.session(in, p)
		if err != nil {
			p = nil
			return err
		}
		p.Account = s.Account
		return nil
	})
}

// session returns the session of a person, if it still counts.
func (r *Registry) session(in rows.Reader, p *Person) (*session, error) {
	if p == nil {
		return nil, errSession
	}
	s, err := get[session](in, p.row)
	if err != nil {
		return nil, err
	}
	if s == nil || !r.o.Now().Before(s.Expires) {
		return nil, errSession
	}
	return s, activeOr(in, s.Account, errSession)
}

// AskSignIn asks for any passkey of the site.
func (r *Registry) AskSignIn(ctx context.Context) (*Ask, error) {
	return r.askGet(ctx, ceremony{Purpose: toSignIn}, nil)
}

// SignIn signs in who has answered AskSignIn, and returns the secret of the session.
func (r *Registry) SignIn(ctx context.Context, sealed string, answer []byte) (secret string, err error) {
	c, err := r.openCeremony(ctx, sealed, toSignIn)
	if err != nil {
		return "", err
	}
	var cloned error
	err = r.o.Rows.Update(ctx, func(in rows.Writer) (err error) {
		var account string
		if account, cloned, err = r.asserted(in, c, answer); err != nil || cloned != nil {
			return err
		}
		secret, err = r.newSession(in, account)
		return err
	})
	if err == nil {
		err = cloned
	}
	if err != nil {
		return "", err
	}
	return secret, nil
}

// SignOut ends a session.
func (r *Registry) SignOut(ctx context.Context, p *Person) error {
	return r.o.Rows.Update(ctx, func(in rows.Writer) error {
		in.Delete(p.row)
		return nil
	})
}

// Passkeys returns the passkeys of an account.
func (r *Registry) Passkeys(ctx context.Context, account string) (all []*Passkey, err error) {
	return all, r.o.Rows.View(ctx, func(in rows.Reader) (err error) {
		all, err = passkeysOf(in, account)
		return err
	})
}

func passkeysOf(in rows.Reader, account string) (all []*Passkey, err error) {
	err = each(in, "passkey/", func(_ string, k *Passkey) (bool, error) {
		if k.Account == account {
			all = append(all, k)
		}
		return true, nil
	})
	slices.SortStableFunc(all, func(a, b *Passkey) int { return a.Created.Compare(b.Created) })
	return all, err
}

func keysOf(all []*Passkey) []*passkey.Key {
	keys := make([]*passkey.Key, len(all))
	for i, k := range all {
		keys[i] = &k.Key
	}
	return keys
}

// checkLabel returns the label of a passkey.
func checkLabel(label string) (string, error) {
	if label = strings.TrimSpace(label); label == "" {
		label = "passkey"
	}
	if len(label) > 100 || strings.ContainsFunc(label, func(c rune) bool { return !unicode.IsPrint(c) }) {
		return "", fault.New(fault.Validation, "a passkey has a name of at most 100 printable characters")
	}
	return label, nil
}

// addPasskey adds the passkey that a device has made for an account.
func (r *Registry) addPasskey(in rows.Writer, c *ceremony, label string, answer []byte) error {
	made, err := r.site.Created(userOf(c.Account), c.Challenge, answer)
	if err != nil {
		return err
	}
	row := passkeyRow(made.ID)
	other, err := get[Passkey](in, row)
	if err != nil {
		return err
	}
	if other != nil { // an authenticator that lies: ids are random
		return errPasskey
	}
	all, err := passkeysOf(in, c.Account)
	if err != nil {
		return err
	}
	if len(all) >= maxPasskeys {
		return fault.New(fault.Limit, "an account has at most %d passkeys: remove one", maxPasskeys)
	}
	k := &Passkey{ID: cas.Sum(made.ID).Short(), Account: c.Account, Label: label, Key: *made, Created: r.now()}
	if err := r.note(in, Event{What: PasskeyAdded, Account: c.Account, Detail: k.ID + " " + label}); err != nil {
		return err
	}
	return put(in, row, k)
}

// AskConfirm asks a person to confirm something with a passkey of their account. The answer counts for that alone,
// once, and in the same session.
func (r *Registry) AskConfirm(ctx context.Context, p *Person, what string) (*Ask, error) {
	all, err := r.Passkeys(ctx, p.Account)
	if err != nil {
		return nil, err
	}
	return r.askGet(ctx, ceremony{Purpose: toConfirm + what, Account: p.Account, Bound: p.row}, keysOf(all))
}

// confirmed does what a person has confirmed with a passkey.
func (r *Registry) confirmed(ctx context.Context, p *Person, what, sealed string, answer []byte,
	do func(rows.Writer) error) error {
	c, err := r.openCeremony(ctx, sealed, toConfirm+what)
	if err != nil {
		return err
	}
	if c.Account != p.Account || c.Bound != p.row {
		return errCeremony
	}
	var cloned error
	if err := r.o.Rows.Update(ctx, func(in rows.Writer) (err error) {
		if _, err := r.session(in, p); err != nil {
			return err
		}
		if _, cloned, err = r.asserted(in, c, answer); err != nil || cloned != nil {
			return err
		}
		return do(in)
	}); err != nil {
		return err
	}
	return cloned
}

// What a person confirms on the page of the account.
const (
	toAddPasskey    = "a new passkey"
	toRemovePasskey = "the removal of the passkey "
	toInvite        = "an invitation"
	toAllow         = "the login of the device "
)

// AskNewPasskey asks a person to confirm that the account gets another passkey: who has found an open browser adds
// none.
func (r *Registry) AskNewPasskey(ctx context.Context, p *Person) (*Ask, error) {
	return r.AskConfirm(ctx, p, toAddPasskey)
}

// NewPasskey asks the browser for another passkey of the account, once that is confirmed.
func (r *Registry) NewPasskey(ctx context.Context, p *Person, sealed string, answer []byte) (*Ask, error) {
	var have []*Passkey
	if err := r.confirmed(ctx, p, toAddPasskey, sealed, answer, func(in rows.Writer) (err error) {
		have, err = passkeysOf(in, p.Account)
		return err
	}); err != nil {
		return nil, err
	}
	return r.askCreate(ctx, ceremony{Purpose: toEnrol, Account: p.Account, Bound: p.row}, keysOf(have))
}

// AddPasskey adds the passkey that NewPasskey asked for.
func (r *Registry) AddPasskey(ctx context.Context, p *Person, sealed, label string, answer []byte) error {
	label, err := checkLabel(label)
	if err != nil {
		return err
	}
	c, err := r.openCeremony(ctx, sealed, toEnrol)
	if err != nil {
		return err
	}
	if c.Account != p.Account || c.Bound != p.row {
		return errCeremony
	}
	return r.o.Rows.Update(ctx, func(in rows.Writer) error {
		if _, err := r.session(in, p); err != nil {
			return err
		}
		if err := r.spend(in, c); err != nil {
			return err
		}
		return r.addPasskey(in, c, label, answer)
	})
}

// AskRemovePasskey asks a person to confirm that a passkey goes.
func (r *Registry) AskRemovePasskey(ctx context.Context, p *Person, id string) (*Ask, error) {
	return r.AskConfirm(ctx, p, toRemovePasskey+id)
}

// RemovePasskey removes a passkey of the person's account, once that is confirmed. One that counts stays.
func (r *Registry) RemovePasskey(ctx context.Context, p *Person, id, sealed string, answer []byte) error {
	return r.confirmed(ctx, p, toRemovePasskey+id, sealed, answer, func(in rows.Writer) error {
		all, err := passkeysOf(in, p.Account)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(all, func(k *Passkey) bool { return k.ID == id })
		if i < 0 {
			return fault.New(fault.NotFound, "there is no passkey %q", fault.Clip(id, 50))
		}
		left := slices.Delete(slices.Clone(all), i, i+1)
		if !slices.ContainsFunc(left, func(k *Passkey) bool { return !k.Copied }) {
			return fault.New(fault.Conflict, "this is the account's last passkey: add another one first")
		}
		in.Delete(passkeyRow(all[i].Key.ID))
		return r.note(in, Event{What: PasskeyRemoved, Account: p.Account, Detail: id + " " + all[i].Label})
	})
}
