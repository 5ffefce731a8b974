package main

import (
	"errors"

	"github.com/rye-build/rye/lock/index"
	sources "github.com/rye-build/rye/lock/source"
)

// ofSources recognises what the rooms lock/index and lock/source say.
func (f *fault) ofSources() bool {
	var (
		list      *index.Error
		absent    *sources.NotListedError
		ambiguous *sources.AmbiguousSourceError
		offline   *sources.OfflineError
		other     *sources.MismatchError
		size      *sources.SizeError
		renamed   *sources.RenamedError
	)
	switch {
	case errors.As(f.err, &ambiguous):
		f.code, f.details = "AMBIGUOUS", map[string]any{"bundle": ambiguous.ID, "indexes": ambiguous.Indexes}
		f.why = []string{"whoever may publish in one of them could take the name of a bundle of the other: rye.yaml decides"}
		for _, where := range ambiguous.Indexes {
			f.hint = append(f.hint, "rye add "+ambiguous.ID+" --index "+quoteArg(where))
		}
	case errors.As(f.err, &offline):
		f.code, f.details = "OFFLINE", map[string]any{"url": offline.Address}
		if offline.ID != "" {
			f.details["bundle"], f.details["version"] = offline.ID, offline.Version
		}
		missing := []string{}
		for _, id := range offline.Missing {
			missing = append(missing, id.String())
		}
		f.details["missing"] = missing
		f.hint = []string{"rye fetch"}
	case errors.As(f.err, &other):
		f.code, f.why = "INTEGRITY_FAILED", []string{"expected  " + other.Expected, "found     " + other.Found}
		f.details = map[string]any{"reason": "other-bundle", "what": other.What, "expected": other.Expected, "found": other.Found}
	case errors.As(f.err, &size):
		f.code, f.details = "INTEGRITY_FAILED", map[string]any{"reason": "archive-size", "expected": size.Expected, "found": size.Found}
	case errors.As(f.err, &renamed):
		f.code, f.details = "ROLLBACK_DETECTED", map[string]any{"reason": "renamed", "expected": renamed.Seen, "found": renamed.Found}
		f.why = []string{"an index keeps its name: another one in its place would begin a count of its own"}
	case errors.As(f.err, &absent):
		f.code, f.details = codeItem, map[string]any{"bundle": absent.ID, "version": absent.Version, "indexes": append([]string{}, absent.Indexes...)}
	case errors.As(f.err, &list):
		f.code = "PARSING_ERROR"
	default:
		return false
	}
	return true
}
