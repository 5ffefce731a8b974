package oci

import (
	"net"
	"net/url"
	"strings"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/oci/format"
	"github.com/rye-build/rye/cas/portable"
)

// The beginnings of references.
const (
	Scheme       = "oci://"
	LayoutScheme = "oci-layout:"
)

// A Reference names a bundle in a registry, oci://HOST[:PORT]/NAME[:TAG][@sha256:HEX], or in an image layout,
// oci-layout:DIR[:TAG][@sha256:HEX]. With a digest, the tag says only what people call it.
type Reference struct {
	Host, Name string // of a registry
	Dir        string // of a layout
	Tag        string
	Digest     string // "sha256:" and 64 digits, or empty
}

// IsReference reports whether a text begins like a reference.
func IsReference(s string) bool {
	return strings.HasPrefix(s, Scheme) || strings.HasPrefix(s, LayoutScheme)
}

// ValidTag reports whether a registry takes a text as tag.
func ValidTag(tag string) bool {
	return tag != "" && len(tag) <= 128 && tag[0] != '.' && tag[0] != '-' &&
		!strings.ContainsFunc(tag, func(c rune) bool {
			return !strings.ContainsRune(portable.Letters+portable.Digits+"_.-", c)
		})
}

// ParseReference reads a reference. String writes the same text again.
func ParseReference(text string) (Reference, error) {
	var reference Reference
	rest, layout := strings.CutPrefix(text, LayoutScheme)
	if !layout {
		var ok bool
		if rest, ok = strings.CutPrefix(text, Scheme); !ok {
			f := invalid(text, "expected oci://HOST/NAME[:TAG] or oci-layout:DIR[:TAG]")
			host, _, _ := strings.Cut(text, "/")
			if _, err := ParseReference(Scheme + text); err == nil && strings.ContainsAny(host, ".:") {
				f.Because("did you mean " + Scheme + text + "?") // as docker and its like write it
			}
			return reference, f
		}
	}
	if len(text) > 4096 {
		return reference, invalid(text, "too long")
	}
	if before, digest, ok := cutDigest(rest); ok {
		if !format.ValidDigest(digest) {
			return reference, invalid(text, `a digest is "sha256:" and 64 lower-case hexadecimal digits`)
		}
		rest, reference.Digest = before, digest
	}
	if i := strings.LastIndexByte(rest, ':'); i >= 0 && !strings.ContainsAny(rest[i:], `/\`) &&
		(layout || strings.Contains(rest[:i], "/")) {
		if reference.Tag, rest = rest[i+1:], rest[:i]; !ValidTag(reference.Tag) {
			return reference, invalid(text, "a tag has 1 to 128 letters, digits, and _ . -")
		}
	}
	if layout {
		if reference.Dir = rest; rest == "" || strings.ContainsFunc(rest, func(c rune) bool { return c < ' ' }) {
			return reference, invalid(text, "a directory is missing")
		}
		return reference, nil
	}
	reference.Host, reference.Name, _ = strings.Cut(rest, "/")
	if !validHost(reference.Host) {
		return reference, invalid(text, "the host is invalid")
	}
	if !validName(reference.Name) || len(reference.Name) > 255 {
		return reference, invalid(text, "a name has lower-case letters, digits, and . _ - / between them")
	}
	return reference, nil
}

// cutDigest finds the digest at the end. A directory may have an "@" in its name.
func cutDigest(s string) (before, digest string, found bool) {
	i := strings.LastIndexByte(s, '@')
	if i < 0 || !strings.HasPrefix(s[i+1:], "sha256:") {
		return s, "", false
	}
	return s[:i], s[i+1:], true
}

// validHost allows names, numbers, and a port. A text with a user or a path is none.
func validHost(host string) bool {
	name := host
	if h, port, err := net.SplitHostPort(host); err == nil {
		if name = h; port == "" {
			return false
		}
	}
	u, err := url.ParseRequestURI(Scheme + host)
	return err == nil && u.Host == host && name != "" && !strings.ContainsAny(name, "@?#%\\ ")
}

// validName allows lower-case letters and digits, in parts between slashes, and between them one point, one or two
// underscores, or any number of hyphens.
func validName(name string) bool {
	const plain = portable.Lower + portable.Digits
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || strings.Trim(part, "._-") != part {
			return false
		}
		for between := range strings.FieldsFuncSeq(part, func(c rune) bool { return strings.ContainsRune(plain, c) }) {
			if between != "." && between != "_" && between != "__" && strings.Trim(between, "-") != "" {
				return false
			}
		}
	}
	return true
}

func invalid(s, why string) *fault.Error {
	return fault.New(fault.Validation, "invalid reference %q: %s", fault.Clip(s, 200), why).
		On("reference", fault.Clip(s, 200)).Try("rye docs oci")
}

// Repository returns the reference without tag and digest.
func (r Reference) Repository() string {
	return Reference{Host: r.Host, Name: r.Name, Dir: r.Dir}.String()
}

// String returns the text of the reference.
func (r Reference) String() string {
	s := Scheme + r.Host + "/" + r.Name
	if r.Dir != "" {
		s = LayoutScheme + r.Dir
	}
	if r.Tag != "" {
		s += ":" + r.Tag
	}
	if r.Digest != "" {
		s += "@" + r.Digest
	}
	return s
}

// Pinned returns the reference with the digest of what it names.
func (r Reference) Pinned(digest string) Reference {
	r.Digest = digest
	return r
}
