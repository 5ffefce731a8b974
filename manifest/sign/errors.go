package sign

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/rye-build/rye/manifest/key"
)

var (
	// ErrUnsigned is returned for a file without signature lines.
	ErrUnsigned = errors.New("unsigned")
	// ErrV1 is returned where a signature of the first format isn't enough, or is in the way.
	ErrV1 = errors.New("signed in the first format (v1) only")
	// ErrTooMany is returned for more than MaxLines signature lines.
	ErrTooMany = fmt.Errorf("more than %d signature lines", MaxLines)
	// ErrNoStyle is returned for a file that can't carry signature lines.
	ErrNoStyle = errors.New("files of this type have no comment that could carry a signature line")
	// ErrNoPlace is returned for a file whose bytes leave no place for a signature line.
	ErrNoPlace = errors.New("no place for a signature line: the line it stands below has no end or goes on in the next, or the file is UTF-16")
	// ErrChanged is returned if a file isn't what it was when it was read before.
	ErrChanged = errors.New("file changed while it was being signed")
)

// An IntegrityError says that a file is not as it was signed, or that its signature lines don't stand as they
// were written. It is INTEGRITY_FAILED.
type IntegrityError struct {
	What     string // "content" (also if empty) or "tree", with Expected and Found; or "lines", with Reason
	Expected string // "blake3:…"; of the first format "sha256:…"; "none" for a tree where there is none
	Found    string
	// OnlyLineEndings says that with other line ends, as git and editors change them, it would be what was signed.
	OnlyLineEndings bool
	Reason          string
}

func (e *IntegrityError) Error() string {
	s := e.Reason
	if e.What != "lines" {
		s = fmt.Sprintf("%s was changed after signing: expected %s, found %s", cmp.Or(e.What, "content"), e.Expected, e.Found)
	}
	if e.OnlyLineEndings {
		s += " (only line endings differ)"
	}
	return s
}

// A SignatureInvalidError says that a signature by a known key doesn't hold, although the bytes are those that it
// names: it was damaged or forged, or made for another name.
type SignatureInvalidError struct {
	Key  key.Fingerprint
	Name string // what the file was asked for as; "" in the first format, which signs no name
}

func (e *SignatureInvalidError) Error() string {
	s := fmt.Sprintf("signature of the key %s does not hold", e.Key.Short())
	if e.Name != "" {
		s += " for " + quote(e.Name)
	}
	return s
}

// An UnknownKeyError says that the bytes are as they were signed, but by nobody who is known.
type UnknownKeyError struct {
	Keys []string // fingerprints, or the 16 digits of the first format
}

func (e *UnknownKeyError) Error() string {
	return "signed by unknown keys only: " + strings.Join(e.Keys, ", ")
}

// A VersionError says that a signature line is of a format that comes after those this package reads.
type VersionError struct{ Found string }

func (e *VersionError) Error() string {
	return fmt.Sprintf("signature line has format %q, expected v2", e.Found)
}

// A ClaimError says that no signature can speak about a name or in a domain.
type ClaimError struct{ Reason string }

func (e *ClaimError) Error() string { return e.Reason }
