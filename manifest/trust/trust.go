// Package trust reads and writes the policies and revocation lists on disk. It reads a policy together with its
// origin, refuses one that other users can write, and remembers the last good issue of every revocation list that a
// policy names.
//
// # How a call goes through here
//
// An edit: Edit.Apply reads the policy (Read), calls Change and Approve, locks the file (LockPolicy), compares it with
// the one read, and writes it; Commit runs just before. An update: Lists.UpdateAll calls Update for each list, which
// fetches the issue, verifies it, asks policy.Side.Accept, stores it and records it in the journal.
package trust

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/manifest/admission"
	"github.com/rye-build/rye/manifest/policy"
)

const (
	File      = "policy.yaml" // the policy of a space, in its directory
	maxPolicy = 1 << 20
)

// An Authority is a policy file after reading.
type Authority struct {
	Side   policy.Side
	Path   string
	Origin string // the origin of the path: "user", "--trust", "RYE_TRUST", "project"
	File   []byte // nil if the file doesn't exist
}

// A Reader reads policy files at every call, and parses a file again only if it has changed, which is rare. A nil
// Reader remembers nothing. It is safe for concurrent use.
type Reader struct {
	mu   sync.Mutex
	last map[string]*Authority // by path
}

// Read reads a policy file, without its revocation lists. A missing file is an empty policy, with a nil File.
func Read(path, origin string) (*Authority, error) { return (*Reader)(nil).Read(path, origin) }

// Read is the function Read, with the Reader's memory.
func (r *Reader) Read(path, origin string) (*Authority, error) {
	au := &Authority{Path: path, Origin: origin}
	file, err := osfile.ReadIfThere("the policy", path, maxPolicy)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	au.File = file
	if p := r.known(path, file); p != nil {
		au.Side.Policy = p
		return au, nil
	}
	if au.Side.Policy, err = policy.Parse(file); err != nil {
		return nil, fmt.Errorf("the policy %q: %w", path, err)
	}
	r.remember(*au)
	return au, nil
}

// known returns the last policy of a path if these are its bytes, or nil. A policy doesn't change after parsing.
func (r *Reader) known(path string, file []byte) *policy.Policy {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if old := r.last[path]; old != nil && bytes.Equal(old.File, file) {
		return old.Side.Policy
	}
	return nil
}

func (r *Reader) remember(au Authority) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.last) >= 4 { // more than the policies of one workspace
		clear(r.last)
	}
	if r.last == nil {
		r.last = map[string]*Authority{}
	}
	r.last[au.Path] = &au
}

// CheckOwn returns an error for a policy file that another user may write or replace.
func CheckOwn(path string) error {
	all := []string{path, filepath.Dir(path)}
	if fi, err := os.Lstat(path); err == nil && fi.Mode()&fs.ModeSymlink != 0 {
		if to, err := filepath.EvalSymlinks(path); err == nil {
			// both the link's and the target's directory determine the file
			all = append(all, to, filepath.Dir(to))
		}
	}
	for _, path := range all {
		fi, err := os.Stat(path)
		if err != nil {
			continue // reading the file reports it
		}
		what := map[bool]string{true: "directory of the policy", false: "policy"}[fi.IsDir()]
		bad := func(why, hint string) error {
			return fault.New(fault.Denied, "the %s %q %s", what, path, why).Try(hint).
				Because("who can write the policy decides what this user trusts").On("reason", "policy-mode").
				On("path", path)
		}
		switch mode := fi.Mode(); {
		case osfile.OwnedByOther(fi):
			return bad("belongs to another user", "ls -ld "+fault.Quote(path))
		case runtime.GOOS == "windows":
		case mode.Perm()&0o002 != 0:
			return bad("is writable by everyone", "chmod go-w "+fault.Quote(path))
		case mode.Perm()&0o020 != 0:
			return bad("is writable by its group", "chmod go-w "+fault.Quote(path))
		}
	}
	return nil
}

// A Trust is the policies that decide, as of the time it was opened.
type Trust struct {
	Root    *Authority
	Project *Authority // nil: none, or it is the root
	Now     time.Time
}

// Authorities lists the policies that decide: the root, then the project's if it has one.
func (t *Trust) Authorities() []*Authority {
	if t.Project == nil {
		return []*Authority{t.Root}
	}
	return []*Authority{t.Root, t.Project}
}

// Exam returns the admission.Trust of these policies.
func (t *Trust) Exam() *admission.Trust {
	x := &admission.Trust{Root: t.Root.Side, Now: t.Now}
	if t.Project != nil {
		x.Project = &t.Project.Side
	}
	return x
}

// Describe names the policy that decided: the project's or the root.
func (t *Trust) Describe(project bool) string {
	au := t.Root
	if project && t.Project != nil {
		au = t.Project
	}
	return fmt.Sprintf("%s (%s, %s)", au.Path, au.Origin, au.Side.Policy.ID().Short())
}

// IsMissing reports whether err means that the user has no root policy yet.
func IsMissing(err error) bool {
	f, ok := errors.AsType[*fault.Error](err)
	return ok && f.Code == fault.Policy && f.Details["policy"] != nil
}
