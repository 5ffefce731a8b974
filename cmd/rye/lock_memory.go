package main

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"path/filepath"
	"runtime/debug"
	"strings"

	"github.com/rye-build/rye/ai/std"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/worktree"
	lockfile "github.com/rye-build/rye/lock/file"
	"github.com/rye-build/rye/manifest/exam"
)

// What rye lock --check has found current it need not make again, as long as nothing has changed: that is told by the
// stat cache, which knows rye.yaml, rye.lock and what of .ai has a part in a lock, by the policy, and by this binary.
// The lock isn't even read. Nothing that runs or verifies asks it.

// current is the answer to --check where this very state was found current before; else nil.
func (c *lockRun) current(ctx context.Context, a *app) (*lockAnswer, error) {
	l := c.unread(a)
	if l == nil {
		return nil, nil
	}
	defer l.close()
	known := l.remembered(ctx)
	if c.state = l.state; !known {
		return nil, ctx.Err()
	}
	what, held := l.memories()
	id, ok := what.Recall(l.exam(), l.state)
	counts, too := held.Recall(l.exam(), l.state)
	if !ok || !too {
		return nil, nil
	}
	ans := newLockAnswer(c)
	ans.File, ans.ID = l.lockPath(), id.String()
	for i, n := range []*int{&ans.Bundles, &ans.Pins, &ans.Artifacts} {
		*n = int(binary.BigEndian.Uint32(counts[4*i:]))
	}
	return ans, nil
}

// remembered reports whether the lock was found current in the very state that there is now.
func (l *locking) remembered(ctx context.Context) (ok bool) {
	if l.trust == nil {
		var err error
		if l.trust, err = l.app.trust(); err != nil {
			return false
		}
	}
	m, _ := l.memories()
	if m == nil || l.enforces() { // what programs there are on the machine isn't part of the state
		return false
	}
	if l.state, ok = l.now(ctx); ok {
		_, ok = m.Recall(l.exam(), l.state)
	}
	return ok
}

// unread is the lock as far as it is known without reading it; nil where what is wrong is for others to tell.
func (c *lockRun) unread(a *app) *locking {
	l := &locking{app: a, found: &bundles{app: a}, user: c.User}
	if c.User {
		s := userSpace(a.userBase())
		l.dir, l.dotAI = s.value, s.value
		if s.err != nil {
			return nil
		}
	} else {
		p, err := a.findProject()
		if err != nil || p.root == "" {
			return nil
		}
		l.dir, l.dotAI = p.root, p.dotAI()
	}
	if c.AllowUser { // the user's space isn't looked at here
		return nil
	}
	return l
}

// remember keeps that the lock is current, unless something has changed while it was made. What there was to warn of is
// to be told the next time too, so that it is found again.
func (c *lockRun) remember(ctx context.Context, l *locking, ans *lockAnswer) {
	what, held := l.memories()
	if what == nil || c.state.IsZero() || len(ans.Warnings) > 0 {
		return
	}
	if now, ok := l.now(ctx); !ok || now != c.state {
		return
	}
	var counts cas.Digest
	for i, n := range []int{ans.Bundles, ans.Pins, ans.Artifacts} {
		binary.BigEndian.PutUint32(counts[4*i:], uint32(n))
	}
	held.Keep(l.exam(), c.state, counts)
	what.Keep(l.exam(), c.state, l.id())
}

// memories are where it is kept: the digest of the lock, and in the place of another one how many bundles, items and
// files of packages it holds. They are nil where there is no cache.
func (l *locking) memories() (what, held *exam.Memory) {
	cache := l.app.dir(cachePlace)
	if cache.err != nil {
		return nil, nil
	}
	sum := cas.Sum([]byte("lock\x00" + l.dir))
	file := filepath.Join(cache.value, "bundles", hex.EncodeToString(sum[:16]))
	return &exam.Memory{File: file}, &exam.Memory{File: file + "-n"}
}

// now reads what has changed since it was last looked at, and nothing else.
func (l *locking) now(ctx context.Context) (key cas.Digest, ok bool) {
	// It is over before there is garbage worth a collection: that would take longer than what is asked.
	defer debug.SetGCPercent(debug.SetGCPercent(800))
	cache := l.app.statCache(false)
	defer cache.close(ctx, l.app)
	tree, err := worktree.Import(ctx, hashing{}, l.dir, worktree.Options{Cache: cache.Cache, Skip: func(path string, dir bool) bool { return l.apart(path, dir) }})
	if err != nil {
		return key, false // making the lock tells what is wrong
	}
	cache.files.Store(tree.Files)
	cache.read.Add(tree.Read)
	h := cas.NewHasher()
	fmt.Fprintf(h, "%+v\n%s\n%s\n%v\n", thisVersion(), tree.ID.Digest, cas.Sum(std.Manifest()), l.user)
	return h.Digest(), true
}

// apart leaves out of the directory of a lock what has no part in it.
func (l *locking) apart(path string, _ bool) bool {
	top, rest, below := strings.Cut(path, "/")
	if !l.user {
		if top != markerDir {
			return path != markerFile && path != lockfile.Name
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

// A hashing names what it is given, and keeps nothing: it has everything already.
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
