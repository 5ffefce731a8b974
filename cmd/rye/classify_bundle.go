package main

import (
	"errors"
	"fmt"
	"slices"

	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/bundle/archive"
	"github.com/rye-build/rye/bundle/create"
	"github.com/rye-build/rye/bundle/install"
	"github.com/rye-build/rye/bundle/legacy"
	"github.com/rye-build/rye/manifest/rollback"
)

// ofBundles recognises what the room bundle says. It looks before the others, since a bundle can be refused for many
// reasons at once, which stand below its errors.
func (f *fault) ofBundles() bool {
	var (
		refused  *install.RefusedError
		missing  *install.NotInstalledError
		pointer  *install.ManifestError
		first    *legacy.Error
		archived *archive.Error
		policy   *bundle.NotAdmittedError
		problems *create.RefusedError
		secret   *create.SecretError
		helper   *create.HelperError
		invalid  *create.InvalidError
		back     *rollback.Error
	)
	switch {
	case errors.As(f.err, &refused):
		f.refusedBundle(refused.Report)
	case errors.As(f.err, &missing):
		f.code, f.hint = codeItem, []string{"rye bundle list"}
		f.details = map[string]any{"bundle": missing.BundleID}
	case errors.As(f.err, &pointer):
		f.code, f.hint = "PARSING_ERROR", []string{"rye bundle install BUNDLE", "rye bundle remove BUNDLE"}
		f.details = map[string]any{"path": pointer.Path}
	case errors.As(f.err, &first):
		f.code, f.details = "PARSING_ERROR", map[string]any{"line": first.Line, "column": first.Column}
	case errors.As(f.err, &archived):
		f.code = "INTEGRITY_FAILED"
		f.hint = []string{"rye bundle export BUNDLE"}
		f.details = map[string]any{"reason": "archive", "offset": archived.Offset, "entry": archived.Entry}
	case errors.As(f.err, &policy):
		f.code = codeOf(policy.Decision.Code)
		f.details = map[string]any{"reason": policy.Decision.Code.String(), "name": policy.Name, "rule": policy.Decision.Rule}
		f.revoked(policy.Decision.Revoked, policy.Decision.List)
		f.hint = []string{"rye trust check " + quoteArg(policy.Name)}
	case errors.As(f.err, &problems):
		f.code = codeValidation
	case errors.As(f.err, &secret), errors.As(f.err, &helper), errors.As(f.err, &invalid),
		errors.Is(f.err, create.ErrEmpty), errors.Is(f.err, create.ErrEntrypoint), errors.Is(f.err, bundle.ErrNoTrust):
		f.code = codeValidation
	case errors.As(f.err, &back) && len(back.Step.Name) > 7 && back.Step.Name[:7] == "bundle:":
		f.code, f.details = "ROLLBACK_DETECTED", map[string]any{"reason": back.Reason(), "name": back.Step.Name, "version": back.Step.Position,
			"seen": back.Seen.Position, "manifest": back.Step.ID.String()}
		f.why = []string{"what is installed by name doesn't go back, and a version doesn't become another bundle"}
		if back.Reason() == rollback.Older {
			f.hint = []string{"rye bundle install " + back.Step.ID.String()}
		}
	default:
		return false
	}
	return true
}

// refusedBundle says why a bundle isn't taken: each failure, with the code of the gravest.
func (f *fault) refusedBundle(r *bundle.Report) {
	name := "bundle"
	if r.Bundle != nil {
		name = r.BundleID + "@" + r.Version
	}
	f.message = fmt.Sprintf("the bundle %q is refused: %s", name, counted(int64(len(r.Failures)), "failure"))
	lines, codes := []bundleFailure{}, []code{}
	for _, failure := range r.Failures {
		l := newBundleFailure(failure)
		lines, codes = append(lines, l), append(codes, l.Code)
		if len(lines) <= mostTold {
			f.why = append(append(f.why, l.text()), l.compared()...)
		}
	}
	if more := len(lines) - mostTold; more > 0 {
		f.why = append(f.why, fmt.Sprintf("and %d more", more))
	}
	f.code, f.details = gravest(codes), map[string]any{"failures": lines}
}

// mostTold is how many failures an error tells; all of them are in its details.
const mostTold = 10

// gravest is the worst of some codes.
func gravest(codes []code) (worst code) {
	order := []code{"INTEGRITY_FAILED", "SIGNATURE_INVALID", "KEY_REVOKED", "ROLLBACK_DETECTED", "POLICY_DENIED"}
	rank := func(c code) int {
		if i := slices.Index(order, c); i >= 0 {
			return i
		}
		return len(order)
	}
	for _, c := range codes {
		if worst == "" || rank(c) < rank(worst) {
			worst = c
		}
	}
	return worst
}
