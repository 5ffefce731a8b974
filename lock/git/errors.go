package git

import (
	"errors"
	"io/fs"

	"github.com/rye-build/rye/cas/fault"
)

// errTime is the cause of a fetch's deadline.
var errTime = fault.New(fault.Timeout, "git took longer than %s", maxTime)

// commandError is the error for a failure of git. The text comes from git, and may come from a server.
func commandError(address, command string, status int, text string) error {
	return fault.New(fault.Registry, "git %s failed (exit status %d): %+q", command, status, text).On("url",
		address).On("status", status).
		Because("rye lets git use https only, without passwords and redirects")
}

func versionError(found string) error {
	return fault.New(fault.Unavailable, "git %d.%d or newer is required, found %+q", firstMajor, firstMinor,
		found).On("program", "git").On("found", found)
}

// revisionError is the error for a branch or tag that a repository does not have. It is fs.ErrNotExist.
func revisionError(address, revision string) error {
	e := fault.New(fault.NotFound, "the repository has no branch or tag %+q", revision).From(fs.ErrNotExist).On("url",
		address).On("revision", revision)
	if revision == "" {
		e.Text = "the repository is empty"
	}
	return e
}

// ambiguousError is the error for a name of both a branch and a tag, with different commits.
func ambiguousError(address, revision string) error {
	return fault.New(fault.Ambiguous, "%+q is both a branch and a tag, with different commits", revision).On("url",
		address).On("revision", revision).
		Because("refs/heads/" + revision + " is the branch, refs/tags/" + revision + " is the tag").
		Try(fault.Command("git ls-remote", address))
}

// pathError is the error for a path of a commit. Without a reason the path does not exist, and the error is
// fs.ErrNotExist.
func pathError(path, reason string) error {
	if reason == "" {
		return fault.New(fault.NotFound, "the commit has no file %+q", path).From(fs.ErrNotExist).On("path", path)
	}
	return fault.New(fault.Integrity, "%+q is %s", path, reason).On("path", path).On("reason", "not-a-file")
}

// objectError is the error for an object that is missing, damaged or not the requested one.
func objectError(name string, err error) error {
	return fault.New(fault.Integrity, "git object %s: %v", name, err).From(err).On("reason", "git-object").On("object",
		name)
}

func limitError(what string, limit int64) error {
	return fault.New(fault.Limit, "%s: more than %d bytes", what, limit).On("limit", limit)
}

var (
	errHash    = errors.New("the content does not match its hash")
	errMissing = errors.New("missing")
	errAnswer  = errors.New("unexpected output of git cat-file")
	errLong    = errors.New("too long")
	errTree    = errors.New("invalid tree")
	errCommit  = errors.New("invalid commit")
)
