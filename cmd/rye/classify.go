package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/disk"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/cas/worktree"
)

// classify gives an error its code, cause and hint. It is the one place that knows the errors of the rooms
// below; an error that is a fault already passes unchanged.
func classify(err error) *fault {
	var f *fault
	if errors.As(err, &f) {
		return f
	}
	f = &fault{code: codeUnknown, message: err.Error(), err: err}
	var busy *osfile.BusyError
	switch {
	case errors.As(err, &busy):
		f.code, f.details = "BUSY", map[string]any{"path": busy.Path}
	case errors.Is(err, context.Canceled):
		f.code, f.message = codeCancelled, "interrupted"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		f.code = codeTimeout
	default:
		if !f.ofPlaces() && !f.ofAudit() && !f.ofSecrets() && !f.ofBuilds() && !f.ofCalls() && !f.ofLocks() && !f.ofSources() && !f.ofBundles() && !f.ofWeb() &&
			!f.ofItems() && !f.ofStore() && !f.ofTrust() && !f.ofDocuments() {
			f.system()
		}
	}
	return f
}

// ofStore recognises what the rooms cas, cas/disk and cas/worktree say.
func (f *fault) ofStore() bool {
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
	case errors.As(f.err, &missing):
		f.code, f.hint = codeItem, []string{"rye store fsck"}
	case errors.As(f.err, &damaged):
		f.code, f.hint = "INTEGRITY_FAILED", []string{"rye store fsck", "rye store fsck --repair-from DIR"}
		f.details = map[string]any{"kind": damaged.ID.Kind.String(), "expected": damaged.ID.Digest.String()}
		f.why = []string{"expected  " + damaged.ID.Digest.String()}
		f.message = fmt.Sprintf("%s %s is damaged", damaged.ID.Kind, damaged.ID.Digest.Short())
		if !damaged.Found.IsZero() {
			f.details["found"] = damaged.Found.String()
			f.why = append(f.why, "found     "+damaged.Found.String())
		} else if damaged.Err != nil {
			f.why = append(f.why, damaged.Err.Error())
		}
	case errors.As(f.err, &tree):
		f.code = "INTEGRITY_FAILED"
	case errors.As(f.err, &version):
		f.code, f.hint = "VERSION_MISMATCH", []string{"rye version"}
	case errors.As(f.err, &readOnly):
		f.code = codeFiles
	case errors.As(f.err, &conflict):
		f.code, f.hint = "CONFLICT", []string{"rye store refs " + quoteArg(conflict.Name)}
	case errors.As(f.err, &ref):
		if f.code = "INTEGRITY_FAILED"; !errors.Is(ref, disk.ErrRefFile) {
			f.hint = []string{"rye store refs " + quoteArg(ref.Name) + " --set OBJECT"}
		}
	case errors.As(f.err, &doomed):
		f.code, f.hint = "INTEGRITY_FAILED", []string{"rm " + quoteArg(doomed.Path), "rye store gc --grace 0s"}
	case errors.Is(f.err, disk.ErrNoStore):
		f.code, f.hint = codeConfig, []string{"rye config --explain"}
	case errors.Is(f.err, disk.ErrFormat):
		f.code, f.hint = "INTEGRITY_FAILED", []string{"rye store fsck", "rye store reindex"}
	case errors.Is(f.err, disk.ErrRefName):
		f.code = codeValidation
	case errors.As(f.err, &refused):
		f.code = codeValidation
		f.message = "not everything here can stand in a tree"
		f.why = strings.Split(refused.Error(), "\n")
	case errors.As(f.err, &changed):
		f.code = "CONFLICT"
	case errors.As(f.err, &place):
		f.code = codeDenied
	case errors.As(f.err, &limit), errors.As(f.err, &walk):
		f.code = "LIMIT_EXCEEDED"
	default:
		return false
	}
	return true
}

// system recognises what the operating system has said.
func (f *fault) system() {
	var path *fs.PathError
	var link *os.LinkError
	var number syscall.Errno
	ofFile := errors.As(f.err, &path) || errors.As(f.err, &link)
	if errors.Is(f.err, fs.ErrNotExist) {
		f.code, f.exit = codeItem, exitMissing
		if ofFile {
			f.code = codeFiles
		}
		if path != nil && f.err == error(path) && f.message == path.Error() { // nothing around it says more
			f.message, f.details = fmt.Sprintf("there is no file %q", path.Path), map[string]any{"path": path.Path}
			if dir := filepath.Dir(path.Path); dir != "." && noPlace(path.Path, path.Path) != nil {
				f.message = fmt.Sprintf("there is no directory %q", dir)
			}
		}
		return
	}
	if !ofFile && !errors.As(f.err, &number) {
		return
	}
	f.code = codeFiles
	if path != nil {
		f.details = map[string]any{"path": path.Path}
	}
	for _, c := range systemCauses() {
		if errors.Is(f.err, c.err) {
			f.why = append(f.why, c.cause)
			f.hint = append(f.hint, c.hint...)
			return
		}
	}
}

type systemCause struct {
	err   error
	cause string
	hint  []string
}

// systemCauses says plainly what the common refusals of an operating system mean.
func systemCauses() []systemCause {
	return []systemCause{
		{syscall.ENOSPC, "the disk is full", []string{"df -h"}},
		{syscall.EDQUOT, "the disk quota is used up", []string{"quota"}},
		{syscall.EFBIG, "a file may not be so large here", []string{"ulimit -f"}},
		{syscall.EROFS, "the file system is read-only", nil},
		{syscall.EMFILE, "too many files are open in this process", []string{"ulimit -n 4096"}},
		{syscall.ENFILE, "too many files are open on this machine", nil},
		{syscall.EIO, "the disk reports an error: look at the kernel's log before anything else", nil},
		{syscall.ENOTDIR, "a file stands where a directory is needed", nil},
		{syscall.ELOOP, "symbolic links lead in a circle", nil},
		{syscall.ENAMETOOLONG, "the name is too long for this file system", nil},
		{fs.ErrPermission, "this user has no permission", []string{"rye doctor"}},
	}
}
