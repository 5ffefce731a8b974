package main

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
)

// ofItems recognises what the room ai says.
func (f *fault) ofItems() bool {
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
	case errors.As(f.err, &outside):
		f.code = codeDenied
		f.message = fmt.Sprintf("%q is a symbolic link that leads out of the project, and nothing is read or written through one", outside.Dir)
		f.hint, f.details = []string{"ls -l " + quoteArg(outside.Dir)}, map[string]any{"reason": "link", "path": outside.Dir}
	case errors.As(f.err, &chain):
		f.chain(chain)
	case errors.As(f.err, &missing):
		f.missing(missing)
	case errors.As(f.err, &ambiguous):
		f.code, f.message = "AMBIGUOUS", fmt.Sprintf("%q is ambiguous: %s have this id", ambiguous.Ref, counted(int64(len(ambiguous.Places)+ambiguous.More), "file"))
		f.why, f.details = ambiguous.Places, map[string]any{"ref": ambiguous.Ref.String(), "places": ambiguous.Places}
		if ambiguous.More > 0 {
			f.why = append(f.why, fmt.Sprintf("and %d more", ambiguous.More))
		}
		f.hint = []string{"rye rm FILE", "rye mv FILE NEWID"}
	case errors.As(f.err, &shadow):
		f.code = "POLICY_DENIED"
		f.message = fmt.Sprintf("%q is protected, and the space %q has another one in front of it", shadow.Ref, shadow.Space)
		f.why = []string{"in front   " + shadow.Place, "hides that of " + strings.Join(shadow.Over, ", "),
			"only \"override:\" in the root policy lets an item stand in front of one below rye/"}
		f.hint = []string{"rye show " + quoteArg(shadow.Ref.String()), "rye rm " + quoteArg(shadow.Place)}
		f.details = map[string]any{"reason": "protected", "ref": shadow.Ref.String(), "file": shadow.Place, "hides": shadow.Over}
	case errors.As(f.err, &refused):
		f.code = codeOf(refused.Decision.Code)
		f.message = fmt.Sprintf("%q %s", refused.Ref, refused.Decision.Reason())
		f.why = []string{refused.Place}
		f.details = map[string]any{"reason": refused.Decision.Code.String(), "ref": refused.Ref.String(), "file": refused.Place}
		f.hint = []string{"rye verify " + quoteArg(refused.Ref.String())}
	case errors.As(f.err, &item):
		f.item(item)
	case errors.As(f.err, &ref), errors.As(f.err, &path):
		f.code = codeValidation
	case errors.As(f.err, &tree):
		f.code, f.message = codeValidation, "not everything there can stand in a tool's tree"
		for _, file := range tree.Files {
			f.why = append(f.why, file.Error())
		}
	case errors.As(f.err, &problem):
		f.code, f.details = codeValidation, map[string]any{"line": problem.At.Line, "column": problem.At.Column, "field": problem.Field}
	default:
		return false
	}
	if f.details == nil {
		f.details = map[string]any{}
	}
	// One word for what is wrong, for tables and programs.
	if _, ok := f.details["reason"]; !ok {
		f.details["reason"] = strings.ToLower(strings.ReplaceAll(string(f.code), "_", "-"))
	}
	return true
}

// missing says that no space has an item, and which ones are almost it.
func (f *fault) missing(e *ai.NotFoundError) {
	f.code, f.hint = codeItem, []string{"rye ls", "rye search " + quoteArg(e.Ref.Name())}
	if e.Ref.Kind == "tool" {
		f.code = "TOOL_NOT_FOUND"
	}
	f.message, f.details = fmt.Sprintf("there is no %q", e.Ref), map[string]any{"ref": e.Ref.String()}
	if e.Above != "" {
		f.why = append(f.why, fmt.Sprintf("it is in the space %q, which stands above whoever asks", e.Above))
	}
	if len(e.Near) > 0 {
		f.details["did_you_mean"] = e.Near
		f.why = append(f.why, "did you mean "+strings.Join(e.Near, ", ")+"?")
		f.hint = []string{"rye show " + quoteArg(e.Near[0])}
	}
	for _, file := range e.Assets {
		why := "its format has no items"
		if k := filepath.Ext(file); k != ".json" && k != ".toml" {
			why = "it doesn't carry the mark of its kind: " + missingMark(e.Ref.Kind, file)
		}
		f.why = append(f.why, file+" is an asset: "+why)
		f.hint = []string{"rye docs " + formatTopic(e.Ref.Kind)}
	}
}

// chain says where a chain of executors breaks.
func (f *fault) chain(e *ai.ChainError) {
	if e.Err != nil {
		inner := classify(e.Err)
		f.why, f.hint, f.details = inner.why, inner.hint, inner.details
	}
	f.code = code(e.Code)
	if f.details == nil {
		f.details = map[string]any{}
	}
	f.details["ref"], f.details["chain"] = e.Ref.String(), e.Path
	if len(e.Issues) == 0 {
		return
	}
	f.message = fmt.Sprintf("the chain of %q doesn't fit together", e.Ref)
	var all []string
	for _, i := range e.Issues {
		all = append(all, i.Message)
	}
	f.why, f.hint = append(f.why, all...), []string{"rye check " + quoteArg(e.Ref.String())}
	f.details["issues"] = all
}

// item says what is wrong with one file of a space.
func (f *fault) item(e *ai.ItemError) {
	place := faultPlace(e)
	inner := classify(e.Err)
	f.code, f.why, f.hint, f.details = inner.code, inner.why, inner.hint, inner.details
	words := inner.message
	var system *fs.PathError
	var path *model.PathError
	switch {
	case errors.As(e.Err, &path):
		words = path.Reason
	case errors.Is(e.Err, ai.ErrGone):
		f.code = codeItem
	case errors.Is(e.Err, ai.ErrAsset):
		f.code = codeValidation
		if e.Ref.Kind != "" {
			f.why, f.hint = append(f.why, missingMark(e.Ref.Kind, e.Path)), []string{"rye docs " + formatTopic(e.Ref.Kind)}
		}
	case errors.As(e.Err, &system):
		words = system.Err.Error() // about the same path
		if inner.code == codeUnknown {
			f.code = codeFiles
		}
	case inner.code == codeUnknown:
		f.code = codeFiles
	}
	f.message = fmt.Sprintf("%q: %s", place, words)
	if f.details == nil {
		f.details = map[string]any{}
	}
	f.details["file"] = place
	if e.Ref.Kind != "" {
		f.details["ref"] = e.Ref.String()
	}
}

// faultPlace names the file that an error is about.
func faultPlace(e *ai.ItemError) string {
	if e.Space.Dir == "" {
		return e.Space.Label + "/" + e.Path
	}
	return filepath.Join(e.Space.Dir, filepath.FromSlash(e.Path))
}
