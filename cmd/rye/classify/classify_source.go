package classify

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"strings"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/near"
	repos "github.com/rye-build/rye/lock/git"
	"github.com/rye-build/rye/lock/index"
	versions "github.com/rye-build/rye/lock/resolve"
	sources "github.com/rye-build/rye/lock/source"
	"github.com/rye-build/rye/lock/web"
	"github.com/rye-build/rye/lock/workspace"
)

// ofSources recognises what the rooms lock/index and lock/source say.
func ofSources(f *fault.Error) bool {
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
	case errors.As(f.Err, &ambiguous):
		f.Code, f.Details = fault.Ambiguous, map[string]any{"bundle": ambiguous.ID, "indexes": ambiguous.Indexes}
		f.Why = []string{"whoever may publish in one of them could take the name of a bundle of the other: rye.yaml decides"}
		for _, where := range ambiguous.Indexes {
			f.Hint = append(f.Hint, "rye add "+ambiguous.ID+" --index "+fault.Quote(where))
		}
	case errors.As(f.Err, &offline):
		f.Code, f.Details = fault.Offline, map[string]any{"url": offline.Address}
		if offline.ID != "" {
			f.Details["bundle"], f.Details["version"] = offline.ID, offline.Version
		}
		missing := []string{}
		for _, id := range offline.Missing {
			missing = append(missing, id.String())
		}
		f.Details["missing"] = missing
		f.Hint = []string{"rye fetch"}
	case errors.As(f.Err, &other):
		f.Code, f.Why = fault.Integrity, []string{"expected  " + other.Expected, "found     " + other.Found}
		f.Details = map[string]any{"reason": "other-bundle", "what": other.What, "expected": other.Expected, "found": other.Found}
	case errors.As(f.Err, &size):
		f.Code, f.Details = fault.Integrity, map[string]any{"reason": "archive-size", "expected": size.Expected, "found": size.Found}
	case errors.As(f.Err, &renamed):
		f.Code, f.Details = fault.Rollback, map[string]any{"reason": "renamed", "expected": renamed.Seen, "found": renamed.Found}
		f.Why = []string{"an index keeps its name: another one in its place would begin a count of its own"}
	case errors.As(f.Err, &absent):
		f.Code, f.Details = fault.NotFound, map[string]any{"bundle": absent.ID, "version": absent.Version, "indexes": append([]string{}, absent.Indexes...)}
		indexLacks(f, absent)
	case errors.As(f.Err, &list):
		f.Code = fault.Parsing
	case errors.As(f.Err, &revision):
		f.Code, f.Details = fault.NotFound, map[string]any{"url": revision.Address, "revision": revision.Revision}
		if revision.Both {
			f.Code, f.Hint = fault.Ambiguous, []string{"git ls-remote " + fault.Quote(revision.Address)}
			f.Why = []string{"refs/heads/" + revision.Revision + " is the branch, refs/tags/" + revision.Revision + " the tag"}
		}
	case errors.As(f.Err, &path):
		f.Code, f.Details = fault.NotFound, map[string]any{"path": path.Path}
		if path.Reason != "" {
			f.Code, f.Details["reason"] = fault.Integrity, "not-a-file"
		}
	case errors.As(f.Err, &object):
		f.Code, f.Details = fault.Integrity, map[string]any{"reason": "git-object", "object": object.Name}
	case errors.As(f.Err, &large):
		f.Code, f.Details = fault.Limit, map[string]any{"limit": large.Limit}
	case errors.As(f.Err, &old):
		f.Code, f.Details = fault.Unavailable, map[string]any{"program": "git", "found": old.Found}
	case errors.As(f.Err, &said):
		f.Code, f.Details = fault.Registry, map[string]any{"url": said.Address, "status": said.Status}
		f.Why = []string{"only https, without a password and without redirects, is asked"}
	default:
		return false
	}
	return true
}

// ofPlaces recognises that a place that rye.yaml names isn't what it is named for: there is no index, or no bundle.
func ofPlaces(f *fault.Error) bool {
	var source *sources.Error
	var file *fs.PathError
	if !errors.As(f.Err, &source) || !errors.As(source.Err, &file) || !errors.Is(file, fs.ErrNotExist) {
		return false
	}
	id, ofBundle := strings.CutPrefix(file.Path, workspace.MarkerDir+"/bundles/")
	switch {
	case file.Path == index.File:
		f.Text = fmt.Sprintf("%q is no index of bundles: there is no %s in it", source.Where, index.File)
		f.Hint = []string{"rye bundle index " + fault.Quote(source.Where) + " --name acme/bundles"}
	case ofBundle:
		id = strings.TrimSuffix(id, "/manifest.yaml")
		f.Text = fmt.Sprintf("there is no bundle %q in %q", id, source.Where)
		f.Why = []string{"a directory that a bundle comes from is the project in which it was made, with " + file.Path}
		f.Hint = []string{"rye -C " + fault.Quote(source.Where) + " bundle create " + fault.Quote(id)}
	case !strings.Contains(source.Where, "://") && path.Base(source.Where) == filepath.Base(file.Path):
		ofGone(f, source)
		f.Code, f.Exit = fault.NotFound, fault.ExitMissing
		f.Details["path"] = file.Path
		return true
	default:
		return false
	}
	f.Code, f.Exit, f.Details = fault.NotFound, fault.ExitMissing, map[string]any{"source": source.Where, "path": file.Path}
	return true
}

// ofGone says that there is nothing any more where a bundle comes from, or a whole index.
func ofGone(f *fault.Error, source *sources.Error) {
	f.Text = fmt.Sprintf("there is nothing at %q", source.Where)
	f.Details = map[string]any{"source": source.Where}
	id := source.ID
	none, ofVersions := errors.AsType[*versions.NoVersionError](f.Err)
	if ofVersions {
		id = none.Path[len(none.Path)-1].ID
		f.Why = []string{none.Path.String()}
		defer addOthers(f, none)
	}
	if id != "" {
		f.Text = fmt.Sprintf("%q can't be had: %s", id, f.Text)
		f.Hint, f.Details["bundle"] = []string{"rye add " + id + " --from PLACE"}, id
	}
}

// noVersion says why nothing of a bundle is to be had. An answer from the network names its address itself.
func noVersion(f *fault.Error, none *versions.NoVersionError) {
	id := none.Path[len(none.Path)-1].ID
	f.Code, f.Details, f.Text = fault.NotFound, map[string]any{"bundle": id}, none.Error()
	var (
		unlisted *sources.NotListedError
		answer   *web.Error
	)
	switch {
	case errors.As(none, &answer):
		f.Text, f.Why = fmt.Sprintf("%q can't be had: %v", id, answer), []string{none.Path.String()}
		f.Hint = []string{"rye add " + id + " --from PLACE"}
	case errors.As(none, &unlisted) && len(unlisted.Indexes) == 0:
		f.Hint = []string{"rye add " + unlisted.ID + " --index PLACE", "rye add " + unlisted.ID + " --from PLACE"}
	case unlisted != nil:
		indexLacks(f, unlisted)
	}
	addOthers(f, none)
}

// indexLacks says which bundle of an index is meant perhaps.
func indexLacks(f *fault.Error, e *sources.NotListedError) {
	if meant := near.Names(e.ID, e.Listed); len(meant) > 0 {
		f.Why = append(f.Why, "did you mean "+strings.Join(meant, ", ")+"?")
		f.Details["did_you_mean"] = meant
	}
}
