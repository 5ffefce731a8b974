package registry

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"slices"
	"strings"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/portable"
	"github.com/rye-build/rye/exec/registry/rows"
	"github.com/rye-build/rye/manifest/policy/glob"
)

// A Scope is what a token may do.
type Scope string

// The scopes of tokens.
const (
	ScopeRead    Scope = "read"    // private namespaces
	ScopePublish Scope = "publish" // publish, yank, unpublish
	ScopeStage   Scope = "stage"   // publish for approval
	ScopeOwner   Scope = "owner"   // claim namespaces and change their owners
)

// Scopes are all scopes, as help texts list them.
var Scopes = []Scope{ScopeRead, ScopePublish, ScopeStage, ScopeOwner}

// MaxTokenLife is how long a token lives at most.
const MaxTokenLife = 366 * 24 * time.Hour

// An Account is a person or a team that publishes.
type Account struct {
	Name     string    `json:"name"`
	Created  time.Time `json:"created"`
	Disabled bool      `json:"disabled,omitempty"`
	Bytes    int64     `json:"bytes,omitempty"` // of its archives

	InvitedBy string `json:"invited_by,omitempty"`
}

// A Token opens what its scopes and names say. Its secret is nowhere: the row has its digest in its name.
type Token struct {
	ID      string    `json:"id"`
	Account string    `json:"account"`
	Label   string    `json:"label"`
	Scopes  []Scope   `json:"scopes"`
	Names   []string  `json:"names,omitempty"` // globs of bundle ids; none for all
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires"`
	Binding string    `json:"binding,omitempty"` // of a run of a pipeline: what has let it in
	Login   bool      `json:"login,omitempty"`   // a person has confirmed it with a passkey
}

// A Caller is who makes a request.
type Caller struct {
	Account string
	Binder  string // of a pipeline: the account that has bound it to what it publishes
	Token   *Token
	globs   []glob.Glob
	host    bool
}

// Name returns the caller's name in the log.
func (c *Caller) Name() string { return c.Account }

// may returns why the caller may not use a scope for a name.
func (c *Caller) may(scope Scope, name string) error {
	if err := c.has(scope); err != nil {
		return err
	}
	if !c.mayName(scope, name) {
		return fault.New(fault.Denied, "the token %q is not for %q", c.Token.Label, name).On("names", c.Token.Names).
			Because("the registry's host makes tokens: ryed registry token add")
	}
	return nil
}

// has returns why the caller may not use a scope for any name.
func (c *Caller) has(scope Scope) error {
	switch {
	case c == nil:
		return fault.New(fault.AuthRequired, "this needs a token with the scope %s", scope).On("scope", string(scope)).
			Try("rye login")
	case !slices.Contains(c.Token.Scopes, scope):
		return fault.New(fault.Denied, "the token %q has no scope %s", c.Token.Label, scope).
			On("scope", string(scope)).
			Because("the registry's host makes tokens: ryed registry token add")
	}
	return nil
}

// mayName reports whether the token is for a bundle's id, or for a whole namespace.
func (c *Caller) mayName(scope Scope, name string) bool {
	if len(c.globs) == 0 {
		return true
	}
	if scope == ScopeOwner {
		return slices.Contains(c.Token.Names, name+"/**")
	}
	return glob.MatchAny(c.globs, glob.Name{Kind: "bundle", ID: name})
}

// maxAccountName is the most bytes of an account's name.
const maxAccountName = 64

// CheckAccount returns nil if an account may have this name.
func CheckAccount(name string) error {
	if len(name) > maxAccountName || strings.Contains(name, "/") || portable.CheckID(name) != nil {
		return fault.New(fault.Validation,
			"%q is not a name for an account: expected at most %d letters, digits, . - and _", fault.Clip(name, 80),
			maxAccountName)
	}
	return nil
}

func noAccount(name string) error {
	return fault.New(fault.NotFound, "there is no account %q", fault.Clip(name, 100)).On("account", name)
}

// AddAccount adds an account, or returns the one that exists.
func (r *Registry) AddAccount(ctx context.Context, name string) (*Account, error) {
	if err := CheckAccount(name); err != nil {
		return nil, err
	}
	var account *Account
	return account, r.o.Rows.Update(ctx, func(in rows.Writer) (err error) {
		if account, err = get[Account](in, "account/"+name); err != nil || account != nil {
			return err
		}
		// Names that look alike would be mistaken for each other in the log.
		if err := each(in, "account/", func(other string, _ *Account) (bool, error) {
			if fold(other) == fold(name) {
				return false, fault.New(fault.Conflict, "the account %q is easily mistaken for %q", name, other)
			}
			return true, nil
		}); err != nil {
			return err
		}
		account = &Account{Name: name, Created: r.now()}
		if err := r.note(in, Event{What: AccountAdded, Account: name}); err != nil {
			return err
		}
		return put(in, "account/"+name, account)
	})
}

// Disable ends an account's tokens, sessions and links, or lets it make new ones again.
func (r *Registry) Disable(ctx context.Context, name string, disabled bool) error {
	return r.o.Rows.Update(ctx, func(in rows.Writer) error {
		account, err := get[Account](in, "account/"+name)
		if err != nil {
			return err
		}
		if account == nil {
			return noAccount(name)
		}
		if account.Disabled != disabled {
			what := AccountEnabled
			if disabled {
				what = AccountDisabled
			}
			if err := r.note(in, Event{What: what, Account: name}); err != nil {
				return err
			}
		}
		account.Disabled = disabled
		if err := put(in, "account/"+name, account); err != nil {
			return err
		}
		if !disabled {
			return nil
		}
		return removeAccess(in, name)
	})
}

func removeTokens(in rows.Writer, which func(*Token) bool) error {
	return removeRows(in, "token/", which)
}

// secretPrefix begins every token, so that scanners of secrets know it.
const secretPrefix = "ryer_"

// newSecret returns 256 random bits with a prefix.
func newSecret(prefix string) string {
	var b [32]byte
	rand.Read(b[:])
	return prefix + base64.RawURLEncoding.EncodeToString(b[:])
}

// rowOf returns the name of a token's row. The digest of 256 random bits tells nothing about them, and finding a row
// by it takes the same time for every wrong secret.
func rowOf(secret string) string {
	return "token/" + strings.TrimPrefix(cas.Sum([]byte(secret)).String(), "blake3:")
}

// tokenLife is how long a token lives if its maker doesn't say.
const tokenLife = 90 * 24 * time.Hour

// AddToken makes a token of an account, and returns its secret, which is shown once.
func (r *Registry) AddToken(ctx context.Context, t Token) (secret string, made *Token, err error) {
	err = r.o.Rows.Update(ctx, func(in rows.Writer) (err error) {
		secret, made, err = r.addToken(in, t)
		return err
	})
	return secret, made, err
}

func (r *Registry) addToken(in rows.Writer, t Token) (secret string, made *Token, err error) {
	now := r.now()
	if t.Expires.IsZero() {
		t.Expires = now.Add(tokenLife)
	}
	if err := t.check(now); err != nil {
		return "", nil, err
	}
	if _, err := active(in, t.Account); err != nil {
		return "", nil, err
	}
	if err := r.fewTokens(in, t.Account); err != nil {
		return "", nil, err
	}
	secret = newSecret(secretPrefix)
	t.ID, t.Created = cas.Sum([]byte(secret)).Short(), now
	if err := r.note(in, Event{What: TokenAdded, Account: t.Account, Token: t.ID, Detail: t.Label}); err != nil {
		return "", nil, err
	}
	return secret, &t, put(in, rowOf(secret), &t)
}

// maxTokens is how many tokens an account has at most, those of its pipelines' runs among them.
const maxTokens = 1000

// fewTokens removes tokens that have expired, and refuses an account that has too many.
func (r *Registry) fewTokens(in rows.Writer, account string) error {
	if err := r.expire(in, "token/"); err != nil {
		return err
	}
	n := 0
	if err := each(in, "token/", func(_ string, t *Token) (bool, error) {
		if t.Account == account {
			n++
		}
		return true, nil
	}); err != nil {
		return err
	}
	if n >= maxTokens {
		return fault.New(fault.Limit, "the account %q has %d tokens: remove some", account, n).
			Try("rye registry token list")
	}
	return nil
}

// MakeToken makes a token of the caller's account by one of its tokens. Only a token that a person has confirmed with
// a passkey (rye login), with the scope owner, makes others, and none that can or lasts more than itself: a stolen
// token of a pipeline makes none, and a stolen login gains nothing that outlives it.
func (r *Registry) MakeToken(ctx context.Context, by *Caller, t Token) (secret string, made *Token, err error) {
	if by == nil {
		return "", nil, by.may(ScopeOwner, "")
	}
	if !by.Token.Login || !slices.Contains(by.Token.Scopes, ScopeOwner) {
		return "", nil, fault.New(fault.Denied, "the token %q makes no others", by.Token.Label).
			Because("a token that rye login got, with the scope owner, does").Try("rye login")
	}
	t.Account, t.Login = by.Account, false
	if t.Expires.IsZero() {
		t.Expires = r.now().Add(tokenLife)
		if t.Expires.After(by.Token.Expires) {
			t.Expires = by.Token.Expires
		}
	}
	if len(t.Names) == 0 {
		t.Names = by.Token.Names
	}
	if err := t.within(by); err != nil {
		return "", nil, err
	}
	return r.AddToken(ctx, t)
}

// nameWithin reports whether a caller's token covers a glob. A claim needs the glob of its namespace and no wider one
// (mayName), so a token with the scope owner gets the caller's globs as they are.
func (t *Token) nameWithin(by *Caller, name string) bool {
	if len(by.Token.Names) == 0 || slices.Contains(by.Token.Names, name) {
		return true
	}
	if slices.Contains(t.Scopes, ScopeOwner) {
		return false
	}
	return !strings.Contains(name, "*") && by.mayName(ScopePublish, name) ||
		slices.ContainsFunc(by.Token.Names, func(own string) bool {
			space, all := strings.CutSuffix(own, "**")
			return all && !strings.Contains(space, "*") && strings.HasPrefix(name, space)
		})
}

// within returns why a token can't be made by a caller: it would do more than the caller's own.
func (t *Token) within(by *Caller) error {
	for _, scope := range t.Scopes {
		if !slices.Contains(by.Token.Scopes, scope) {
			return fault.New(fault.Denied, "your token has no scope %s", fault.Clip(string(scope), 20)).
				On("scope", string(scope))
		}
	}
	for _, name := range t.Names {
		if !t.nameWithin(by, name) {
			return fault.New(fault.Denied, "your token is not for %q", fault.Clip(name, 100)).
				On("names", by.Token.Names)
		}
	}
	if t.Expires.After(by.Token.Expires) {
		return fault.New(fault.Denied, "your token ends before, on %s", by.Token.Expires.Format(time.DateOnly)).
			Try("rye login")
	}
	return nil
}

func (t *Token) check(now time.Time) error {
	if t.Label == "" || len(t.Label) > 100 || strings.ContainsFunc(t.Label, func(c rune) bool { return c < ' ' }) {
		return fault.New(fault.Validation, "a token has a name of at most 100 characters")
	}
	if len(t.Scopes) == 0 || len(t.Scopes) > len(Scopes) {
		return fault.New(fault.Validation, "a token has at least one scope, and each once: %v", Scopes)
	}
	if len(t.Names) > maxTokenNames {
		return fault.New(fault.Validation, "a token is for at most %d names", maxTokenNames)
	}
	for _, scope := range t.Scopes {
		if !slices.Contains(Scopes, scope) {
			return fault.New(fault.Validation, "unknown scope %q: expected one of %v", scope, Scopes)
		}
	}
	for _, name := range t.Names {
		if _, err := glob.Parse(name); err != nil {
			return fault.New(fault.Validation, "%q is not a valid glob: %v", name, err).From(err)
		}
	}
	if !t.Expires.After(now) || t.Expires.After(now.Add(MaxTokenLife)) {
		return fault.New(fault.Validation, "a token lives for at most a year, and ends later than now")
	}
	return nil
}

// Tokens returns the tokens of an account.
func (r *Registry) Tokens(ctx context.Context, account string) (all []*Token, err error) {
	err = r.o.Rows.View(ctx, func(in rows.Reader) error {
		all = nil
		return each(in, "token/", func(_ string, t *Token) (bool, error) {
			if t.Account == account {
				all = append(all, t)
			}
			return true, nil
		})
	})
	slices.SortFunc(all, func(a, b *Token) int { return a.Created.Compare(b.Created) })
	return all, err
}

// TokensFor returns the tokens that a caller may see: the run of a pipeline knows its own alone.
func (r *Registry) TokensFor(ctx context.Context, by *Caller) ([]*Token, error) {
	all, err := r.Tokens(ctx, by.Account)
	if by.Binder != "" {
		all = slices.DeleteFunc(all, func(t *Token) bool { return t.ID != by.Token.ID })
	}
	return all, err
}

// EndToken ends a token of the caller's account: the one that it has, or with the scope owner any other.
func (r *Registry) EndToken(ctx context.Context, by *Caller, id string) error {
	if id != by.Token.ID && !slices.Contains(by.Token.Scopes, ScopeOwner) {
		return fault.New(fault.Denied, "the token %q ends no others", by.Token.Label).
			Because("a token with the scope owner does, and the account's page")
	}
	return r.RemoveToken(ctx, by.Account, id)
}

// RemoveToken ends a token of an account by its id.
func (r *Registry) RemoveToken(ctx context.Context, account, id string) error {
	return r.o.Rows.Update(ctx, func(in rows.Writer) error {
		found := false
		if err := removeTokens(in, func(t *Token) bool {
			match := t.Account == account && t.ID == id
			found = found || match
			return match
		}); err != nil {
			return err
		}
		if !found {
			return fault.New(fault.NotFound, "there is no token %q", id)
		}
		return r.note(in, Event{What: TokenRemoved, Account: account, Token: id})
	})
}

// Caller returns who has a secret.
func (r *Registry) Caller(ctx context.Context, secret string) (*Caller, error) {
	var caller *Caller
	err := r.o.Rows.View(ctx, func(in rows.Reader) error {
		t, err := get[Token](in, rowOf(secret))
		if err != nil {
			return err
		}
		if t == nil || !r.o.Now().Before(t.Expires) {
			return fault.New(fault.AuthFailed, "the token is unknown or has expired").Try("rye login")
		}
		account, err := get[Account](in, "account/"+t.Account)
		if err != nil {
			return err
		}
		if account == nil || account.Disabled {
			return fault.New(fault.AuthFailed, "the token is unknown or has expired").Try("rye login")
		}
		caller = &Caller{Account: t.Account, Token: t}
		if t.Binding != "" {
			caller.Binder = t.Account
		}
		for _, name := range t.Names {
			g, err := glob.Parse(name)
			if err != nil {
				return err
			}
			caller.globs = append(caller.globs, g)
		}
		return nil
	})
	return caller, err
}
