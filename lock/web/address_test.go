package web

import (
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzParse: what is accepted is https, or http to this machine or where it is allowed, without a user, means the same
// when it is read again, and what is shown of any address holds no value of a query and no password.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"https://a.example/b?c=d", "https://[::1]:8443/", "HTTPS://A.example", "https://u:p@h/",
		"https://h/#f", "https:x",
		"https://h:0/", "https://h?", "https://%41/", "//h/a", "https://h/\x00", "https://h/ü?q=1;w=2&x",
		"file:///etc", "http://[::1]:43/", "http://h/"} {
		f.Add(s, false)
		f.Add(s, true)
	}
	f.Fuzz(func(t *testing.T, raw string, plain bool) {
		const secret = "s3cr3tv4lue"
		if show := Shown(raw); len(show) > 310 || utf8.ValidString(raw) && !utf8.ValidString(show) &&
			!strings.Contains(raw, "%") {
			t.Errorf("%q is shown as %q", raw, show)
		}
		u, err := parse(raw, plain)
		if err != nil {
			return
		}
		if u.Scheme != "https" && !(u.Scheme == "http" && (plain || loopback(u.Hostname()))) || u.User != nil ||
			u.Fragment != "" || !IsHost(u.Hostname()) || len(raw) > maxAddress {
			t.Fatalf("%q is accepted as %+v", raw, u)
		}
		again, err := parse(u.String(), plain)
		if err == nil && (again.Host != u.Host || again.EscapedPath() != u.EscapedPath() ||
			again.RawQuery != u.RawQuery) {
			t.Errorf("%q is %q when read again", raw, again)
		}
		if err != nil && len(u.String()) <= maxAddress {
			t.Errorf("%q is accepted, and %q isn't", raw, u)
		}
		if strings.Contains(raw, secret) {
			return
		}
		v := *u
		v.User, v.RawQuery, v.Fragment = url.UserPassword(secret, secret), "a="+secret+"&"+secret, secret
		if show := shown(&v); strings.Contains(show, secret) {
			t.Errorf("%q is shown", show)
		}
	})
}
