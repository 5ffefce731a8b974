// Package recall is a cache of answers about a working tree: it returns an answer without reading files while its
// inputs are unchanged.
//
// # Inputs
//
// A Question names its trees: rye.yaml, rye.lock and .ai of a project, or the user's space, both without irrelevant
// directories (vendor, threads, outputs, keys, lockfiles). Their state is a digest over the bytes and modes of every
// file and the names of all directories, those without files too. Package statcache decides which files need not be
// read: those whose size, times, inode and mode match their records, if they were last modified long before they
// were read. All other inputs are in Under, which includes the binary and its library, and in the policies, lists
// and expiry of keys, which package admission compares. So a changed or replaced file, an edited policy and an
// expired key each make a new question without an answer.
//
// # Use
//
// Only commands that change and admit nothing use it (decision 15): whether the lock is up to date, which problems
// items have, and whether every item has this key's signature. Commands that verify, execute, bundle or write read
// the bytes. An answer is stored only if the state did not change meanwhile, and only if it has no problems: those
// are always searched for again. The file of the answer is an admission.Memory, below the user's cache directory;
// if it is damaged or missing, the question is answered again.
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
	Space bool // the user's space, not the root of a project
}

// A Question is asked about trees.
type Question struct {
	Trees []Tree
	Trust *admission.Trust
	File  string // the file of the answer
	Under string // the other inputs
	// Cache opens the stat cache, which may be nil. done closes it, with the numbers of files present and read.
	Cache func() (c *statcache.Cache, done func(files, read int64))

	state cas.Digest // when Recall was called; zero if unknown
}

// Recall returns the answer for the current state, if there is one.
func (q *Question) Recall(ctx context.Context) (answer []byte, ok bool) {
	if q.state = q.now(ctx); q.state.IsZero() {
		return nil, false
	}
	return q.memory().Recall(q.Trust, q.state)
}

// Known reports whether an answer was ever stored, or Expect called. Otherwise Recall would read every file for
// nothing.
func (q *Question) Known() bool {
	_, err := os.Lstat(q.File)
	return err == nil
}

// Expect makes the next process look for an answer and store one.
func (q *Question) Expect() { q.memory().Keep(q.Trust, cas.Digest{}, nil) }

// Keep stores an answer, unless something has changed since Recall.
func (q *Question) Keep(ctx context.Context, answer []byte) {
	if q.state.IsZero() || q.now(ctx) != q.state {
		return
	}
	q.memory().Keep(q.Trust, q.state, answer)
}

func (q *Question) memory() *admission.Memory { return &admission.Memory{File: q.File} }

// now returns the state of the trees. It is zero if they have problems, which the answer itself must report.
func (q *Question) now(ctx context.Context) cas.Digest {
	hasher := cas.NewHasher()
	fmt.Fprintf(hasher, "%s\n%s\n", q.Under, cas.Sum(std.Manifest()))
	cache, done := q.Cache()
	var files, read int64
	defer func() { done(files, read) }()
	for _, tree := range q.Trees {
		var mu sync.Mutex
		var dirs []string // listed too, because a tree omits empty directories
		result, err := worktree.Import(ctx, hashing{}, tree.Dir,
			worktree.Options{Cache: cache, Skip: func(path string, dir bool) bool {
				if tree.skip(path) {
					return true
				}
				if dir {
					mu.Lock()
					dirs = append(dirs, path)
					mu.Unlock()
				}
				return false
			}})
		if err != nil && !(tree.Space && errors.Is(err, fs.ErrNotExist)) {
			return cas.Digest{}
		}
		files, read = files+result.Files, read+result.Read
		slices.Sort(dirs)
		fmt.Fprintf(hasher, "%q %v %s %q\n", tree.Dir, tree.Space, result.ID.Digest, dirs)
	}
	return hasher.Digest()
}

// skip leaves out files on which no answer depends.
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

// A hashing batch computes the ids of objects without storing them.
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
