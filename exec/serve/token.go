package serve

import (
	"cmp"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"slices"
	"strings"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/portable"
)

// A Scope is a right of a token.
type Scope string

// The scopes.
const (
	Call    Scope = "call"    // run pinned items
	Approve Scope = "approve" // answer requests for approval
	Admin   Scope = "admin"   // change which set is served
)

// Scopes lists all scopes.
func Scopes() []Scope { return []Scope{Call, Approve, Admin} }

// A Token is the stored part of a token.
type Token struct {
	Name    string    `json:"name"`
	Digest  string    `json:"digest"` // of the token's text
	Scopes  []Scope   `json:"scopes"`
	Person  string    `json:"person,omitzero"` // who holds it; "": the person of its own name
	Tenant  string    `json:"tenant,omitzero"`
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires,omitzero"` // zero: never
}

// Holder returns the person who holds a token. A person who asks can't answer where the policy wants another one.
func (t *Token) Holder() string { return cmp.Or(t.Person, t.Name) }

// Has reports whether a token opens a scope.
func (t *Token) Has(s Scope) bool { return slices.Contains(t.Scopes, s) }

// Expired reports whether a token opens nothing any more.
func (t *Token) Expired(now time.Time) bool { return !t.Expires.IsZero() && !now.Before(t.Expires) }

const (
	prefix  = "rye_"
	size    = 32 // bytes
	maxName = 64
	// MostTokens is how many tokens there may be: each request is compared with all of them.
	MostTokens = 1000
)

// isName reports whether a name can be one of a token or tenant.
func isName(s string) bool {
	return portable.Spelled(s, portable.Letters+portable.Digits, "._-", maxName)
}

// check refuses an invalid token.
func (t *Token) check() error {
	invalid := func(what, value string) error {
		return fault.New(fault.Validation,
			"invalid %s %q: expected a letter or digit, then letters, digits, dots, dashes and underscores, %d at most",
			what, value, maxName)
	}
	switch {
	case !isName(t.Name):
		return invalid("name", t.Name)
	case t.Person != "" && !isName(t.Person):
		return invalid("person", t.Person)
	case t.Tenant != "" && !isName(t.Tenant):
		return invalid("tenant", t.Tenant)
	case len(t.Scopes) == 0:
		return fault.New(fault.Validation, "the token %q has no scope", t.Name)
	}
	for i, s := range t.Scopes {
		if !slices.Contains(Scopes(), s) {
			return fault.New(fault.Validation, "unknown scope %q: expected call, approve or admin", s)
		}
		if slices.Contains(t.Scopes[:i], s) {
			return fault.New(fault.Validation, "the scope %q is given twice", s)
		}
	}
	return nil
}

// generate makes a token.
func generate() string {
	b := make([]byte, size)
	rand.Read(b) // never fails
	return prefix + base64.RawURLEncoding.EncodeToString(b)
}

// digest returns the stored digest of a token. With 256 random bits it needs no salt.
func digest(secret string) string { return cas.Sum([]byte(secret)).String() }

// find returns the token of a secret, in constant time.
func find(all []Token, secret string) *Token {
	if !strings.HasPrefix(secret, prefix) || len(secret) != len(prefix)+base64.RawURLEncoding.EncodedLen(size) {
		return nil
	}
	given := []byte(digest(secret))
	at := -1
	for i := range all {
		same := subtle.ConstantTimeCompare(given, []byte(all[i].Digest))
		at = subtle.ConstantTimeSelect(same, i, at)
	}
	if at < 0 {
		return nil
	}
	return &all[at]
}
