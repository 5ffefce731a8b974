package classify

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/ai/tree"
	"github.com/rye-build/rye/ai/value"
	"github.com/rye-build/rye/cas/fault"
)

// ofItems recognises what the room ai says.
func ofItems(f *fault.Error) bool {
	var (
		chain     *ai.ChainError
		missing   *ai.NotFoundError
		ambiguous *ai.AmbiguousError
		shadow    *ai.ShadowError
		refused   *ai.NotAdmittedError
		item      *ai.ItemError
		ref       *model.RefError
		path      *model.PathError
		tree      *tree.RefusedError
		problem   *value.Problem
		outside   *ai.OutsideError
	)
	switch {
	case errors.As(f.Err, &outside):
		f.Code = fault.Denied
		f.Text = fmt.Sprintf("%q is a symbolic link that leads out of the project, and nothing is read or written through one", outside.Dir)
		f.Hint, f.Details = []string{"ls -l " + fault.Quote(outside.Dir)}, map[string]any{"reason": "link", "path": outside.Dir}
	case errors.As(f.Err, &chain):
		ofChain(f, chain)
	case errors.As(f.Err, &missing):
		ofMissing(f, missing)
	case errors.As(f.Err, &ambiguous):
		f.Code, f.Text = fault.Ambiguous, fmt.Sprintf("%q is ambiguous: %s have this id", ambiguous.Ref, fault.Count(int64(len(ambiguous.Places)+ambiguous.More), "file"))
		f.Why, f.Details = ambiguous.Places, map[string]any{"ref": ambiguous.Ref.String(), "places": ambiguous.Places}
		if ambiguous.More > 0 {
			f.Why = append(f.Why, fmt.Sprintf("and %d more", ambiguous.More))
		}
		f.Hint = []string{"rye rm FILE", "rye mv FILE NEWID"}
	case errors.As(f.Err, &shadow):
		f.Code = fault.Policy
		f.Text = fmt.Sprintf("%q is protected, and the space %q has another one in front of it", shadow.Ref, shadow.Space)
		f.Why = []string{"in front   " + shadow.Place, "hides that of " + strings.Join(shadow.Over, ", "),
			"only \"override:\" in the root policy lets an item stand in front of one below rye/"}
		f.Hint = []string{"rye show " + fault.Quote(shadow.Ref.String()), "rye rm " + fault.Quote(shadow.Place)}
		f.Details = map[string]any{"reason": "protected", "ref": shadow.Ref.String(), "file": shadow.Place, "hides": shadow.Over}
	case errors.As(f.Err, &refused):
		f.Code = refused.Decision.Code.Fault()
		f.Text = fmt.Sprintf("%q %s", refused.Ref, refused.Decision.Reason())
		f.Why = []string{refused.Place}
		f.Details = map[string]any{"reason": refused.Decision.Code.String(), "ref": refused.Ref.String(), "file": refused.Place}
		f.Hint = []string{"rye verify " + fault.Quote(refused.Ref.String())}
	case errors.As(f.Err, &item):
		ofItem(f, item)
	case errors.As(f.Err, &ref), errors.As(f.Err, &path):
		f.Code = fault.Validation
	case errors.As(f.Err, &tree):
		f.Code, f.Text = fault.Validation, "not everything there can stand in a tool's tree"
		for _, file := range tree.Files {
			f.Why = append(f.Why, file.Error())
		}
	case errors.As(f.Err, &problem):
		f.Code, f.Details = fault.Validation, map[string]any{"line": problem.At.Line, "column": problem.At.Column, "field": problem.Field}
	default:
		return false
	}
	if f.Details == nil {
		f.Details = map[string]any{}
	}
	// One word for what is wrong, for tables and programs.
	if _, ok := f.Details["reason"]; !ok {
		f.Details["reason"] = strings.ToLower(strings.ReplaceAll(string(f.Code), "_", "-"))
	}
	return true
}

// ofMissing says that no space has an item, and which ones are almost it.
func ofMissing(f *fault.Error, e *ai.NotFoundError) {
	f.Code, f.Hint = fault.NotFound, []string{"rye ls", "rye search " + fault.Quote(e.Ref.Name())}
	if e.Ref.Kind == "tool" {
		f.Code = fault.ToolNotFound
	}
	f.Text, f.Details = fmt.Sprintf("there is no %q", e.Ref), map[string]any{"ref": e.Ref.String()}
	if e.Above != "" {
		f.Why = append(f.Why, fmt.Sprintf("it is in the space %q, which stands above whoever asks", e.Above))
	}
	if len(e.Near) > 0 {
		f.Details["did_you_mean"] = e.Near
		f.Why = append(f.Why, "did you mean "+strings.Join(e.Near, ", ")+"?")
		f.Hint = []string{"rye show " + fault.Quote(e.Near[0])}
	}
	for _, file := range e.Assets {
		why := "its format has no items"
		if k := filepath.Ext(file); k != ".json" && k != ".toml" {
			why = "it doesn't carry the mark of its kind: " + MissingMark(e.Ref.Kind, file)
		}
		f.Why = append(f.Why, file+" is an asset: "+why)
		f.Hint = []string{"rye docs " + FormatTopic(e.Ref.Kind)}
	}
}

// ofChain says where a chain of executors breaks.
func ofChain(f *fault.Error, e *ai.ChainError) {
	if e.Err != nil {
		inner := Classify(e.Err)
		f.Why, f.Hint, f.Details = inner.Why, inner.Hint, inner.Details
	}
	f.Code = fault.Code(e.Code)
	if f.Details == nil {
		f.Details = map[string]any{}
	}
	f.Details["ref"], f.Details["chain"] = e.Ref.String(), e.Path
	if len(e.Issues) == 0 {
		return
	}
	f.Text = fmt.Sprintf("the chain of %q doesn't fit together", e.Ref)
	var all []string
	for _, i := range e.Issues {
		all = append(all, i.Message)
	}
	f.Why, f.Hint = append(f.Why, all...), []string{"rye check " + fault.Quote(e.Ref.String())}
	f.Details["issues"] = all
}

// ofItem says what is wrong with one file of a space.
func ofItem(f *fault.Error, e *ai.ItemError) {
	place := FaultPlace(e)
	inner := Classify(e.Err)
	f.Code, f.Why, f.Hint, f.Details = inner.Code, inner.Why, inner.Hint, inner.Details
	words := inner.Text
	var system *fs.PathError
	var path *model.PathError
	switch {
	case errors.As(e.Err, &path):
		words = path.Reason
	case errors.Is(e.Err, ai.ErrGone):
		f.Code = fault.NotFound
	case errors.Is(e.Err, ai.ErrAsset):
		f.Code = fault.Validation
		if e.Ref.Kind != "" {
			f.Why, f.Hint = append(f.Why, MissingMark(e.Ref.Kind, e.Path)), []string{"rye docs " + FormatTopic(e.Ref.Kind)}
		}
	case errors.As(e.Err, &system):
		words = system.Err.Error() // about the same path
		if inner.Code == fault.Unknown {
			f.Code = fault.Files
		}
	case inner.Code == fault.Unknown:
		f.Code = fault.Files
	}
	f.Text = fmt.Sprintf("%q: %s", place, words)
	if f.Details == nil {
		f.Details = map[string]any{}
	}
	f.Details["file"] = place
	if e.Ref.Kind != "" {
		f.Details["ref"] = e.Ref.String()
	}
}

// FaultPlace names the file that an error is about.
func FaultPlace(e *ai.ItemError) string {
	if e.Space.Dir == "" {
		return e.Space.Label + "/" + e.Path
	}
	return filepath.Join(e.Space.Dir, filepath.FromSlash(e.Path))
}
