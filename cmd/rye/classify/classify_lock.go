package classify

import (
	"errors"
	"fmt"
	"slices"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/lock/closure"
)

// ofClosure describes why a project can't be locked.
func ofClosure(f *fault.Error) bool {
	e, ok := errors.AsType[*closure.Error](f.Err)
	if !ok {
		return false
	}
	var codes []fault.Code
	for _, p := range e.Problems {
		c, _ := WordsFor(p.Err)
		codes = append(codes, c)
	}
	f.Code, f.Text = fault.Gravest(codes), fmt.Sprintf("the project cannot be locked: %s", fault.Count(int64(len(e.Problems)), "problem"))
	f.Details = map[string]any{"problems": len(e.Problems)}
	if slices.ContainsFunc(e.Problems, func(p *closure.Problem) bool { return IsDamaged(p.Err) }) {
		f.Hint = []string{"rye vendor --check", "rye store fsck"}
		return true
	}
	refs, ok := UnsignedRefs(e)
	if !ok {
		f.Hint = []string{"rye check", "rye verify '**'"}
		if e.Problems[0].Space == nil {
			f.Hint = []string{"rye ls"}
		}
		return true
	}
	unsigned := "rye lock --sign"
	for _, ref := range refs {
		unsigned += " " + fault.Quote(ref)
	}
	f.Hint = []string{unsigned}
	if ref := fault.Quote(refs[0]); codes[0] == fault.Integrity {
		f.Hint = []string{"rye diff " + ref, unsigned, "rye restore " + ref}
	}
	return true
}

// UnsignedRefs returns the items that only lack a signature over their current content. ok is false if there are other
// problems.
func UnsignedRefs(err error) (refs []string, ok bool) {
	e, ok := errors.AsType[*closure.Error](err)
	if !ok {
		return nil, false
	}
	for _, p := range e.Problems {
		code := Classify(p.Err).Code
		if p.Ref == (model.Ref{}) || code != fault.Unsigned && code != fault.Integrity {
			return nil, false
		}
		refs = append(refs, p.Ref.String())
	}
	return refs, len(refs) > 0
}
