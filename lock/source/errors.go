package source

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/manifest/sign"
)

// An Error says what is wrong with a source, or with a bundle that came from it.
type Error struct {
	ID, Version string // of the bundle; may be empty
	Where       string // the source, as rye.yaml names it
	Err         error
}

func (e *Error) Error() string { return named(e.ID, e.Version, e.Where) + ": " + e.Err.Error() }

// Unwrap returns what is wrong.
func (e *Error) Unwrap() error { return e.Err }

// A SignedError names the document of a source that isn't as it was signed.
type SignedError struct {
	Path string // in the source
	Err  error
}

func (e *SignedError) Error() string { return fmt.Sprintf("%+q: %v", e.Path, e.Err) }

// Unwrap returns what is wrong.
func (e *SignedError) Unwrap() error { return e.Err }

// inDocument names the document that isn't as it was signed; what else is wrong with one names it already.
func inDocument(path string, err error) error {
	if _, changed := errors.AsType[*sign.IntegrityError](err); changed {
		return &SignedError{path, err}
	}
	return err
}

func named(id, version, where string) string {
	text := fmt.Sprintf("from %+q", where)
	if version != "" {
		text = version + " " + text
	}
	if id != "" {
		text = fmt.Sprintf("%q ", id) + text
	}
	return text
}

// A NotListedError says that no index has a bundle, or this version of it. It is fs.ErrNotExist.
type NotListedError struct {
	ID, Version string   // Version is empty where there is none at all
	Indexes     []string // that were asked; none if rye.yaml names none
	Listed      []string // which bundles these have instead; nil where a version is missing
}

func (e *NotListedError) Error() string {
	what := fmt.Sprintf("%q", e.ID)
	if e.Version != "" {
		what += " " + e.Version
	}
	if len(e.Indexes) == 0 {
		return "rye.yaml names neither " + what + " nor an index that could have it"
	}
	return what + " is not in the index " + quoted(e.Indexes, " nor in ")
}

// Unwrap makes it fs.ErrNotExist.
func (e *NotListedError) Unwrap() error { return fs.ErrNotExist }

func quoted(list []string, between string) string {
	texts := make([]string, len(list))
	for i, s := range list {
		texts[i] = fmt.Sprintf("%+q", s)
	}
	return strings.Join(texts, between)
}

// An AmbiguousSourceError says that several indexes list a bundle that rye.yaml doesn't name: which of them speaks for it
// is for people to say.
type AmbiguousSourceError struct {
	ID      string
	Indexes []string // as rye.yaml names them
}

func (e *AmbiguousSourceError) Error() string {
	return fmt.Sprintf("%q is in several indexes, and rye.yaml doesn't say which one it comes from: %s", e.ID, quoted(e.Indexes, ", "))
}

// An OfflineError says that something isn't here and may not be fetched.
type OfflineError struct {
	Address     string
	ID, Version string   // of the bundle; empty of an index
	Missing     []cas.ID // that the store lacks of the bundle; nil where it isn't known which objects that are
}

func (e *OfflineError) Error() string {
	what := fmt.Sprintf("the index %+q", e.Address)
	if e.ID != "" {
		what = named(e.ID, e.Version, e.Address)
	}
	switch n := len(e.Missing); n {
	case 0:
		return what + " is not here, and nothing is fetched offline"
	case 1:
		return fmt.Sprintf("%s is not here, and nothing is fetched offline: the store lacks the %s", what, e.Missing[0])
	default:
		return fmt.Sprintf("%s is not here, and nothing is fetched offline: the store lacks %d objects, the first of them the %s", what, n, e.Missing[0])
	}
}

// A MismatchError says that a bundle, which may be a good one, is not what it was said to be.
type MismatchError struct {
	What            string // "id", "version", "manifest" or "requires"
	Expected, Found string // by the index, or by whoever asked; by the bundle itself
}

func (e *MismatchError) Error() string {
	return fmt.Sprintf("it is another bundle: expected %s %s, found %s", e.What, e.Expected, e.Found)
}

// A SizeError says that an archive has not as many bytes as the index says.
type SizeError struct{ Expected, Found int64 }

func (e *SizeError) Error() string {
	if e.Found > e.Expected {
		return fmt.Sprintf("the archive has more than the %d bytes that the index says", e.Expected)
	}
	return fmt.Sprintf("the archive has %d bytes, and the index says %d", e.Found, e.Expected)
}

// A RenamedError says that an index has another name than the one that was there before.
type RenamedError struct{ Seen, Found string }

func (e *RenamedError) Error() string {
	return fmt.Sprintf("the index that was here is %+q, and this is %+q", e.Seen, e.Found)
}
