package classify

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/disk"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/cas/worktree"
)

// Classify gives an error its code, cause and hint, where the room below doesn't yet.
func Classify(err error) *fault.Error {
	if f, ok := fault.Find(err); ok {
		return f
	}
	f := &fault.Error{Code: fault.Unknown, Text: err.Error(), Err: err}
	var busy *osfile.BusyError
	switch {
	case errors.As(err, &busy):
		f.Code, f.Details = fault.Busy, map[string]any{"path": busy.Path}
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return fault.Of(err)
	default:
		if !ofPlaces(f) && !ofAudit(f) && !ofSecrets(f) && !ofBuilds(f) && !ofCalls(f) && !ofLocks(f) && !ofSources(f) && !ofBundles(f) && !ofWeb(f) &&
			!ofItems(f) && !ofStore(f) && !ofTrust(f) && !ofDocuments(f) {
			return fault.Of(err)
		}
	}
	return f
}

// ofStore recognises what the rooms cas, cas/disk and cas/worktree say.
func ofStore(f *fault.Error) bool {
	var (
		damaged  *cas.DamagedError
		missing  *cas.MissingError
		tree     *cas.TreeError
		version  *disk.VersionError
		readOnly *disk.ReadOnlyError
		conflict *disk.ConflictError
		ref      *disk.RefError
		doomed   *disk.DoomedError
		refused  *worktree.RefusedError
		changed  *worktree.ChangedError
		place    *worktree.DestinationError
		limit    *worktree.LimitError
		walk     *cas.LimitError
	)
	switch {
	case errors.As(f.Err, &missing):
		f.Code, f.Hint = fault.NotFound, []string{"rye store fsck"}
	case errors.As(f.Err, &damaged):
		f.Code, f.Hint = fault.Integrity, []string{"rye store fsck", "rye store fsck --repair-from DIR"}
		f.Details = map[string]any{"kind": damaged.ID.Kind.String(), "expected": damaged.ID.Digest.String()}
		f.Why = []string{"expected  " + damaged.ID.Digest.String()}
		f.Text = fmt.Sprintf("%s %s is damaged", damaged.ID.Kind, damaged.ID.Digest.Short())
		if !damaged.Found.IsZero() {
			f.Details["found"] = damaged.Found.String()
			f.Why = append(f.Why, "found     "+damaged.Found.String())
		} else if damaged.Err != nil {
			f.Why = append(f.Why, damaged.Err.Error())
		}
	case errors.As(f.Err, &tree):
		f.Code = fault.Integrity
	case errors.As(f.Err, &version):
		f.Code, f.Hint = fault.VersionMismatch, []string{"rye version"}
	case errors.As(f.Err, &readOnly):
		f.Code = fault.Files
	case errors.As(f.Err, &conflict):
		f.Code, f.Hint = fault.Conflict, []string{"rye store refs " + fault.Quote(conflict.Name)}
	case errors.As(f.Err, &ref):
		if f.Code = fault.Integrity; !errors.Is(ref, disk.ErrRefFile) {
			f.Hint = []string{"rye store refs " + fault.Quote(ref.Name) + " --set OBJECT"}
		}
	case errors.As(f.Err, &doomed):
		f.Code, f.Hint = fault.Integrity, []string{"rm " + fault.Quote(doomed.Path), "rye store gc --grace 0s"}
	case errors.Is(f.Err, disk.ErrNoStore):
		f.Code, f.Hint = fault.Config, []string{"rye config --explain"}
	case errors.Is(f.Err, disk.ErrFormat):
		f.Code, f.Hint = fault.Integrity, []string{"rye store fsck", "rye store reindex"}
	case errors.Is(f.Err, disk.ErrRefName):
		f.Code = fault.Validation
	case errors.As(f.Err, &refused):
		f.Code = fault.Validation
		f.Text = "not everything here can stand in a tree"
		f.Why = strings.Split(refused.Error(), "\n")
	case errors.As(f.Err, &changed):
		f.Code = fault.Conflict
	case errors.As(f.Err, &place):
		f.Code = fault.Denied
	case errors.As(f.Err, &limit), errors.As(f.Err, &walk):
		f.Code = fault.Limit
	default:
		return false
	}
	return true
}
