package oauth

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"github.com/rye-build/rye/cas/fault"
)

// A Login is a sign-in to a server.
type Login struct {
	Server   string
	ClientID string // of a registered client; "" to register one
	// ClientSecret is the secret of ClientID's client, if it has one.
	ClientSecret string
	Scopes       []string // nil: those that the server names
	Now          func() time.Time
	Wait         time.Duration // limit on waiting for the user; 0: ten minutes
	// Show receives the address for the user's browser.
	Show func(address string)
}

// Run signs in, and returns after the user has.
func (l *Login) Run(ctx context.Context) (*Grant, error) {
	server, err := Address(l.Server)
	if err != nil {
		return nil, err
	}
	client := newClient()
	client.within(ctx, server)
	found, err := client.discover(ctx, l.Server, server)
	if err != nil {
		return nil, err
	}
	if l.Scopes != nil {
		found.scopes = l.Scopes
	}
	back, err := listen()
	if err != nil {
		return nil, err
	}
	defer back.close()
	grant := &Grant{Format: 1, Server: l.Server, Issuer: found.issuer.Issuer,
		TokenEndpoint: found.issuer.TokenEndpoint,
		ClientID:      l.ClientID, ClientSecret: l.ClientSecret}
	if found.resource != grant.Server {
		grant.Resource = found.resource
	}
	if methods := found.issuer.TokenEndpointAuthMethodsSupported; len(methods) > 0 &&
		!slices.Contains(methods, "client_secret_basic") {
		grant.SecretIn = "form"
	}
	if grant.ClientID == "" {
		if err := client.register(ctx, grant, found, back.address); err != nil {
			return nil, err
		}
	}
	verifier := random()
	sum := sha256.Sum256([]byte(verifier))
	to, err := url.Parse(found.issuer.AuthorizationEndpoint)
	if err != nil {
		return nil, denied("%s names no address to sign in at", grant.Issuer)
	}
	values := to.Query()
	for name, value := range map[string]string{
		"response_type": "code", "client_id": grant.ClientID, "redirect_uri": back.address, "state": back.state,
		"resource":       found.resource,
		"code_challenge": base64.RawURLEncoding.EncodeToString(sum[:]), "code_challenge_method": "S256",
		"scope": strings.Join(found.scopes, " "),
	} {
		if value != "" {
			values.Set(name, value)
		}
	}
	to.RawQuery = values.Encode()
	l.Show(to.String())
	code, err := back.wait(ctx, l.wait(), found.issuer)
	if err != nil {
		return nil, err
	}
	t, err := client.post(ctx, grant.TokenEndpoint, url.Values{
		"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {back.address},
		"client_id": {grant.ClientID}, "code_verifier": {verifier},
		"resource": {found.resource},
	}, grant)
	if err != nil {
		return nil, err
	}
	grant.take(t, l.Now())
	return grant, nil
}

func (l *Login) wait() time.Duration {
	if l.Wait > 0 {
		return l.Wait
	}
	return 10 * time.Minute
}

func random() string {
	var b [32]byte
	rand.Read(b[:])
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// A found is the authorization server of a server.
type found struct {
	issuer   *oauthex.AuthServerMeta
	resource string // the server's own name of itself
	scopes   []string
}

// discover asks a server for its authorization server, and that one for its metadata.
func (c *client) discover(ctx context.Context, name string, server *url.URL) (*found, error) {
	challenge, err := c.challenge(ctx, name)
	if err != nil {
		return nil, err
	}
	var meta *oauthex.ProtectedResourceMetadata
	var last error
	for _, at := range resources(challenge.Params["resource_metadata"], name, server) {
		if meta, last = oauthex.GetProtectedResourceMetadata(ctx, at[0], at[1], c.guided); last == nil {
			break
		}
	}
	if last != nil {
		return nil, denied("%s doesn't say where to sign in: %s", server.Host, clip(last.Error())).On("server", name)
	}
	if len(meta.AuthorizationServers) == 0 {
		return nil, denied("%s names no server to sign in at", server.Host).On("server", name)
	}
	found := &found{resource: meta.Resource, scopes: strings.Fields(challenge.Params["scope"])}
	if len(found.scopes) == 0 {
		found.scopes = meta.ScopesSupported
	}
	issuer := meta.AuthorizationServers[0]
	for _, at := range issuers(issuer) {
		if found.issuer, err = oauthex.GetAuthServerMeta(ctx, at, issuer, c.guided); err != nil {
			return nil, denied("%s can't sign anyone in: %s", hostOf(issuer), clip(err.Error())).On("issuer", issuer)
		}
		if found.issuer != nil {
			break
		}
	}
	switch m := found.issuer; {
	case m == nil:
		return nil, denied("%s doesn't say how to sign in", hostOf(issuer)).On("issuer", issuer)
	case !slices.Contains(m.CodeChallengeMethodsSupported, "S256"):
		return nil, denied("%s has no PKCE with S256, without which a code could be stolen",
			hostOf(issuer)).On("issuer", issuer)
	case m.AuthorizationEndpoint == "" || m.TokenEndpoint == "":
		return nil, denied("%s names no address to sign in at", hostOf(issuer)).On("issuer", issuer)
	}
	return found, nil
}

// first are typical first requests of a client. A server may answer 401 to any of them, even if it doesn't support
// GET.
var first = []string{
	"",
	`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"rye","version":"1"}}}`,
	`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}`,
}

// challenge sends requests without a token, and returns the server's challenge.
func (c *client) challenge(ctx context.Context, server string) (bearer oauthex.Challenge, err error) {
	for _, body := range first {
		method := http.MethodGet
		if body != "" {
			method = http.MethodPost
		}
		r, err := http.NewRequestWithContext(ctx, method, server, strings.NewReader(body))
		if err != nil {
			return bearer, err
		}
		r.Header.Set("Accept", "application/json, text/event-stream")
		if body != "" {
			r.Header.Set("Content-Type", "application/json")
		}
		answer, err := c.plain.Do(r)
		if err != nil {
			return bearer, unreachable(server, err)
		}
		answer.Body.Close()
		if answer.StatusCode != http.StatusUnauthorized {
			continue
		}
		all, err := oauthex.ParseWWWAuthenticate(answer.Header.Values("WWW-Authenticate"))
		if err != nil {
			return bearer, denied("%s asks for a sign-in in a way that can't be read: %s", hostOf(server),
				clip(err.Error()))
		}
		for _, one := range all {
			if one.Scheme == "bearer" {
				return one, nil
			}
		}
	}
	return bearer, nil
}

// resources returns the addresses at which a server may name its authorization server, each with the resource that it
// must be about.
func resources(named, server string, u *url.URL) (all [][2]string) {
	if named != "" {
		return [][2]string{{named, server}}
	}
	root := url.URL{Scheme: u.Scheme, Host: u.Host}
	const known = "/.well-known/oauth-protected-resource"
	if path := strings.TrimPrefix(u.Path, "/"); path != "" {
		all = append(all, [2]string{root.String() + known + "/" + path, server})
	}
	return append(all, [2]string{root.String() + known, root.String()})
}

// issuers returns the possible addresses of an authorization server's metadata.
func issuers(issuer string) []string {
	u, err := url.Parse(issuer)
	if err != nil {
		return nil
	}
	root, path := (&url.URL{Scheme: u.Scheme, Host: u.Host}).String(), strings.Trim(u.Path, "/")
	const own, openID = "/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"
	if path == "" {
		return []string{root + own, root + openID}
	}
	return []string{root + own + "/" + path, root + openID + "/" + path, root + "/" + path + openID}
}

// register registers rye as a client of an authorization server.
func (c *client) register(ctx context.Context, grant *Grant, f *found, back string) error {
	at := f.issuer.RegistrationEndpoint
	if at == "" {
		return denied("%s doesn't register programs by itself", hostOf(grant.Issuer)).On("issuer", grant.Issuer).
			Because(
				"register rye there, with the redirect address http://127.0.0.1/callback, and give the id with --client-id")
	}
	known, err := oauthex.RegisterClient(ctx, at, &oauthex.ClientRegistrationMetadata{
		ClientName: "rye", RedirectURIs: []string{back}, GrantTypes: []string{"authorization_code", "refresh_token"},
		ResponseTypes:           []string{"code"},
		TokenEndpointAuthMethod: "none", ApplicationType: "native", Scope: strings.Join(f.scopes, " "),
	}, c.plain)
	if err != nil {
		return denied("%s doesn't register rye: %s", hostOf(at), clip(err.Error())).On("issuer", grant.Issuer)
	}
	if known.ClientID == "" {
		return denied("%s registers rye without an id", hostOf(at)).On("issuer", grant.Issuer)
	}
	grant.ClientID, grant.ClientSecret = known.ClientID, known.ClientSecret
	return nil
}

// A listener receives the browser's callback.
type listener struct {
	address, state string
	server         *http.Server
	came           chan url.Values
}

func listen() (*listener, error) {
	at, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	l := &listener{address: "http://" + at.Addr().String() + "/callback", state: random(),
		came: make(chan url.Values, 1)}
	l.server = &http.Server{Handler: http.HandlerFunc(l.serve), ReadTimeout: patience, WriteTimeout: patience,
		MaxHeaderBytes: maxHeader}
	go l.server.Serve(at)
	return l, nil
}

func (l *listener) close() { l.server.Close() }

// serve accepts a request with the state of this sign-in. It refuses all others.
func (l *listener) serve(response http.ResponseWriter, r *http.Request) {
	response.Header().Set("Content-Type", "text/plain; charset=utf-8")
	response.Header().Set("Cache-Control", "no-store")
	response.Header().Set("Referrer-Policy", "no-referrer")
	q := r.URL.Query()
	if r.Method != http.MethodGet || r.URL.Path != "/callback" ||
		subtle.ConstantTimeCompare([]byte(q.Get("state")), []byte(l.state)) != 1 {
		response.WriteHeader(http.StatusBadRequest)
		response.Write([]byte("This is not the sign-in that rye waits for.\n"))
		return
	}
	select {
	case l.came <- q:
	default: // a code has arrived already
	}
	response.Write([]byte("rye has the answer. You can close this window.\n"))
}

// wait returns the code in the callback.
func (l *listener) wait(ctx context.Context, most time.Duration, issuer *oauthex.AuthServerMeta) (string, error) {
	timer := time.NewTimer(most)
	defer timer.Stop()
	var values url.Values
	select {
	case <-ctx.Done():
		return "", context.Cause(ctx)
	case <-timer.C:
		return "", fault.New(fault.Timeout, "the sign-in at %s was not finished within %s", hostOf(issuer.Issuer),
			most)
	case values = <-l.came:
	}
	// The browser may still be receiving the page.
	stop, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if err := l.server.Shutdown(stop); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return "", err
	}
	switch from := values.Get("iss"); {
	case from == "" && issuer.AuthorizationResponseIssParameterSupported, from != "" && from != issuer.Issuer:
		return "", denied("the answer is from %q, and not from %q, where the sign-in began", clip(from),
			issuer.Issuer).On("issuer", issuer.Issuer)
	case values.Get("error") != "":
		return "", denied("%s refuses: %s", hostOf(issuer.Issuer),
			clip(strings.TrimSpace(values.Get("error")+" "+values.Get("error_description"))))
	case values.Get("code") == "":
		return "", denied("%s answers without a code", hostOf(issuer.Issuer))
	}
	return values.Get("code"), nil
}
