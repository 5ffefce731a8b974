package find

import (
	"cmp"
	"errors"
	"slices"

	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/manifest/policy"
)

// Hints returns at most four commands that explain the failures of a bundle or fix them. byPolicy means that a policy
// decided, not the keys of a command line.
func (f *Found) Hints(all []*bundle.Failure, byPolicy bool) (hints []string) {
	for _, failed := range all {
		switch failed.Check {
		case bundle.CheckSignatures:
			if !byPolicy {
				hints = append(hints, f.InspectHint()...)
				break
			}
			hints = append(hints, "rye trust check "+fault.Quote("bundle:"+f.ID))
		case bundle.CheckExtra:
			name := f.ID
			if f.Where == InArchive {
				name = f.Place
			}
			hints = append(hints, "rye bundle verify "+fault.Quote(name)+" --allow-extra")
		case bundle.CheckParts:
			hints = append(hints, "rye docs plugins")
		case bundle.CheckProof:
			hints = append(hints, "rye docs registry-trust")
		case bundle.CheckEvidence:
			if no, ok := errors.AsType[*bundle.NotAdmittedError](failed.Err); ok && failed.Path != "" &&
				no.Decision.Code == policy.BelowThreshold {
				hints = append(hints, fault.Command("rye bundle cosign", f.ID, "--statement", failed.Path))
			}
		}
		if f.Where == InProject && (byPolicy || failed.Check != bundle.CheckItem) {
			hints = append(hints, f.mends(failed)...)
		}
		if failed.OnlyLineEndings {
			hints = append(hints, "echo '.ai/** -text' >> .gitattributes")
		}
	}
	slices.Sort(hints)
	hints = slices.Compact(hints)
	return hints[:min(len(hints), 4)]
}

// InspectHint returns the command that shows who signed the bundle.
func (f *Found) InspectHint() []string {
	switch {
	case f.Place == StandardInput:
		return nil // standard input can be read only once
	case f.Where == InProject, f.Where == InArchive:
		return []string{"rye bundle inspect " + fault.Quote(f.Place)}
	}
	return []string{"rye bundle inspect " + fault.Quote(f.ID)}
}

// mends returns the commands that fix a bundle of the project.
func (f *Found) mends(failed *bundle.Failure) []string {
	switch failed.Check {
	case bundle.CheckItem:
		return []string{"rye verify " + fault.Quote(cmp.Or(failed.Ref, failed.Path))}
	case bundle.CheckDigest, bundle.CheckSize, bundle.CheckMode, bundle.CheckMissing, bundle.CheckVersion:
		return []string{"rye bundle create " + fault.Quote(f.ID)}
	case bundle.CheckEvidence:
		switch failed.Expected {
		case bundle.SBOM:
			return []string{"rye bundle sbom " + fault.Quote(f.ID) + " --embed"}
		case bundle.Provenance:
			return []string{"rye bundle attest " + fault.Quote(f.ID) + " --embed"}
		}
	}
	return nil
}
