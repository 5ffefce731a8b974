package project

import (
	"strings"

	"github.com/rye-build/rye/cas/oci"
)

// OCI returns the reference of a source that is a repository of a registry, or an image layout; otherwise false.
// Without tag and digest, all tags that are versions count; with a tag, its current image.
func (s Source) OCI() (oci.Reference, bool) {
	if s.Index || !oci.IsReference(s.Where) {
		return oci.Reference{}, false
	}
	r, err := oci.ParseReference(s.Where)
	return r, err == nil
}

// badReference returns a reference in its written form, and a reason if it is invalid.
func badReference(text string) (where, bad string) {
	reference, err := oci.ParseReference(text)
	switch {
	case err != nil:
		_, bad, _ = strings.Cut(err.Error(), "\": ")
		return text, bad
	case reference.Host != strings.ToLower(reference.Host):
		return text, "write the host in lower case"
	case reference.Dir != "":
		reference.Dir = strings.TrimPrefix(reference.Dir, "./")
		bad = badPath(reference.Dir)
	}
	return reference.String(), bad
}
