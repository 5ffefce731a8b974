// The check of rye mcp add that no secret gets into an item or is sent unencrypted.

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

// signIn lists the headers whose values are secrets, in lower case.
var signIn = []string{"authorization", "proxy-authorization", "cookie", "x-api-key", "api-key", "x-auth-token",
	"private-token"}

// checkSecrets refuses a field that contains a secret, because everyone with the project can read the item. It also
// refuses a plain http address of another machine.
func (c *addRun) checkSecrets(app *cli.App, spec *catalog.Spec) error {
	scanner := secret.NewScanner()
	for _, field := range spec.Executables() {
		_, name, _ := strings.Cut(field.Field, ".")
		found, err := scanner.Scan("item.yaml", strings.NewReader(fmt.Sprintf("%s: %q\n", name, field.Value)))
		if err != nil {
			return err
		}
		if header, ok := strings.CutPrefix(field.Field, "headers."); ok && !strings.Contains(field.Value, "${") &&
			slices.Contains(signIn, strings.ToLower(header)) || len(found) > 0 {
			return fault.New(fault.Validation,
				"%s contains a secret, and everyone who has the project can read the item", field.Field).
				Because("store it with rye auth set, and name it with --secret").Try("rye auth set "+c.Name+"-token",
				"rye help mcp add").On("field", field.Field)
		}
	}
	u, err := url.Parse(spec.URL)
	if err == nil && u.Scheme == "http" && !app.Globals.PlainHTTP && !isHere(u.Hostname()) {
		return fault.New(fault.Policy, "%q is not encrypted: others could read and change what is sent", spec.URL).
			Because("http addresses lead to this machine only, unless --plain-http allows every host").
			Try(app.With("--plain-http")).On("url", spec.URL)
	}
	return nil
}

func isHere(host string) bool {
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback() || host == "localhost"
}
