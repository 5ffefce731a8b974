// Package recall gives the answer to a question about a working tree again, without reading any file, as long as
// nothing has changed that the answer depends on.
//
// # What an answer depends on
//
// A Question names the trees that it is about: of a project rye.yaml, rye.lock and .ai, of the user's space all of it,
// in both without what has no part in any answer (vendor, threads, outputs, keys, lockfiles). Their state is a digest
// over the bytes and modes of every file and the names of all directories, those without files too. Package statcache
// says which files need not be read for it, and by which rules: a file with the size, times, inode and mode of its
// record, which was written long before it was read. Everything else that counts is in Under, which includes the
// binary and its library, and in the policies, lists and expiry of keys, which package exam holds an answer against.
// So a file that was changed, replaced or made a link, a policy that was edited and a key that has expired each make
// another question, which has no answer yet.
//
// # What it is for
//
// Only what changes nothing and admits nothing asks it (decision 15): whether the lock is up to date, what is wrong
// with items, and that every item carries this key's signature already. What verifies, executes, bundles or writes
// reads the bytes. An answer is kept only if the state is the same after it was found as it was before, and only if it
// was good: the next one who asks looks for themselves at what was wrong. The file of the answer is an
// admission.Memory, below the cache directory of this user: damaged or missing means that the question is answered
// anew.
package recall

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/rye-build/rye/ai/std"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/statcache"
	"github.com/rye-build/rye/cas/worktree"
	lockfile "github.com/rye-build/rye/lock/file"
	"github.com/rye-build/rye/lock/workspace"
	"github.com/rye-build/rye/manifest/admission"
)

// A Tree is a directory that an answer depends on.
type Tree struct {
	Dir   string
	Space bool // it is the user's space, not the root of a project
}

// A Question is asked about trees.
type Question struct {
	Trees []Tree
	Trust *admission.Trust
	File  string // where the answer is kept
	Under string // what else the answer depends on
	// Cache opens the stat cache, which may be nil. done closes it, and learns how many files there are and were read.
	Cache func() (c *statcache.Cache, done func(files, read int64))

	state cas.Digest // that there was when it was asked; zero if that can't be told
}

// Recall returns the answer that was found in the state that there is now, and whether there is one.
func (q *Question) Recall(ctx context.Context) (answer []byte, ok bool) {
	if q.state = q.now(ctx); q.state.IsZero() {
		return nil, false
	}
	return q.memory().Recall(q.Trust, q.state)
}

// Known reports whether an answer was ever kept, or Expect called. Where none was, Recall would read every file in
// vain.
func (q *Question) Known() bool {
	_, err := os.Lstat(q.File)
	return err == nil
}

// Expect has the next one who asks look for an answer, and keep it.
func (q *Question) Expect() { q.memory().Keep(q.Trust, cas.Digest{}, nil) }

// Keep remembers an answer, unless something has changed since Recall.
func (q *Question) Keep(ctx context.Context, answer []byte) {
	if q.state.IsZero() || q.now(ctx) != q.state {
		return
	}
	q.memory().Keep(q.Trust, q.state, answer)
}

func (q *Question) memory() *admission.Memory { return &admission.Memory{File: q.File} }

// now is the state of the trees. It is zero where something is wrong with them, which the answer itself is to tell.
func (q *Question) now(ctx context.Context) cas.Digest {
	h := cas.NewHasher()
	fmt.Fprintf(h, "%s\n%s\n", q.Under, cas.Sum(std.Manifest()))
	cache, done := q.Cache()
	var files, read int64
	defer func() { done(files, read) }()
	for _, t := range q.Trees {
		var mu sync.Mutex
		var dirs []string // a tree doesn't tell of empty ones
		r, err := worktree.Import(ctx, hashing{}, t.Dir,
			worktree.Options{Cache: cache, Skip: func(path string, dir bool) bool {
				if t.skip(path) {
					return true
				}
				if dir {
					mu.Lock()
					dirs = append(dirs, path)
					mu.Unlock()
				}
				return false
			}})
		if err != nil && !(t.Space && errors.Is(err, fs.ErrNotExist)) {
			return cas.Digest{}
		}
		files, read = files+r.Files, read+r.Read
		slices.Sort(dirs)
		fmt.Fprintf(h, "%q %v %s %q\n", t.Dir, t.Space, r.ID.Digest, dirs)
	}
	return h.Digest()
}

// skip leaves out what has no part in any answer.
func (t *Tree) skip(path string) bool {
	top, rest, below := strings.Cut(path, "/")
	if !t.Space {
		if top != workspace.MarkerDir {
			return path != workspace.MarkerFile && path != lockfile.Name
		}
		if !below {
			return false
		}
		top, _, _ = strings.Cut(rest, "/")
	}
	switch top {
	case "vendor", "threads", "outputs", "keys", "lockfiles":
		return true
	}
	return false
}

// A hashing batch names what it is given, and keeps nothing: it has everything already.
type hashing struct{}

func (hashing) Put(_ context.Context, kind cas.Kind, r io.Reader) (cas.Info, error) {
	h := cas.NewHasher()
	n, err := io.Copy(h, r)
	return cas.Info{ID: cas.ID{Kind: kind, Digest: h.Digest()}, Size: n}, err
}

func (hashing) PutBytes(_ context.Context, _ cas.Kind, b []byte) (cas.Digest, error) {
	return cas.Sum(b), nil
}

func (hashing) Missing(context.Context, []cas.ID) ([]cas.ID, error) { return nil, nil }
func (hashing) Commit(context.Context) error                        { return nil }
func (hashing) Close() error                                        { return nil }
