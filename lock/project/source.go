package project

import (
	"fmt"
	"net/netip"
	"net/url"
	"strings"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/oci"
	"github.com/rye-build/rye/cas/portable"
)

const (
	maxSource = 1000
	maxUp     = 32 // how many directories up a path may begin
)

// A Source is the place that a bundle comes from. It is comparable.
type Source struct {
	Index bool   // a list of versions; else one bundle
	Where string // an address, a repository, or a path relative to the project, without a leading "./"
}

// Remote reports whether the source is an address or a repository.
func (s Source) Remote() bool { return strings.Contains(s.Where, "://") }

// Host returns the host of the source's server as a policy's "inside" has it: with the port, unless that is https's
// own. It is empty for a path.
func (s Source) Host() string {
	where := s.Where
	if registry, ok := s.Registry(); ok {
		where = registry
	} else if g, ok := s.Git(); ok {
		where = g.Address
	} else if r, ok := s.OCI(); ok && r.Dir == "" {
		where = "https://" + r.Host
	}
	u, err := url.Parse(where)
	if err != nil || u.Host == "" {
		return ""
	}
	if u.Port() == "" && u.Scheme == "http" {
		return u.Host + ":80"
	}
	return strings.TrimSuffix(u.Host, ":443")
}

// badSource is the error for a text that is not a source. It hides passwords.
func badSource(where, reason string) error {
	text := where
	if scheme, rest, ok := strings.Cut(text, "://"); ok {
		host, _, _ := strings.Cut(rest, "/")
		if i := strings.LastIndexByte(host, '@'); i >= 0 {
			text = scheme + "://...@" + rest[i+1:]
		}
	}
	if len(text) > 100 {
		text = text[:100] + "..."
	}
	return fault.New(fault.Validation, "%+q is not a valid source: %s", text, reason).On("source", where)
}

// ParseSource reads an address, a repository or a path. An error has the code VALIDATION_FAILED.
func ParseSource(where string, index bool) (Source, error) {
	reason := ""
	source := Source{index, where}
	switch {
	case where == "":
		reason = "empty"
	case len(where) > maxSource:
		reason = fmt.Sprintf("longer than %d bytes", maxSource)
	case strings.HasPrefix(where, registryPrefix) && !index:
		reason = badRegistry(strings.TrimPrefix(where, registryPrefix))
	case strings.HasPrefix(where, gitPrefix) && index:
		reason = "a repository holds a bundle, not an index"
	case strings.HasPrefix(where, gitPrefix):
		_, reason = splitGit(where)
	case oci.IsReference(where) && index:
		reason = "a registry holds bundles, not an index: use from"
	case oci.IsReference(where):
		source.Where, reason = badReference(where)
	case strings.Contains(where, "://"):
		reason = badAddress(where)
	default:
		source.Where = strings.TrimPrefix(where, "./")
		reason = badPath(source.Where)
	}
	if reason != "" {
		return Source{}, badSource(where, reason)
	}
	return source, nil
}

func badAddress(text string) string {
	for i := range len(text) {
		if text[i] <= ' ' || text[i] > '~' {
			return "an address must be printable ASCII; write other characters as %XX"
		}
	}
	scheme, _, _ := strings.Cut(text, "://")
	address, err := url.Parse(text)
	switch {
	case scheme != "https" && scheme != "http":
		return "expected an https address or a path"
	case err != nil || address.Hostname() == "" || address.Opaque != "":
		return "invalid address"
	case address.User != nil:
		return "an address must not contain a user name or password"
	case strings.Contains(text, "#"):
		return "an address must not contain a fragment"
	case address.Host != strings.ToLower(address.Host):
		return "write the host in lower case"
	case strings.Trim(address.Host, "abcdefghijklmnopqrstuvwxyz0123456789.-_:[]") != "":
		return "a host consists of letters, digits, . - and _"
	case address.String() != text:
		return fmt.Sprintf("write it as %q", address.String())
	}
	for segment := range strings.SplitSeq(address.Path, "/") {
		if segment == "." || segment == ".." {
			return "an address must not contain \".\" or \"..\""
		}
	}
	return ""
}

// loopback reports whether a host is localhost or an address of this machine.
func loopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback() || host == "localhost"
}

func badPath(path string) string {
	rest, up := path, 0
	for ; strings.HasPrefix(rest, "../"); up++ {
		rest = rest[len("../"):]
	}
	if up > maxUp {
		return fmt.Sprintf("it goes up more than %d directories", maxUp)
	}
	if rest == ".." {
		return ""
	}
	if strings.HasPrefix(path, "~") {
		return "a path is relative to the directory of " + family + ": ~ is not supported"
	}
	if err := portable.Check(rest); err != nil {
		return err.Error()
	}
	return ""
}
