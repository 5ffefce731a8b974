package oauth

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/exec/secret"
)

// A Grant is the result of a sign-in.
type Grant struct {
	Format        int    `json:"oauth"` // 1
	Server        string `json:"server"`
	Resource      string `json:"resource,omitempty"` // the server's own name of itself; "" for Server
	Issuer        string `json:"issuer"`
	TokenEndpoint string `json:"token_endpoint"`
	ClientID      string `json:"client_id"`
	ClientSecret  string `json:"client_secret,omitempty"`
	// form: the client secret goes into the form; "": into a header
	SecretIn string    `json:"secret_in,omitempty"`
	Access   string    `json:"access_token"`
	Refresh  string    `json:"refresh_token,omitempty"`
	Expires  time.Time `json:"expires,omitzero"` // zero: unknown
}

// Text returns the grant as the value of a secret.
func (g *Grant) Text() string {
	text, err := json.Marshal(g)
	if err != nil {
		panic(err) // can't happen: strings and a time
	}
	return string(text)
}

// Parse returns the grant in the value of a secret, or nil for another value.
func Parse(value string) *Grant {
	if !strings.HasPrefix(value, `{"oauth":1,`) {
		return nil
	}
	g := new(Grant)
	d := json.NewDecoder(strings.NewReader(value))
	d.DisallowUnknownFields()
	if d.Decode(g) != nil || g.Text() != value {
		return nil
	}
	return g
}

// take takes over the answer of a token endpoint.
func (g *Grant) take(t *tokens, now time.Time) {
	g.Access, g.Expires = t.Access, time.Time{}
	if seconds, err := t.Seconds.Int64(); err == nil && seconds > 0 && seconds < 1<<31 {
		g.Expires = now.Add(time.Duration(seconds) * time.Second).UTC().Truncate(time.Second)
	}
	if t.Refresh != "" {
		g.Refresh = t.Refresh
	}
}

// early is how long before its expiry a token is renewed.
const early = time.Minute

// fresh reports whether the access token is still usable.
func (g *Grant) fresh(now time.Time) bool {
	return g.Expires.IsZero() || now.Add(early).Before(g.Expires)
}

// Secret returns the record of the secret that has the grant. Without a refresh token it expires with the access
// token.
func (g *Grant) Secret(name string) secret.Secret {
	s := secret.Secret{Name: name, From: "oauth"}
	if g.Refresh == "" {
		s.Expires = g.Expires
	}
	return s
}

// Secrets are a user's secrets, with access tokens as the values of grants.
type Secrets struct {
	*secret.Store
	Offline bool // never renew
}

// Get returns the value of a secret, as Store.Get does. For a grant that is the access token, which Get renews if
// necessary.
func (s *Secrets) Get(ctx context.Context, name string) (string, error) {
	value, err := s.Store.Get(ctx, name)
	if err != nil {
		return "", err
	}
	g := Parse(value)
	if g == nil {
		return value, nil
	}
	if g.fresh(s.Now()) {
		return g.Access, nil
	}
	return s.renewed(ctx, name, g)
}

// renewed renews a grant. Other processes wait for that, because a server may accept a refresh token only once.
func (s *Secrets) renewed(ctx context.Context, name string, grant *Grant) (string, error) {
	again := fault.Command("rye auth login", name, grant.Server)
	switch {
	case grant.Refresh == "":
		return "", fault.New(fault.SessionExpired, "the session for secret %q at %s has expired", name,
			hostOf(grant.Server)).On("secret", name).Try(again)
	case s.Offline:
		return "", fault.New(fault.Offline, "the session for secret %q at %s must be renewed, which needs the network",
			name, hostOf(grant.Server)).On("secret", name)
	}
	held, err := osfile.OpenLocked(ctx, filepath.Join(s.Dir, "oauth.lock"), osfile.Exclusive, s.Wait)
	if err != nil {
		return "", err
	}
	defer held.Close()
	value, err := s.Store.Get(ctx, name)
	if err != nil {
		return "", err
	}
	if grant = Parse(value); grant == nil {
		return value, nil
	}
	if grant.fresh(s.Now()) {
		return grant.Access, nil
	}
	c := newClient()
	if u, err := Address(grant.Server); err == nil {
		c.within(ctx, u)
	}
	tokens, err := c.post(ctx, grant.TokenEndpoint, url.Values{
		"grant_type": {"refresh_token"}, "refresh_token": {grant.Refresh}, "client_id": {grant.ClientID},
		"resource": {cmp.Or(grant.Resource, grant.Server)},
	}, grant)
	if refused, ok := errors.AsType[*refusedError](err); ok && refused.code == "invalid_grant" {
		return "", fault.New(fault.SessionExpired, "the session for secret %q at %s has expired: %v", name,
			hostOf(grant.Server), refused).On("secret", name).Try(again)
	}
	if err != nil {
		return "", err
	}
	grant.take(tokens, s.Now())
	if _, err := s.Set(ctx, grant.Secret(name), grant.Text(), !s.inKeyring(name)); err != nil {
		return "", err
	}
	return grant.Access, nil
}

// inKeyring reports whether the keyring stores a secret.
func (s *Secrets) inKeyring(name string) bool {
	all, err := s.List()
	if err != nil {
		return false
	}
	for _, one := range all {
		if one.Name == name {
			return one.Keyring
		}
	}
	return false
}
