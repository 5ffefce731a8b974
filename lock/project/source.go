package project

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/rye-build/rye/cas/portable"
)

const (
	maxSource = 1000
	maxUp     = 32 // how many directories above the project a path may begin
)

// A Source is where a bundle comes from. It is comparable.
type Source struct {
	Index bool   // a list of versions; else one bundle
	Where string // an address, a repository, or a path relative to the project, without "./" in front
}

// Remote reports whether the source is an address or a repository.
func (s Source) Remote() bool { return strings.Contains(s.Where, "://") }

// A SourceError says why a text is no place that a bundle can come from.
type SourceError struct{ Text, Reason string }

func (e *SourceError) Error() string {
	text := e.Text
	// Somebody's password may stand where none belongs.
	if scheme, rest, ok := strings.Cut(text, "://"); ok {
		host, _, _ := strings.Cut(rest, "/")
		if i := strings.LastIndexByte(host, '@'); i >= 0 {
			text = scheme + "://...@" + rest[i+1:]
		}
	}
	if len(text) > 100 {
		text = text[:100] + "..."
	}
	return fmt.Sprintf("%+q is no place for a bundle: %s", text, e.Reason)
}

// ParseSource reads an address, a repository or a path. An error is a *SourceError.
func ParseSource(where string, index bool) (Source, error) {
	reason := ""
	s := Source{index, where}
	switch {
	case where == "":
		reason = "it is empty"
	case len(where) > maxSource:
		reason = fmt.Sprintf("it is longer than %d bytes", maxSource)
	case strings.HasPrefix(where, gitPrefix) && index:
		reason = "a repository is one bundle, and no index"
	case strings.HasPrefix(where, gitPrefix):
		_, reason = splitGit(where)
	case strings.Contains(where, "://"):
		reason = badAddress(where)
	default:
		s.Where = strings.TrimPrefix(where, "./")
		reason = badPath(s.Where)
	}
	if reason != "" {
		return Source{}, &SourceError{where, reason}
	}
	return s, nil
}

func badAddress(text string) string {
	for i := range len(text) {
		if text[i] <= ' ' || text[i] > '~' {
			return "an address is written in printable ASCII, the rest as %XX"
		}
	}
	scheme, _, _ := strings.Cut(text, "://")
	u, err := url.Parse(text)
	switch {
	case scheme != "https":
		return "expected an https address or a path"
	case err != nil || u.Hostname() == "" || u.Opaque != "":
		return "it is no address"
	case u.User != nil:
		return "a name or password doesn't belong into an address"
	case strings.Contains(text, "#"):
		return "an address has no fragment"
	case u.Host != strings.ToLower(u.Host):
		return "the host is written in lower case"
	case strings.Trim(u.Host, "abcdefghijklmnopqrstuvwxyz0123456789.-_:[]") != "":
		return "a host is made of letters, digits, . - and _"
	case u.String() != text:
		return fmt.Sprintf("it is written %q", u.String())
	}
	for segment := range strings.SplitSeq(u.Path, "/") {
		if segment == "." || segment == ".." {
			return "no \".\" and no \"..\" stand in an address"
		}
	}
	return ""
}

func badPath(path string) string {
	rest, up := path, 0
	for ; strings.HasPrefix(rest, "../"); up++ {
		rest = rest[len("../"):]
	}
	if up > maxUp {
		return fmt.Sprintf("it leads more than %d directories up", maxUp)
	}
	if rest == ".." {
		return ""
	}
	if strings.HasPrefix(path, "~") {
		return "a path begins at the directory of " + family + ", not in somebody's home"
	}
	if err := portable.Check(rest); err != nil {
		return err.Error()
	}
	return ""
}
