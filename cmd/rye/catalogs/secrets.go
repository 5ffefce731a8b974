package catalogs

import (
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/rye-build/rye/bundle/secret"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/exec/catalog"
)

// signIn are the headers whose values are secrets, in lower case.
var signIn = []string{"authorization", "proxy-authorization", "cookie", "x-api-key", "api-key", "x-auth-token",
	"private-token"}

// checkSecrets refuses a secret that would be in the item of a server, and an address that would send it unencrypted.
func (c *addRun) checkSecrets(a *cli.App, s *catalog.Spec) error {
	scanner := secret.NewScanner()
	for _, e := range s.Executables() {
		_, name, _ := strings.Cut(e.Field, ".")
		found, err := scanner.Scan("item.yaml", strings.NewReader(fmt.Sprintf("%s: %q\n", name, e.Value)))
		if err != nil {
			return err
		}
		if header, ok := strings.CutPrefix(e.Field, "headers."); ok && !strings.Contains(e.Value, "${") &&
			slices.Contains(signIn, strings.ToLower(header)) || len(found) > 0 {
			return fault.New(fault.Validation,
				"%s contains a secret, and everyone who has the project can read the item", e.Field).
				Because("store it with rye auth set, and name it with --secret").Try("rye auth set "+c.Name+"-token",
				"rye help mcp add").On("field", e.Field)
		}
	}
	u, err := url.Parse(s.URL)
	if err == nil && u.Scheme == "http" && !a.Globals.PlainHTTP && !isHere(u.Hostname()) {
		return fault.New(fault.Policy, "%q is not encrypted: others could read and change what is sent", s.URL).
			Because("http addresses lead to this machine only, unless --plain-http allows every host").
			Try(a.With("--plain-http")).On("url", s.URL)
	}
	return nil
}

func isHere(host string) bool {
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback() || host == "localhost"
}
