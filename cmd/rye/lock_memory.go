package main

import (
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/rye-build/rye/ai/std"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/worktree"
	"github.com/rye-build/rye/manifest/exam"
)

// What rye lock --check has found current it need not make again, as long as nothing has changed: that is told by the
// stat cache, rye.yaml, rye.lock, the policy, and this binary. Nothing that runs or verifies asks it.

// remembered reports whether the lock was found current in this very state.
func (l *locking) remembered(ctx context.Context) bool {
	m, key, ok := l.memory(ctx)
	if !ok {
		return false
	}
	_, ok = m.Recall(l.exam(), key)
	return ok
}

// remember keeps that the lock is current.
func (l *locking) remember(ctx context.Context) {
	if m, key, ok := l.memory(ctx); ok {
		m.Keep(l.exam(), key, key)
	}
}

// memory is where that is kept, and the name of the state.
func (l *locking) memory(ctx context.Context) (m *exam.Memory, key cas.Digest, ok bool) {
	cachePlace := l.app.dir(cachePlace)
	if cachePlace.err != nil {
		return nil, key, false
	}
	if l.trust == nil {
		var err error
		if l.trust, err = l.app.trust(); err != nil {
			return nil, key, false
		}
	}
	cache := l.app.statCache(false)
	defer cache.close(ctx, l.app)
	tree, err := worktree.Import(ctx, hashing{}, l.dotAI, worktree.Options{Cache: cache.Cache, Skip: notItems})
	if err != nil {
		return nil, key, false // making the lock tells what is wrong
	}
	cache.files.Add(tree.Files)
	cache.read.Add(tree.Read)
	yaml, err := os.ReadFile(filepath.Join(l.dir, markerFile))
	if err != nil && !os.IsNotExist(err) {
		return nil, key, false
	}
	h := cas.NewHasher()
	fmt.Fprintf(h, "%+v\n%s\n%s\n%s\n%v %v\n", thisVersion(), tree.ID.Digest, cas.Sum(std.Manifest()), cas.Sum(l.file), l.allowUser, l.user)
	h.Write(yaml)
	sum := cas.Sum([]byte("lock\x00" + l.dir))
	return &exam.Memory{File: filepath.Join(cachePlace.value, "bundles", hex.EncodeToString(sum[:16]))}, h.Digest(), true
}

// notItems leaves out of .ai what has no part in a lock.
func notItems(path string, dir bool) bool {
	top, _, _ := strings.Cut(path, "/")
	switch top {
	case "vendor", "threads", "outputs", "keys", "bundles", "lockfiles":
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
