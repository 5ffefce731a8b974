package locks

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
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/places"
	"github.com/rye-build/rye/exec/session"
	lockfile "github.com/rye-build/rye/lock/file"
	"github.com/rye-build/rye/lock/workspace"
	"github.com/rye-build/rye/manifest/exam"
)

// What rye lock --check has found current it need not make again, as long as nothing has changed: it asks the
// stat cache, which knows rye.yaml, rye.lock and what of .ai has a part in a lock, by the policy, and by this binary.
// The lock isn't even read. Nothing that runs or verifies asks it.

// current is the answer to --check where this very state was found current before; else nil.
func (c *lockRun) current(ctx context.Context, a *cli.App) (*LockAnswer, error) {
	l := c.unread(a)
	if l == nil {
		return nil, nil
	}
	defer l.Close()
	known := Remembered(ctx, l)
	if c.state = l.State; !known {
		return nil, ctx.Err()
	}
	what, held := memories(l)
	id, ok := what.Recall(l.Exam(), l.State)
	counts, too := held.Recall(l.Exam(), l.State)
	if !ok || !too {
		return nil, nil
	}
	ans := newLockAnswer(c)
	ans.File, ans.ID = l.LockPath(), id.String()
	for i, n := range []*int{&ans.Bundles, &ans.Pins, &ans.Artifacts} {
		*n = int(binary.BigEndian.Uint32(counts[4*i:]))
	}
	return ans, nil
}

// Remembered reports whether the lock was found current in the very state that there is now.
func Remembered(ctx context.Context, l *places.Lock) (ok bool) {
	if l.Trust == nil {
		var err error
		if l.Trust, err = l.Policy(); err != nil {
			return false
		}
	}
	m, _ := memories(l)
	if m == nil || session.PoliciesOf(l.Trust).Floor().Enforce { // what programs there are on the machine isn't part of the state
		return false
	}
	if l.State, ok = now(ctx, l); ok {
		_, ok = m.Recall(l.Exam(), l.State)
	}
	return ok
}

// unread is the lock before it is read; nil where what is wrong is for others to report.
func (c *lockRun) unread(a *cli.App) *places.Lock {
	w := places.UnreadWorkspace(a)
	if c.AllowUser { // the user's space isn't looked at here
		return nil
	}
	if c.User {
		s := w.UserSpace()
		l := &places.Lock{Lock: w.LockIn(s.Path, s.Path), App: a}
		if l.User = true; s.Err != nil {
			return nil
		}
		return l
	}
	p, err := w.FindProject()
	if err != nil || p.Root == "" {
		return nil
	}
	return &places.Lock{Lock: w.LockIn(p.Root, p.DotAI()), App: a}
}

// remember keeps that the lock is current, unless something has changed while it was made. What there was to warn of is
// to be told the next time too, so that it is found again.
func (c *lockRun) remember(ctx context.Context, l *places.Lock, ans *LockAnswer) {
	what, held := memories(l)
	if what == nil || c.state.IsZero() || len(ans.Warnings) > 0 {
		return
	}
	if now, ok := now(ctx, l); !ok || now != c.state {
		return
	}
	var counts cas.Digest
	for i, n := range []int{ans.Bundles, ans.Pins, ans.Artifacts} {
		binary.BigEndian.PutUint32(counts[4*i:], uint32(n))
	}
	held.Keep(l.Exam(), c.state, counts)
	what.Keep(l.Exam(), c.state, l.Id())
}

// memories are where it is kept: the digest of the lock, and in the place of another one how many bundles, items and
// files of packages it holds. They are nil where there is no cache.
func memories(l *places.Lock) (what, held *exam.Memory) {
	cache := l.App.Dir(cli.CachePlace)
	if cache.Err != nil {
		return nil, nil
	}
	sum := cas.Sum([]byte("lock\x00" + l.Dir))
	file := filepath.Join(cache.Value, "bundles", hex.EncodeToString(sum[:16]))
	return &exam.Memory{File: file}, &exam.Memory{File: file + "-n"}
}

// now reads what has changed since it was last looked at, and nothing else.
func now(ctx context.Context, l *places.Lock) (key cas.Digest, ok bool) {
	// It is over before there is garbage worth a collection: that would take longer than what is asked.
	defer debug.SetGCPercent(debug.SetGCPercent(800))
	cache := places.OpenStatCache(l.App, false)
	defer cache.Finish(ctx, l.App)
	tree, err := worktree.Import(ctx, hashing{}, l.Dir, worktree.Options{Cache: cache.Cache, Skip: func(path string, dir bool) bool { return apart(l, path, dir) }})
	if err != nil {
		return key, false // making the lock tells what is wrong
	}
	cache.Files.Store(tree.Files)
	cache.Read.Add(tree.Read)
	h := cas.NewHasher()
	fmt.Fprintf(h, "%+v\n%s\n%s\n%v\n", cli.ThisVersion(), tree.ID.Digest, cas.Sum(std.Manifest()), l.User)
	return h.Digest(), true
}

// apart leaves out of the directory of a lock what has no part in it.
func apart(l *places.Lock, path string, _ bool) bool {
	top, rest, below := strings.Cut(path, "/")
	if !l.User {
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
