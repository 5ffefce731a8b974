package ai

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/manifest/policy"
)

// ErrAsset is the error of a file in the directory of a kind without the kind's marker: an asset, not an item.
var ErrAsset = errors.New("is not an item: it lacks the marker of its kind")

// ErrGone is the error of a file that was removed after it was found. It wraps ErrAsset: the item doesn't exist.
var ErrGone error = goneError{}

type goneError struct{}

func (goneError) Error() string { return "was removed by another process" }

func (goneError) Is(target error) bool { return target == ErrAsset }

// coded adds the code as the detail "reason", one word for tables, unless a cause has set it.
func coded(f *fault.Error) *fault.Error {
	if _, ok := f.Details["reason"]; !ok {
		f.On("reason", strings.ToLower(strings.ReplaceAll(string(f.Code), "_", "-")))
	}
	return f
}

// because returns a fault with the code, text and facts of cause, the fault of err. It drops the exit status of
// cause, because the caller may still change the code.
func because(cause *fault.Error, err error) *fault.Error {
	f := fault.New(cause.Code, "%s", cause.Text).Because(cause.Why...).Try(cause.Hint...).From(err)
	f.Details = cause.Details
	return f
}

// line writes a fault on one line, for logs and other errors.
func line(f *fault.Error) string { return strings.Join(append([]string{f.Text}, f.Why...), "; ") }

// An ItemError is an error about a file in a space. Callers match Err with errors.Is.
type ItemError struct {
	Ref   model.Ref // zero if the file's name isn't a valid item's
	Space *Space
	Path  string
	Err   error
}

// Error names the file in ASCII, since names come from outside.
func (e *ItemError) Error() string {
	if pe, ok := errors.AsType[*fs.PathError](e.Err); ok {
		return fmt.Sprintf("%+q: %v", e.Place(), pe.Err) // which is about the same path
	}
	return fmt.Sprintf("%+q: %v", e.Place(), e.Err)
}

// Unwrap returns the cause.
func (e *ItemError) Unwrap() error { return e.Err }

// Place returns the file's path for messages.
func (e *ItemError) Place() string { return e.Space.where(e.Path) }

// Fault adds the file to its cause, unless the cause names the item already. A cause without a code is a read error.
func (e *ItemError) Fault() *fault.Error {
	cause := fault.Of(e.Err)
	if cause.Details["ref"] == e.Ref.String() {
		return cause
	}
	pe, ofFile := errors.AsType[*fs.PathError](e.Err)
	if _, coded := fault.Find(e.Err); ofFile && !coded && e.Space.Dir != "" { // its path is one in the space
		cause = fault.Of(&fs.PathError{Op: pe.Op, Path: e.Place(), Err: pe.Err})
	}
	failure, words := because(cause, e.Err), cause.Text
	asset := errors.Is(e.Err, ErrAsset)
	if ofFile {
		words = pe.Err.Error() // about the same path
	}
	switch {
	case errors.Is(e.Err, ErrGone):
		failure.Code = fault.NotFound
	case asset && e.Ref.Kind != "":
		failure.Code = fault.Validation
		failure.Because(model.MissingMarker(e.Ref.Kind, e.Path)).Hint = []string{"rye docs " +
			model.FormatTopic(e.Ref.Kind)}
	case asset:
		failure.Code = fault.Validation
	case failure.Code == fault.Unknown:
		failure.Code = fault.Files
	}
	place := e.Place()
	failure.Text = fmt.Sprintf("%q: %s", place, words)
	if e.Ref.Kind != "" {
		failure.On("ref", e.Ref.String())
	}
	return coded(failure.On("file", place))
}

// A NotFoundError reports that no space has an item. It is fs.ErrNotExist.
type NotFoundError struct {
	Ref   model.Ref
	Near  []string // similar refs
	Above string   // the label of a higher space that has it and that the asking item may not use
	// the places of files that would be the item if they had the marker of their kind, or weren't JSON or TOML
	Assets []string
}

func (e *NotFoundError) Error() string { return line(e.Fault()) }

// Unwrap makes it fs.ErrNotExist.
func (e *NotFoundError) Unwrap() error { return fs.ErrNotExist }

// Fault suggests similar refs.
func (e *NotFoundError) Fault() *fault.Error {
	failure := fault.New(fault.NotFound, "%s not found", e.Ref).On("ref", e.Ref.String()).From(e)
	if e.Ref.Kind == "tool" {
		failure.Code = fault.ToolNotFound
	}
	failure.Try("rye ls", "rye search "+fault.Quote(e.Ref.Name()))
	if e.Above != "" {
		failure.Because(fmt.Sprintf("it is in the space %q, which items of lower spaces can't use", e.Above))
	}
	if len(e.Near) > 0 {
		failure.On("did_you_mean", e.Near).Because("did you mean " + strings.Join(e.Near, ", ") + "?")
		failure.Hint = []string{"rye show " + fault.Quote(e.Near[0])}
	}
	for _, file := range e.Assets {
		ext := path.Ext(file)
		why := ext + " files never are"
		if !slices.Contains(NeverItems, ext) {
			why = model.MissingMarker(e.Ref.Kind, file)
		}
		failure.Because(fmt.Sprintf("%+q is not an item: %s", file, why))
		failure.Hint = []string{"rye docs " + model.FormatTopic(e.Ref.Kind)}
	}
	return coded(failure)
}

// An AmbiguousError reports that several files of one rank have one id.
type AmbiguousError struct {
	Ref    model.Ref
	Places []string // two to eight, for messages
	More   int      // further files
}

func (e *AmbiguousError) Error() string { return line(e.Fault()) }

// Fault lists the files.
func (e *AmbiguousError) Fault() *fault.Error {
	f := fault.New(fault.Ambiguous, "%s is ambiguous: %s have this id", e.Ref,
		fault.Count(int64(len(e.Places)+e.More), "file")).
		On("ref", e.Ref.String()).On("places", e.Places).Because(e.Places...).From(e)
	if e.More > 0 {
		f.Because(fmt.Sprintf("and %d more", e.More))
	}
	return coded(f.Try(fault.Command("rye mv", e.Places[0], e.Ref.ID+"-2"), fault.Command("rye rm", e.Places[0])))
}

// maxPlaces bounds the files that an AmbiguousError names, because each of the files gets such an error.
const maxPlaces = 8

func ambiguous(files []File) *AmbiguousError {
	named := min(len(files), maxPlaces)
	e := &AmbiguousError{Ref: files[0].Ref, More: len(files) - named}
	for _, f := range files[:named] {
		e.Places = append(e.Places, f.Space.where(f.Path))
	}
	return e
}

// NotAdmitted returns the error of an item that policy doesn't admit.
func NotAdmitted(ref model.Ref, place string, d policy.Decision) error {
	failure := fault.New(d.Code.Fault(), "%q %s", ref, d.Reason()).Because(place).On("reason", d.Code.String()).
		On("ref", ref.String()).On("file", place)
	switch d.Code {
	case policy.Advised:
		id, _, _ := strings.Cut(d.Advice.Bundle, "@")
		failure.On("advisory", d.Notice.ID).On("bundle", d.Advice.Bundle).On("registry", d.Advice.Registry).
			Try("rye update "+fault.Quote(id), "rye docs registry-trust")
	case policy.AdvisoriesStale:
		failure.On("bundle", d.Advice.Bundle).On("registry", d.Advice.Registry).Try("rye trust update")
	default:
		failure.Try("rye verify " + fault.Quote(ref.String()))
	}
	return failure
}

// A ShadowError reports that an item hides a protected one, and the root policy doesn't allow it.
type ShadowError struct {
	Ref   model.Ref
	Place string   // of the item in front
	Space string   // its space's label
	Over  []string // the labels of the spaces with the items that it hides
}

func (e *ShadowError) Error() string { return line(e.Fault()) }

// Fault returns an error that names the hidden and the hiding item.
func (e *ShadowError) Fault() *fault.Error {
	return fault.New(fault.Policy, "%s is protected: the space %q may not replace it", e.Ref, e.Space).
		Because(fmt.Sprintf("%+q replaces the item of %s", e.Place, strings.Join(e.Over, ", ")),
			"\"override:\" in the root policy can allow it").
		Try("rye show "+fault.Quote(e.Ref.String()), "rye rm "+fault.Quote(e.Place)).From(e).
		On("reason", "protected").On("ref", e.Ref.String()).On("file", e.Place).On("hides", e.Over)
}

// A ChainError reports why a tool has no chain. Err is the error of finding a link, if that is the reason.
type ChainError struct {
	Code   fault.Code
	Ref    model.Ref // of the tool
	Path   []string  // the refs of the chain so far; the last is the missing or repeated one
	Issues []Issue   // all of them, with Validation and VersionMismatch
	Err    error
}

// An Issue is a rule that two neighbouring links of a chain break, or one link by itself.
type Issue struct {
	Code    fault.Code
	Link    model.Ref // the link nearer to the tool
	Message string
}

func (e *ChainError) Error() string { return line(e.Fault()) }

// Unwrap returns the error of finding a link.
func (e *ChainError) Unwrap() error { return e.Err }

// Fault describes where the chain breaks.
func (e *ChainError) Fault() *fault.Error {
	failure := fault.New(e.Code, "")
	if e.Err != nil {
		failure = because(fault.Of(e.Err), e.Err)
		missing := e.Code == fault.ToolNotFound || e.Code == fault.ExecutorNotFound
		none := failure.Code == fault.NotFound || failure.Code == fault.ToolNotFound || failure.Code == fault.Unknown
		if none || failure.Code != fault.LockMismatch && !missing { // a link that isn't locked keeps its code
			failure.Code = e.Code
		}
	}
	failure.On("ref", e.Ref.String()).On("chain", e.Path)
	path := strings.Join(e.Path, " → ")
	switch {
	case e.Code == fault.Circular:
		failure.Text = "circular executor chain: " + path
	case e.Code == fault.TooDeep:
		failure.Text = fmt.Sprintf("executor chain longer than %d links: %s", MaxChain, path)
	case len(e.Issues) > 0:
		all := collect(e.Issues, func(i Issue) string { return i.Message })
		failure.Text = fmt.Sprintf("invalid executor chain of %s", e.Ref)
		failure.Because(all...).On("issues", all).Hint = []string{"rye check " + fault.Quote(e.Ref.String())}
	case len(e.Path) > 1:
		failure.Text = fmt.Sprintf("executor %s of %s: %s", e.Path[len(e.Path)-1], e.Path[len(e.Path)-2], failure.Text)
	}
	return coded(failure)
}
