package main

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"strings"

	repos "github.com/rye-build/rye/lock/git"
	"github.com/rye-build/rye/lock/index"
	versions "github.com/rye-build/rye/lock/resolve"
	sources "github.com/rye-build/rye/lock/source"
	"github.com/rye-build/rye/lock/web"
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
		revision  *repos.RevisionError
		path      *repos.PathError
		object    *repos.ObjectError
		large     *repos.LimitError
		old       *repos.VersionError
		said      *repos.Error
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
		f.listed(absent)
	case errors.As(f.err, &list):
		f.code = "PARSING_ERROR"
	case errors.As(f.err, &revision):
		f.code, f.details = codeItem, map[string]any{"url": revision.Address, "revision": revision.Revision}
		if revision.Both {
			f.code, f.hint = "AMBIGUOUS", []string{"git ls-remote " + quoteArg(revision.Address)}
			f.why = []string{"refs/heads/" + revision.Revision + " is the branch, refs/tags/" + revision.Revision + " the tag"}
		}
	case errors.As(f.err, &path):
		f.code, f.details = codeItem, map[string]any{"path": path.Path}
		if path.Reason != "" {
			f.code, f.details["reason"] = "INTEGRITY_FAILED", "not-a-file"
		}
	case errors.As(f.err, &object):
		f.code, f.details = "INTEGRITY_FAILED", map[string]any{"reason": "git-object", "object": object.Name}
	case errors.As(f.err, &large):
		f.code, f.details = "LIMIT_EXCEEDED", map[string]any{"limit": large.Limit}
	case errors.As(f.err, &old):
		f.code, f.details = "UNAVAILABLE", map[string]any{"program": "git", "found": old.Found}
	case errors.As(f.err, &said):
		f.code, f.details = "REGISTRY_ERROR", map[string]any{"url": said.Address, "status": said.Status}
		f.why = []string{"only https, without a password and without redirects, is asked"}
	default:
		return false
	}
	return true
}

// ofPlaces recognises that a place that rye.yaml names isn't what it is named for: there is no index, or no bundle.
func (f *fault) ofPlaces() bool {
	var source *sources.Error
	var file *fs.PathError
	if !errors.As(f.err, &source) || !errors.As(source.Err, &file) || !errors.Is(file, fs.ErrNotExist) {
		return false
	}
	id, ofBundle := strings.CutPrefix(file.Path, markerDir+"/bundles/")
	switch {
	case file.Path == index.File:
		f.message = fmt.Sprintf("%q is no index of bundles: there is no %s in it", source.Where, index.File)
		f.hint = []string{"rye bundle index " + quoteArg(source.Where) + " --name acme/bundles"}
	case ofBundle:
		id = strings.TrimSuffix(id, "/manifest.yaml")
		f.message = fmt.Sprintf("there is no bundle %q in %q", id, source.Where)
		f.why = []string{"a directory that a bundle comes from is the project in which it was made, with " + file.Path}
		f.hint = []string{"rye -C " + quoteArg(source.Where) + " bundle create " + quoteArg(id)}
	case !strings.Contains(source.Where, "://") && path.Base(source.Where) == filepath.Base(file.Path):
		f.gone(source)
		f.code, f.exit = codeItem, exitMissing
		f.details["path"] = file.Path
		return true
	default:
		return false
	}
	f.code, f.exit, f.details = codeItem, exitMissing, map[string]any{"source": source.Where, "path": file.Path}
	return true
}

// gone says that there is nothing any more where a bundle comes from, or a whole index.
func (f *fault) gone(source *sources.Error) {
	f.message = fmt.Sprintf("there is nothing at %q", source.Where)
	f.details = map[string]any{"source": source.Where}
	id := source.ID
	none, ofVersions := errors.AsType[*versions.NoVersionError](f.err)
	if ofVersions {
		id = none.Path[len(none.Path)-1].ID
		f.why = []string{none.Path.String()}
		defer f.others(none)
	}
	if id != "" {
		f.message = fmt.Sprintf("%q can't be had: %s", id, f.message)
		f.hint, f.details["bundle"] = []string{"rye add " + id + " --from PLACE"}, id
	}
}

// noVersion says why nothing of a bundle is to be had. An answer from the network names its address itself.
func (f *fault) noVersion(none *versions.NoVersionError) {
	id := none.Path[len(none.Path)-1].ID
	f.code, f.details, f.message = codeItem, map[string]any{"bundle": id}, none.Error()
	var (
		unlisted *sources.NotListedError
		answer   *web.Error
	)
	switch {
	case errors.As(none, &answer):
		f.message, f.why = fmt.Sprintf("%q can't be had: %v", id, answer), []string{none.Path.String()}
		f.hint = []string{"rye add " + id + " --from PLACE"}
	case errors.As(none, &unlisted) && len(unlisted.Indexes) == 0:
		f.hint = []string{"rye add " + unlisted.ID + " --index PLACE", "rye add " + unlisted.ID + " --from PLACE"}
	case unlisted != nil:
		f.listed(unlisted)
	}
	f.others(none)
}

// listed says which bundle of an index is meant perhaps.
func (f *fault) listed(e *sources.NotListedError) {
	if meant := near(e.ID, e.Listed); len(meant) > 0 {
		f.why = append(f.why, "did you mean "+strings.Join(meant, ", ")+"?")
		f.details["did_you_mean"] = meant
	}
}
