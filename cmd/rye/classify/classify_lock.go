package classify

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/near"
	"github.com/rye-build/rye/lock"
	"github.com/rye-build/rye/lock/closure"
	lockfile "github.com/rye-build/rye/lock/file"
	ryeyaml "github.com/rye-build/rye/lock/project"
	versions "github.com/rye-build/rye/lock/resolve"
	"github.com/rye-build/rye/lock/vendor"
)

// ofLocks recognises what the room lock says.
func ofLocks(f *fault.Error) bool {
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
	if ofPackages(f) {
		return true
	}
	switch {
	case errors.As(f.Err, &closed):
		ofClosure(f, closed)
	case errors.As(f.Err, &conflict):
		f.Code, f.Details = fault.Conflict, map[string]any{"reason": "versions", "bundle": conflict.ID, "version": conflict.Version}
		f.Exit, f.Final, f.Hint = fault.ExitRefused, true, []string{"rye add " + conflict.ID + "@RANGE", "rye outdated"}
		ofConflict(f, conflict)
	case errors.As(f.Err, &none) && len(none.Holds) > 0:
		noneForBoth(f, none)
	case errors.As(f.Err, &none):
		noVersion(f, none)
	case errors.As(f.Err, &circle), errors.As(f.Err, &round):
		f.Code = fault.Circular
	case errors.As(f.Err, &limit):
		f.Code = fault.Limit
	case errors.As(f.Err, &unused):
		f.Code, f.Details = fault.NotFound, map[string]any{"bundle": unused.ID}
		if meant := near.Names(unused.ID, unused.Used); len(meant) > 0 {
			f.Why, f.Details["did_you_mean"] = []string{"did you mean " + meant[0] + "?"}, meant
		}
	case errors.As(f.Err, &absent):
		f.Code, f.Details = fault.NotFound, map[string]any{"bundle": absent.ID}
	case errors.As(f.Err, &place):
		f.Code, f.Details = fault.Validation, map[string]any{"source": place.Text}
	case errors.As(f.Err, &merge), errors.As(f.Err, &lockError):
		f.Code, f.Hint = fault.LockMismatch, []string{"rye lock --resolve"}
	case errors.As(f.Err, &std):
		f.Code, f.Hint = fault.LockMismatch, []string{"rye lock --update " + lock.Library}
		f.Text = fmt.Sprintf("this rye has another library than the lock: %s", fault.Count(int64(len(std.Items)), "item"))
		var refs []string
		for _, it := range std.Items {
			refs = append(refs, it.Ref.String())
			_, why, _ := strings.Cut((&lock.StdError{Items: []lock.StdItem{it}}).Error(), ": ")
			f.Why = append(f.Why, why)
		}
		f.Details = map[string]any{"reason": "library", "items": refs}
	case errors.As(f.Err, &missing):
		missingObject(f, missing.ID.String(), missing.NeededBy)
	case errors.As(f.Err, &refused):
		f.Code, f.Text = fault.LockMismatch, fmt.Sprintf("the lock doesn't fit together: %s", fault.Count(int64(len(refused.Problems)), "problem"))
		for i, p := range refused.Problems {
			if i == fault.MaxLines {
				f.Why = append(f.Why, fmt.Sprintf("and %d more", len(refused.Problems)-i))
				break
			}
			f.Why = append(f.Why, p.Error())
		}
		f.Hint = []string{"rye lock --check", "rye lock --resolve"}
	case errors.As(f.Err, &notLocked):
		f.Code, f.Hint, f.Details = fault.NotLocked, []string{"rye lock"}, map[string]any{"ref": notLocked.Ref.String()}
	case errors.As(f.Err, &mismatch):
		f.Code, f.Hint = fault.LockMismatch, []string{"rye diff " + fault.Quote(mismatch.Ref.String()), "rye lock", "rye restore " + fault.Quote(mismatch.Ref.String())}
		f.Details = map[string]any{"ref": mismatch.Ref.String(), "reason": mismatch.What, "expected": mismatch.Expected, "found": mismatch.Found}
	case errors.As(f.Err, &pin), errors.As(f.Err, &ofBundle), errors.As(f.Err, &needs):
		f.Code, f.Hint = fault.LockMismatch, []string{"rye lock"}
	case errors.As(f.Err, &gone):
		missingObject(f, gone.IDs[0].String(), lockfile.Name)
	case errors.As(f.Err, &damaged):
		f.Code, f.Hint = fault.Integrity, []string{"git restore .ai/vendor", "rye vendor"}
		f.Details = map[string]any{"reason": "vendor", "file": damaged.File}
	default:
		return false
	}
	return true
}

// ofConflict tells both ways to what doesn't fit, each on a line, and the other problems there are.
func ofConflict(f *fault.Error, first *versions.ConflictError) {
	f.Text = fmt.Sprintf("%q %s doesn't suit everybody", first.ID, first.Version)
	for _, way := range []versions.Path{first.Holds, first.Against} {
		if len(way) > 0 {
			f.Why = append(f.Why, way.String())
		}
	}
	addOthers(f, first)
}

// addOthers tells the other problems there are.
func addOthers(f *fault.Error, first error) {
	if all, ok := f.Err.(interface{ Unwrap() []error }); ok {
		for _, other := range all.Unwrap() {
			if other != first && len(f.Why) < fault.MaxLines {
				f.Why = append(f.Why, toldBeside(other))
			}
		}
	}
}

// toldBeside is a problem as it is told on a line below another one: where nothing is to be had in the same words.
func toldBeside(err error) string {
	if none, ok := errors.AsType[*versions.NoVersionError](err); ok && none.Err != nil {
		return Classify(err).Text
	}
	return err.Error()
}

// noneForBoth tells that two requirements can't both be met, where for one of them there is no version at all, as when
// a directory has but one.
func noneForBoth(f *fault.Error, e *versions.NoVersionError) {
	last := e.Path[len(e.Path)-1]
	f.Code, f.Details = fault.Conflict, map[string]any{"reason": "versions", "bundle": last.ID, "version": e.Version}
	f.Exit, f.Hint = fault.ExitRefused, []string{"rye add " + last.ID + "@RANGE", "rye outdated"}
	f.Text = fmt.Sprintf("%q %s doesn't suit everybody", last.ID, e.Version)
	f.Why = []string{e.Holds.String(), e.Path.String(), fmt.Sprintf("no version is in %s, the newest is %s", last.Range, strings.Join(e.Newest, ", then "))}
	addOthers(f, e)
}

// missingObject says that bytes aren't here, who needs them, and how to get them.
func missingObject(f *fault.Error, id, by string) {
	f.Code, f.Hint = fault.NotFound, []string{"rye fetch"}
	f.Details = map[string]any{"reason": "missing", "object": id, "needed_by": by}
	f.Why = append(f.Why, "neither .ai/vendor nor the store has it")
}

// ofClosure tells all that keeps items from being locked; each is a line of the answer too.
func ofClosure(f *fault.Error, e *closure.Error) {
	var codes []fault.Code
	for _, p := range e.Problems {
		c, _ := WordsFor(p.Err)
		codes = append(codes, c)
	}
	f.Code, f.Text = fault.Gravest(codes), fmt.Sprintf("the project can't be locked: %s", fault.Count(int64(len(e.Problems)), "problem"))
	f.Details = map[string]any{"problems": len(e.Problems)}
	if slices.ContainsFunc(e.Problems, func(p *closure.Problem) bool { return IsDamaged(p.Err) }) {
		f.Hint = []string{"rye vendor --check", "rye store fsck"}
		return
	}
	refs, ok := UnsignedRefs(e)
	if !ok {
		f.Hint = []string{"rye check", "rye verify '**'"}
		if e.Problems[0].Space == nil {
			f.Hint = []string{"rye ls"}
		}
		return
	}
	unsigned := "rye lock --sign"
	for _, ref := range refs {
		unsigned += " " + fault.Quote(ref)
	}
	f.Hint = []string{unsigned}
	if ref := fault.Quote(refs[0]); codes[0] == fault.Integrity {
		f.Hint = []string{"rye diff " + ref, unsigned, "rye restore " + ref}
	}
}

// UnsignedRefs are the items that only lack a signature over what they are now; ok is false if anything else is wrong.
// These can be signed at once.
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
