package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/lock"
	"github.com/rye-build/rye/lock/closure"
	lockfile "github.com/rye-build/rye/lock/file"
	ryeyaml "github.com/rye-build/rye/lock/project"
	versions "github.com/rye-build/rye/lock/resolve"
	"github.com/rye-build/rye/lock/vendor"
)

// ofLocks recognises what the room lock says.
func (f *fault) ofLocks() bool {
	var (
		closed    *closure.Error
		conflict  *versions.ConflictError
		none      *versions.NoVersionError
		circle    *versions.CycleError
		round     *lock.CycleError
		limit     *versions.LimitError
		unused    *versions.NotUsedError
		absent    *ryeyaml.MissingError
		place     *ryeyaml.SourceError
		merge     *lockfile.MergeError
		lockError *lockfile.Error
		refused   *lock.RefusedError
		std       *lock.StdError
		missing   *lock.MissingError
		notLocked *lock.NotLockedError
		mismatch  *lock.MismatchError
		pin       *lock.PinError
		ofBundle  *lock.BundleError
		needs     *lock.RequirementError
		gone      *vendor.MissingError
		damaged   *vendor.Error
	)
	if f.ofPackages() {
		return true
	}
	switch {
	case errors.As(f.err, &closed):
		f.closure(closed)
	case errors.As(f.err, &conflict):
		f.code, f.details = "CONFLICT", map[string]any{"reason": "versions", "bundle": conflict.ID, "version": conflict.Version}
		f.exit, f.stays, f.hint = exitRefused, true, []string{"rye add " + conflict.ID + "@RANGE", "rye outdated"}
		f.conflict(conflict)
	case errors.As(f.err, &none) && len(none.Holds) > 0:
		f.noneForBoth(none)
	case errors.As(f.err, &none):
		f.noVersion(none)
	case errors.As(f.err, &circle), errors.As(f.err, &round):
		f.code = "CIRCULAR_DEPENDENCY"
	case errors.As(f.err, &limit):
		f.code = "LIMIT_EXCEEDED"
	case errors.As(f.err, &unused):
		f.code, f.details = codeItem, map[string]any{"bundle": unused.ID}
		if meant := near(unused.ID, unused.Used); len(meant) > 0 {
			f.why, f.details["did_you_mean"] = []string{"did you mean " + meant[0] + "?"}, meant
		}
	case errors.As(f.err, &absent):
		f.code, f.details = codeItem, map[string]any{"bundle": absent.ID}
	case errors.As(f.err, &place):
		f.code, f.details = codeValidation, map[string]any{"source": place.Text}
	case errors.As(f.err, &merge), errors.As(f.err, &lockError):
		f.code, f.hint = "LOCK_MISMATCH", []string{"rye lock --resolve"}
	case errors.As(f.err, &std):
		f.code, f.hint = "LOCK_MISMATCH", []string{"rye lock --update " + lock.Library}
		f.message = fmt.Sprintf("this rye has another library than the lock: %s", counted(int64(len(std.Items)), "item"))
		var refs []string
		for _, it := range std.Items {
			refs = append(refs, it.Ref.String())
			_, why, _ := strings.Cut((&lock.StdError{Items: []lock.StdItem{it}}).Error(), ": ")
			f.why = append(f.why, why)
		}
		f.details = map[string]any{"reason": "library", "items": refs}
	case errors.As(f.err, &missing):
		f.missingObject(missing.ID.String(), missing.NeededBy)
	case errors.As(f.err, &refused):
		f.code, f.message = "LOCK_MISMATCH", fmt.Sprintf("the lock doesn't fit together: %s", counted(int64(len(refused.Problems)), "problem"))
		for i, p := range refused.Problems {
			if i == mostTold {
				f.why = append(f.why, fmt.Sprintf("and %d more", len(refused.Problems)-i))
				break
			}
			f.why = append(f.why, p.Error())
		}
		f.hint = []string{"rye lock --check", "rye lock --resolve"}
	case errors.As(f.err, &notLocked):
		f.code, f.hint, f.details = "NOT_LOCKED", []string{"rye lock"}, map[string]any{"ref": notLocked.Ref.String()}
	case errors.As(f.err, &mismatch):
		f.code, f.hint = "LOCK_MISMATCH", []string{"rye diff " + quoteArg(mismatch.Ref.String()), "rye lock", "rye restore " + quoteArg(mismatch.Ref.String())}
		f.details = map[string]any{"ref": mismatch.Ref.String(), "reason": mismatch.What, "expected": mismatch.Expected, "found": mismatch.Found}
	case errors.As(f.err, &pin), errors.As(f.err, &ofBundle), errors.As(f.err, &needs):
		f.code, f.hint = "LOCK_MISMATCH", []string{"rye lock"}
	case errors.As(f.err, &gone):
		f.missingObject(gone.IDs[0].String(), lockfile.Name)
	case errors.As(f.err, &damaged):
		f.code, f.hint = "INTEGRITY_FAILED", []string{"git restore .ai/vendor", "rye vendor"}
		f.details = map[string]any{"reason": "vendor", "file": damaged.File}
	default:
		return false
	}
	return true
}

// conflict tells both ways to what doesn't fit, each on a line, and the other problems there are.
func (f *fault) conflict(first *versions.ConflictError) {
	f.message = fmt.Sprintf("%q %s doesn't suit everybody", first.ID, first.Version)
	for _, way := range []versions.Path{first.Holds, first.Against} {
		if len(way) > 0 {
			f.why = append(f.why, way.String())
		}
	}
	f.others(first)
}

// others tells the other problems there are.
func (f *fault) others(first error) {
	if all, ok := f.err.(interface{ Unwrap() []error }); ok {
		for _, other := range all.Unwrap() {
			if other != first && len(f.why) < mostTold {
				f.why = append(f.why, toldBeside(other))
			}
		}
	}
}

// toldBeside is a problem as it is told on a line below another one: where nothing is to be had in the same words.
func toldBeside(err error) string {
	if none, ok := errors.AsType[*versions.NoVersionError](err); ok && none.Err != nil {
		return classify(err).message
	}
	return err.Error()
}

// noneForBoth tells that two requirements can't both be met, where for one of them there is no version at all, as when
// a directory has but one.
func (f *fault) noneForBoth(e *versions.NoVersionError) {
	last := e.Path[len(e.Path)-1]
	f.code, f.details = "CONFLICT", map[string]any{"reason": "versions", "bundle": last.ID, "version": e.Version}
	f.exit, f.hint = exitRefused, []string{"rye add " + last.ID + "@RANGE", "rye outdated"}
	f.message = fmt.Sprintf("%q %s doesn't suit everybody", last.ID, e.Version)
	f.why = []string{e.Holds.String(), e.Path.String(), fmt.Sprintf("no version is in %s, the newest is %s", last.Range, strings.Join(e.Newest, ", then "))}
	f.others(e)
}

// missingObject says that bytes aren't here, who needs them, and how to get them.
func (f *fault) missingObject(id, by string) {
	f.code, f.hint = codeItem, []string{"rye fetch"}
	f.details = map[string]any{"reason": "missing", "object": id, "needed_by": by}
	f.why = append(f.why, "neither .ai/vendor nor the store has it")
}

// closure tells all that keeps items from being locked; each is a line of the answer too.
func (f *fault) closure(e *closure.Error) {
	var codes []code
	for _, p := range e.Problems {
		c, _ := wordsFor(p.Err)
		codes = append(codes, c)
	}
	f.code, f.message = gravest(codes), fmt.Sprintf("the project can't be locked: %s", counted(int64(len(e.Problems)), "problem"))
	f.details = map[string]any{"problems": len(e.Problems)}
	if slices.ContainsFunc(e.Problems, func(p *closure.Problem) bool { return isDamaged(p.Err) }) {
		f.hint = []string{"rye vendor --check", "rye store fsck"}
		return
	}
	refs, ok := unsignedRefs(e)
	if !ok {
		f.hint = []string{"rye check", "rye verify '**'"}
		if e.Problems[0].Space == nil {
			f.hint = []string{"rye ls"}
		}
		return
	}
	unsigned := "rye lock --sign"
	for _, ref := range refs {
		unsigned += " " + quoteArg(ref)
	}
	f.hint = []string{unsigned}
	if ref := quoteArg(refs[0]); codes[0] == "INTEGRITY_FAILED" {
		f.hint = []string{"rye diff " + ref, unsigned, "rye restore " + ref}
	}
}

// unsignedRefs are the items that only lack a signature over what they are now; ok is false if anything else is wrong.
// These can be signed at once.
func unsignedRefs(err error) (refs []string, ok bool) {
	e, ok := errors.AsType[*closure.Error](err)
	if !ok {
		return nil, false
	}
	for _, p := range e.Problems {
		code := classify(p.Err).code
		if p.Ref == (model.Ref{}) || code != "UNSIGNED" && code != "INTEGRITY_FAILED" {
			return nil, false
		}
		refs = append(refs, p.Ref.String())
	}
	return refs, len(refs) > 0
}
