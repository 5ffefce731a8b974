package source

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"strings"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/suggest"
	"github.com/rye-build/rye/lock/index"
	"github.com/rye-build/rye/lock/project"
	"github.com/rye-build/rye/manifest/sign"
)

// An Error adds the source, and the bundle that came from it, to an error.
type Error struct {
	ID, Version string // of the bundle; may be empty
	Where       string // the source, as rye.yaml names it
	Err         error
}

func (e *Error) Error() string {
	text := e.Err.Error()
	f, ok := e.Err.(*fault.Error)
	switch names := strings.HasPrefix(text, fmt.Sprintf("%q: ", e.Where)) || strings.HasPrefix(text, e.Where+": "); {
	case ok && f.Details["source"] == e.Where, names && e.ID == "":
		return text
	case names:
		return strings.TrimSpace(fmt.Sprintf("%q %s", e.ID, e.Version)) + ": " + text
	}
	return named(e.ID, e.Version, e.Where) + ": " + text
}

// Unwrap returns the underlying error.
func (e *Error) Unwrap() error { return e.Err }

// inSource returns the Error of a source. If a file is missing there, it names the file that the source should have.
func inSource(id, version, where string, err error) error {
	if f, ok := fault.Find(err); ok && (f.Code == fault.Integrity || f.Code == fault.Parsing) &&
		f.Details["file"] != nil {
		return &Error{id, version, where, changed(f, named(id, version, where), where)}
	}
	wrapped := &Error{id, version, where, err}
	file, ok := errors.AsType[*fs.PathError](err)
	if !ok || !errors.Is(file, fs.ErrNotExist) {
		return wrapped
	}
	failure := fault.New(fault.NotFound, "").From(err).Missing().On("source", where).On("path", file.Path)
	bundle, ofBundle := strings.CutPrefix(file.Path, ".ai/bundles/")
	switch {
	case file.Path == index.File:
		failure.Text = fmt.Sprintf("%q is not an index of bundles: it has no %s", where, index.File)
		failure.Try(fault.Command("rye bundle index", where) + " --name acme/bundles")
	case ofBundle:
		bundle = strings.TrimSuffix(bundle, "/manifest.yaml")
		failure.Text = fmt.Sprintf("%q does not contain the bundle %q", where, bundle)
		failure.Because("a source directory is the project that the bundle was created in, with " + file.Path).
			Try("rye -C " + fault.Quote(where) + " bundle create " + fault.Quote(bundle))
	case !strings.Contains(where, "://") && path.Base(where) == filepath.Base(file.Path):
		failure.Text = fmt.Sprintf("%q does not exist", where)
		if id != "" {
			failure.Text = fmt.Sprintf("bundle %q not found: %q does not exist", id, where)
			failure.On("bundle", id).Try("rye docs sources")
		}
	default:
		return wrapped
	}
	return &Error{id, version, where, failure}
}

// inDocument adds the name of an altered or malformed document to an error. Other errors name it already.
func inDocument(path, name string, err error) error {
	if _, changed := errors.AsType[*sign.IntegrityError](err); changed || fault.CodeOf(err) == fault.Parsing {
		return fault.Wrap(err, "%+q: %s", path, fault.Of(err).Text).On("file", path).On("name", name)
	}
	return err
}

// changed adds to an error of inDocument its source and the command that shows details.
func changed(f *fault.Error, at, where string) *fault.Error {
	f.Text = at + ": " + f.Text
	f.On("source", where)
	switch {
	case (project.Source{Where: where}).Remote():
	case f.Details["file"] == index.File:
		f.Try(fault.Command("rye verify", path.Join(where, index.File), "--as", fmt.Sprint(f.Details["name"])))
	default:
		f.Try(fault.Command("rye bundle verify", where))
	}
	return f
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

// notListed is the error for a bundle, or a version of it, that is in none of the indexes. listed are the bundles in
// them. It is fs.ErrNotExist.
func notListed(id, version string, indexes, listed []string) error {
	what := fmt.Sprintf("%q", id)
	if version != "" {
		what += " " + version
	}
	f := fault.New(fault.NotFound, "%s is not in the index %s", what, quoted(indexes, " or ")).From(fs.ErrNotExist).
		On("bundle", id).On("version", version).On("indexes", append([]string{}, indexes...))
	if len(indexes) == 0 {
		f.Text = "rye.yaml names neither a source for " + what + " nor an index"
		f.Try("rye docs sources")
	}
	if meant := suggest.Names(id, listed); len(meant) > 0 {
		f.Because("did you mean "+strings.Join(meant, ", ")+"?").On("did_you_mean", meant)
	}
	return f
}

func quoted(list []string, between string) string {
	texts := make([]string, len(list))
	for i, s := range list {
		texts[i] = fmt.Sprintf("%+q", s)
	}
	return strings.Join(texts, between)
}

// ambiguous is the error for a bundle that is in several indexes and not in rye.yaml. Picking one would let every
// publisher there replace a bundle of the other index.
func ambiguous(id string, indexes []string) error {
	f := fault.New(fault.Ambiguous, "%q is in several indexes, and rye.yaml selects none: %s", id,
		quoted(indexes, ", ")).
		On("bundle", id).On("indexes", indexes).Because("each of them could replace a bundle of the other: choose one")
	for _, where := range indexes {
		f.Try("rye add " + id + " --index " + fault.Quote(where))
	}
	return f
}

// An OfflineError is the error for an object that the store lacks and that rye may not fetch.
type OfflineError struct {
	Address     string
	ID, Version string   // of the bundle; empty for an index
	Missing     []cas.ID // the missing objects of the bundle, if known
	Proof       bool     // what is missing is the proof of a registry's log
}

func (e *OfflineError) Error() string {
	what := named(e.ID, e.Version, e.Address)
	switch e.ID {
	case "":
		what = fmt.Sprintf("the index %+q", e.Address)
	case e.Address:
		what = fmt.Sprintf("%+q", e.Address)
	}
	if e.Proof {
		what = "the proof of " + what
	}
	switch what += " is not in the store, and rye is offline"; len(e.Missing) {
	case 0:
		return what
	case 1:
		return fmt.Sprintf("%s: missing %s", what, e.Missing[0])
	default:
		return fmt.Sprintf("%s: missing %s and %d more", what, e.Missing[0], len(e.Missing)-1)
	}
}

// Fault implements the interface of package fault.
func (e *OfflineError) Fault() *fault.Error {
	missing := make([]string, len(e.Missing))
	for i, id := range e.Missing {
		missing[i] = id.String()
	}
	f := fault.New(fault.Offline, "%v", e).From(e).On("url", e.Address).On("missing", missing)
	if e.ID == "" {
		return f.Try("rye lock") // rye fetch reads no index
	}
	if f.On("bundle", e.ID).On("version", e.Version); e.Proof {
		return f.Try("rye update " + fault.Quote(e.ID)) // rye fetch brings what is locked
	}
	return f.Try("rye fetch")
}

// Mismatch is the error for a bundle that differs from the index's or the caller's expectation in what: id, version,
// manifest or requires.
func Mismatch(what, expected, found string) error {
	return fault.New(fault.Integrity, "not the expected bundle: expected %s %s, found %s", what, expected, found).
		On("reason", "other-bundle").On("what", what).On("expected", expected).On("found", found).
		Because("expected  "+expected, "found     "+found)
}

// wrongSize is the error for an archive whose size differs from the index's.
func wrongSize(expected, found int64) error {
	f := fault.New(fault.Integrity, "the archive has %d bytes, but the index says %d", found, expected).
		On("reason", "archive-size").On("expected", expected).On("found", found)
	if found > expected {
		f.Text = fmt.Sprintf("the archive is larger than the %d bytes that the index says", expected)
	}
	return f
}

// renamed is the error for an index with another name than before. A new name could start a new count of issues.
func renamed(seen, found string) error {
	return fault.New(fault.Rollback, "the index was %+q before and is %+q now", seen, found).
		On("reason", "renamed").On("expected", seen).On("found", found).
		Because("an index must keep its name: a new name would allow older issues again")
}
