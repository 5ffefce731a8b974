package remote

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"github.com/rye-build/rye/cas/oci/guard"
)

// maxToken is how much of the answer of a token service is read: two tokens, each as long as header lines may be.
const maxToken = 128 << 10

// token asks the service that a registry has named for a token.
func (r *Repository) token(ctx context.Context, registry *url.URL, realm, service string, scopes []string,
	c Credential) (string, error) {
	method, body := http.MethodGet, io.Reader(nil)
	if c.Token != "" {
		form := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {c.Token}, "service": {service},
			"client_id": {"rye"}}
		if len(scopes) > 0 {
			form.Set("scope", strings.Join(scopes, " "))
		}
		method, body = http.MethodPost, strings.NewReader(form.Encode())
	}
	req, err := http.NewRequestWithContext(ctx, method, realm, body)
	if err != nil {
		return "", err
	}
	req.Header.Set("User-Agent", "rye")
	if c.Token != "" {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	} else {
		if c.User != "" || c.Password != "" {
			req.SetBasicAuth(c.User, c.Password)
		}
		query := req.URL.Query()
		if service != "" {
			query.Set("service", service)
		}
		for _, scope := range scopes {
			query.Add("scope", scope)
		}
		req.URL.RawQuery = query.Encode()
	}
	client := *r.HTTP
	client.CheckRedirect = func(req *http.Request, via []*http.Request) error {
		if req.Body != nil && guard.Origin(req.URL) != guard.Origin(via[0].URL) {
			return errors.New("a token request with a credential is not sent to another server")
		}
		if err := checkRealm(ctx, req.URL.String(), registry); err != nil {
			return fmt.Errorf("the token service redirects: %w", err)
		}
		return r.HTTP.CheckRedirect(req, via)
	}
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	if resp.StatusCode != http.StatusOK {
		return "", answer(resp)
	}
	defer resp.Body.Close()
	var out struct {
		Token       string `json:"token"`
		AccessToken string `json:"access_token"`
	}
	if err := decode(resp.Body, maxToken, &out); err != nil {
		return "", err
	}
	if c.Token != "" {
		out.Token = "" // which OAuth doesn't know
	}
	if token := cmp.Or(out.AccessToken, out.Token); token != "" {
		return token, nil
	}
	return "", errors.New("the token is empty")
}

// shared is the address space of carriers, in which clouds have services of their own.
var shared = netip.PrefixFrom(netip.AddrFrom4([4]byte{100, 64}), 10)

// internal reports whether an address is of this machine or of a network that only it may reach.
func internal(a netip.Addr) bool {
	a = a.Unmap()
	return a.IsLoopback() || a.IsLinkLocalUnicast() || a.IsLinkLocalMulticast() || a.IsPrivate() ||
		a.IsUnspecified() || shared.Contains(a)
}

// checkRealm refuses a token service that a registry has no business to name. It may have a name that leads elsewhere
// later, so this keeps out only what is open to see; a name that isn't known here may be known to a proxy.
func checkRealm(ctx context.Context, realm string, registry *url.URL) error {
	if realm == "" {
		return nil
	}
	u, err := url.Parse(realm)
	if err != nil {
		return fmt.Errorf("the token service has an invalid address %q: %w", realm, err)
	}
	switch {
	case u.Scheme == "http" && registry.Scheme == "https":
		return fmt.Errorf("the token service %q is without https, and the registry is not", realm)
	case u.Scheme != "http" && u.Scheme != "https":
		return fmt.Errorf("the token service %q has the scheme %q", realm, u.Scheme)
	}
	const kinds = "an address of this machine or of its networks"
	host := u.Hostname()
	if strings.EqualFold(host, registry.Hostname()) {
		return nil
	}
	if a, err := netip.ParseAddr(host); err == nil {
		if internal(a) {
			return fmt.Errorf("the token service %q is at %s", host, kinds)
		}
		return nil
	}
	found, err := net.DefaultResolver.LookupIPAddr(ctx, host)
	if err != nil {
		return nil
	}
	for _, one := range found {
		if a, ok := netip.AddrFromSlice(one.IP); ok && internal(a) {
			return fmt.Errorf("the token service %q is at %s, %s", host, a.Unmap(), kinds)
		}
	}
	return nil
}
