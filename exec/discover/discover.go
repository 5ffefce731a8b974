package discover

import (
	"context"
	"net"
	"net/url"
	"slices"
	"strings"

	"github.com/rye-build/rye/bundle/skill/offer"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/suggest"
	"github.com/rye-build/rye/exec/primitive/httpclient"
	"github.com/rye-build/rye/exec/primitive/mcp"
	"github.com/rye-build/rye/exec/sandbox"
	"github.com/rye-build/rye/lock/web"
)

// serverScheme begins the address of an MCP server, before https or http.
const serverScheme = "mcp+"

// IsServer reports whether an argument is the address of an MCP server.
func IsServer(text string) bool { return strings.HasPrefix(text, serverScheme) }

// Open connects to the MCP server at an address that the user has typed, "mcp+https://…", or "mcp+http://…" on this
// machine. It may lead into the user's own network, as the address of a download may; redirects lead nowhere else.
func Open(ctx context.Context, address, version string) (*mcp.SkillServer, error) {
	raw := strings.TrimPrefix(address, serverScheme)
	u, err := web.Parse(raw)
	if err != nil {
		return nil, fault.New(fault.Validation, "%q: %v", web.Shown(address), err).From(err).
			Because("expected mcp+https://HOST/PATH, or mcp+http:// on this machine")
	}
	if u.RawQuery != "" {
		return nil, fault.New(fault.Validation, "%q has a query, which may be a secret: the items name the address",
			web.Shown(raw))
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	client := &mcp.Client{HTTP: &httpclient.Client{}, Version: version}
	return client.OpenSkills(ctx, raw, sandbox.Network{Hosts: []string{hostPort(u, port)}})
}

func hostPort(u *url.URL, port string) string {
	if ip := net.ParseIP(u.Hostname()); ip != nil && ip.To4() == nil {
		return u.Hostname() + ":" + port // package sandbox writes no brackets
	}
	return strings.ToLower(u.Hostname()) + ":" + port
}

// Choose returns the offer of a name or an address. Names of several skills are ambiguous, and no skill is preferred.
func Choose(all []*offer.Offer, name string) (*offer.Offer, error) {
	var found, names []string
	var one *offer.Offer
	for _, o := range all {
		if o.Name == name || o.URI == name {
			one, found = o, append(found, o.URI)
		}
		names = append(names, o.Name)
	}
	switch {
	case len(found) > 1:
		return nil, fault.New(fault.Ambiguous, "%d skills have the name %q: give an address", len(found), name).
			Because(found...).On("did_you_mean", found)
	case one == nil:
		return nil, notOffered(name, names)
	}
	return one, nil
}

func notOffered(name string, names []string) error {
	slices.Sort(names)
	f := fault.New(fault.NotFound, "the server does not offer %q", name)
	if similar := suggest.Names(name, slices.Compact(names)); len(similar) > 0 {
		f.Because("did you mean " + strings.Join(similar, ", ") + "?")
	}
	return f
}
