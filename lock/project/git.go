package project

import (
	"fmt"
	"strings"

	"github.com/rye-build/rye/cas/portable"
)

// A Git is a source that is a git repository.
type Git struct {
	Address  string // https, without a query
	Dir      string // of the project in the repository; "" is the top
	Revision string // a full commit id, a branch or a tag; "" is HEAD
}

const (
	gitPrefix   = "git+"
	gitDir      = "dir="
	maxRevision = 200
)

// Git returns the repository that a source names; false if it isn't one.
func (s Source) Git() (Git, bool) {
	if s.Index || !strings.HasPrefix(s.Where, gitPrefix) {
		return Git{}, false
	}
	g, _ := splitGit(s.Where)
	return g, true
}

// Pinned reports whether the revision is a commit, which can't change.
func (g Git) Pinned() bool { return IsCommit(g.Revision) }

// At returns the source of the same place at another revision.
func (g Git) At(revision string) Source {
	where := gitPrefix + g.Address
	if g.Dir != "" {
		where += "?" + gitDir + g.Dir
	}
	if revision != "" {
		where += "@" + revision
	}
	return Source{Where: where}
}

// Pinned reports whether a lock may name this source for a bundle: it isn't a repository, or has a commit or digest.
func (s Source) Pinned() bool {
	if r, image := s.OCI(); image {
		return r.Digest != ""
	}
	g, ok := s.Git()
	return !ok || g.Pinned()
}

// Allows reports whether a locked bundle from another source satisfies this one: the sources are equal, or this one
// names a branch or tag of the same repository.
func (s Source) Allows(from Source) bool {
	asked, image := s.OCI()
	found, _ := from.OCI()
	if image && asked.Tag != "" && asked.Tag != found.Tag {
		return false
	}
	return s == from || s.SamePlace(from) && !s.Pinned() && from.Pinned()
}

// SamePlace reports whether two sources are equal except for the revision, or the tag and digest.
func (s Source) SamePlace(other Source) bool {
	a, is := s.Git()
	b, too := other.Git()
	one, image := s.OCI()
	two, images := other.OCI()
	return s == other || is && too && a.At("") == b.At("") || image && images && one.Repository() == two.Repository()
}

// IsCommit reports whether a text is a full commit id as git writes it: 40 digits, or 64 of SHA-256.
func IsCommit(s string) bool {
	return (len(s) == 40 || len(s) == 64) && strings.Trim(s, "0123456789abcdef") == ""
}

// splitGit splits the text of a repository. bad is the reason if it is invalid.
func splitGit(text string) (git Git, bad string) {
	rest := strings.TrimPrefix(text, gitPrefix)
	scheme, after, _ := strings.Cut(rest, "://")
	if scheme != "https" {
		return git, "repositories are fetched by https only: expected git+https://"
	}
	host, _, ok := strings.Cut(after, "/")
	if !ok || strings.Contains(host, "?") {
		return git, "the address has no repository path"
	}
	// Behind the host, the first @ separates the revision.
	start := len(scheme) + len("://") + len(host)
	place, revision, revised := strings.Cut(rest[start:], "@")
	path, query, asked := strings.Cut(place, "?")
	git = Git{Address: rest[:start] + path, Revision: revision}
	if strings.Trim(path, "/") == "" || strings.HasSuffix(path, "/") {
		return git, "the address must end with the repository, without a slash"
	}
	if bad := badAddress(git.Address); bad != "" {
		return git, bad
	}
	if strings.ContainsAny(path, "!$&'()*,;=") {
		return git, "a repository address consists of letters, digits, . _ - ~ + : / and %XX"
	}
	if asked {
		if git.Dir, ok = strings.CutPrefix(query, gitDir); !ok {
			return git, "only dir=DIRECTORY is allowed after ?"
		}
		if err := portable.Check(git.Dir); err != nil {
			return git, err.Error()
		}
		if strings.ContainsAny(git.Dir, "%&#+=;, ") {
			return git, "a directory consists of letters, digits, . _ - and /"
		}
	}
	if revised {
		return git, badRevision(revision)
	}
	return git, ""
}

// badRevision returns why a text is no valid branch, tag or commit. It is stricter than git, so that no shell, option
// parser or reflog syntax can misread a name.
func badRevision(text string) string {
	const chars = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._/+-"
	switch {
	case text == "":
		return "expected a branch, tag or commit after @"
	case len(text) > maxRevision:
		return fmt.Sprintf("the revision is longer than %d bytes", maxRevision)
	case strings.ContainsFunc(text, func(r rune) bool { return !strings.ContainsRune(chars, r) }):
		return "a revision consists of letters, digits, . _ / + and -"
	case text == "HEAD":
		return "leave out @HEAD: it is the default"
	case (len(text) == 40 || len(text) == 64) && !IsCommit(text) && strings.Trim(text, "0123456789abcdefABCDEF") == "":
		return "write a commit in lower case"
	}
	for part := range strings.SplitSeq(text, "/") {
		if part == "" || part[0] == '.' || part[0] == '-' || strings.HasSuffix(part, ".") ||
			strings.HasSuffix(part, ".lock") || strings.Contains(part, "..") {
			return "not a valid branch or tag name"
		}
	}
	return ""
}
