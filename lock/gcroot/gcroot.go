// Package gcroot is the protection of locked objects from gc: a store keeps a lock's objects until the lock is
// replaced, and a set's objects while it is in use.
//
// How a lock goes through here: Commit lists the old and the new objects in one tree (update, treeOf), gives it and
// the manifests refs, runs write, and then updates the refs to the new objects alone. Hold pins a set's objects for
// this process instead. Forget removes the refs of a lock.
package gcroot

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/lock"
)

// A Keeper is a store that keeps the objects that refs name, as *disk.Store does.
type Keeper interface {
	cas.Store
	cas.Batcher
	Ref(name string) (cas.ID, error)
	SetRef(ctx context.Context, name string, old, id cas.ID) error
}

// Refs is the prefix of a lock's refs in stores. The first 16 digits of the digest of the lock's path follow it, and
// for the manifest of each bundle "/" and the digits of its id:
//
//	locked/PLACE        the tree of all files that the lock names, with the path in the file "path", and in "before"
//	                    the tree of the current lock, while a new one is being written in its place
//	locked/PLACE/HEX    the document
const Refs = "locked/"

func refOf(path string) string {
	sum := cas.Sum([]byte(path))
	return Refs + hex.EncodeToString(sum[:8])
}

// Lock makes a store keep the objects of the lock at a path, instead of those of an earlier lock there. The store
// must have the objects.
func Lock(ctx context.Context, s Keeper, path string, objects []lock.Object) error {
	return update(ctx, s, path, objects, false)
}

// Commit replaces the lock at a path. The store must have the new lock's objects. While write runs, it keeps the
// objects of both locks, so that a crash loses neither.
func Commit(ctx context.Context, s Keeper, path string, objects []lock.Object, write func() error) error {
	if err := update(ctx, s, path, objects, true); err != nil {
		return err
	}
	if err := write(); err != nil {
		return err
	}
	return Lock(ctx, s, path, objects)
}

// update makes the store keep objects, and with too also the objects that it kept for this path before. A ref that no
// list names would stay forever if the process died, so each document is listed before its ref is set and until after
// its ref is removed.
func update(ctx context.Context, keeper Keeper, path string, objects []lock.Object, too bool) error {
	name := refOf(path)
	old, err := documents(ctx, keeper, name)
	if err != nil {
		return err
	}
	unlisted := func(o lock.Object) bool { return o.Kind == cas.Document && !slices.Contains(old, o.Digest) }
	if !too && slices.ContainsFunc(objects, unlisted) {
		if err := update(ctx, keeper, path, objects, true); err != nil {
			return err
		}
	}
	kept, before := objects, cas.ID{}
	if too {
		if kept, before, err = withOld(ctx, keeper, name, objects, old); err != nil {
			return err
		}
	}
	tree, err := treeOf(ctx, keeper, path, kept, before)
	if err != nil {
		return err
	}
	if too {
		if err := setRef(ctx, keeper, name, tree); err != nil {
			return err
		}
	}
	wanted := map[cas.Digest]bool{}
	for _, o := range kept {
		if o.Kind != cas.Document || wanted[o.Digest] {
			continue
		}
		wanted[o.Digest] = true
		if err := setRef(ctx, keeper, name+"/"+digits(o.Digest), o.ID); err != nil {
			return err
		}
	}
	for _, d := range old {
		if !wanted[d] {
			if err := setRef(ctx, keeper, name+"/"+digits(d), cas.ID{}); err != nil {
				return err
			}
		}
	}
	return setRef(ctx, keeper, name, tree)
}

// withOld adds to objects the old documents that have a ref, and returns the current tree of this path.
func withOld(
	ctx context.Context, s Keeper, name string, objects []lock.Object, old []cas.Digest,
) (all []lock.Object, before cas.ID, err error) {
	if before, err = s.Ref(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, cas.ID{}, err
	}
	all = slices.Clip(objects)
	for _, d := range old {
		if _, err := s.Ref(name + "/" + digits(d)); errors.Is(err, fs.ErrNotExist) {
			continue // a process died before setting the ref, or after removing it
		} else if err != nil {
			return nil, cas.ID{}, err
		}
		id := cas.ID{Kind: cas.Document, Digest: d}
		if !slices.ContainsFunc(all, func(o lock.Object) bool { return o.ID == id }) {
			all = append(all, lock.Object{ID: id})
		}
	}
	return all, before, nil
}

// A Holder is a store whose gc spares the objects that a process has pinned, until it releases them or ends, as
// *disk.Store does.
type Holder interface {
	Keeper
	Pin(ctx context.Context, ids ...cas.ID) (release func() error, err error)
}

// Hold keeps the objects of a set, which the store must have, while the set is in use: the lock may change or be
// removed meanwhile.
func Hold(ctx context.Context, store Holder, s *lock.Set) (release func() error, err error) {
	objects, err := s.Objects(ctx)
	if err != nil {
		return nil, err
	}
	var all named
	if _, err := putFiles(ctx, &all, "", objects, cas.ID{}); err != nil {
		return nil, err
	}
	for _, o := range objects {
		if o.Kind == cas.Document {
			all = append(all, o.ID)
		}
	}
	// If the same set was in use before, the store has its tree.
	if release, err = store.Pin(ctx, all...); !errors.Is(err, fs.ErrNotExist) {
		return release, err
	}
	if _, err := treeOf(ctx, store, "", objects, cas.ID{}); err != nil {
		return nil, err
	}
	return store.Pin(ctx, all...)
}

// named discards objects and records only their names.
type named []cas.ID

func (n *named) PutBytes(_ context.Context, kind cas.Kind, b []byte) (cas.Digest, error) {
	d := cas.Sum(b)
	*n = append(*n, cas.ID{Kind: kind, Digest: d})
	return d, nil
}

// Forget stops a store from keeping the objects of the lock at a path.
func Forget(ctx context.Context, keeper Keeper, path string) error {
	name := refOf(path)
	old, err := documents(ctx, keeper, name)
	if err != nil {
		return err
	}
	for _, d := range old {
		if err := setRef(ctx, keeper, name+"/"+digits(d), cas.ID{}); err != nil {
			return err
		}
	}
	return setRef(ctx, keeper, name, cas.ID{})
}

// Path returns the path of the lock that a ref of Refs belongs to, or "" for other refs.
func Path(ctx context.Context, keeper Keeper, ref string) (string, error) {
	if !strings.HasPrefix(ref, Refs) || strings.Count(ref, "/") != 1 {
		return "", nil
	}
	id, err := keeper.Ref(ref)
	if err != nil {
		return "", err
	}
	entries, err := cas.ReadTree(ctx, keeper, id.Digest)
	if err != nil {
		return "", err
	}
	for _, e := range entries {
		if e.Name != pathFile || e.Size > maxPath {
			continue
		}
		b, err := read(ctx, keeper, e.ID())
		return string(b), err
	}
	return "", nil
}

const (
	pathFile      = "path"
	documentsFile = "documents"
	beforeDir     = "before"
	maxPath       = 64 << 10
)

func digits(d cas.Digest) string { return hex.EncodeToString(d[:]) }

// documents returns the manifests that have refs. A file of the tree lists them, because listing all refs of a store
// would be slow.
func documents(ctx context.Context, keeper Keeper, name string) (all []cas.Digest, err error) {
	// If the list is damaged, its refs stay: that must not make a new lock fail.
	defer func() {
		if errors.Is(err, cas.ErrDamaged) {
			all, err = nil, nil
		}
	}()
	id, err := keeper.Ref(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	entries, err := cas.ReadTree(ctx, keeper, id.Digest)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if e.Name != documentsFile {
			continue
		}
		b, err := read(ctx, keeper, e.ID())
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(string(b)) {
			if d, err := cas.ParseDigest(strings.TrimSuffix(line, "\n")); err == nil {
				all = append(all, d)
			}
		}
	}
	return all, nil
}

// treeOf stores the tree of all files.
func treeOf(ctx context.Context, s Keeper, path string, objects []lock.Object, before cas.ID) (cas.ID, error) {
	batch, err := s.Batch(ctx)
	if err != nil {
		return cas.ID{}, err
	}
	defer batch.Close()
	tree, err := putFiles(ctx, batch, path, objects, before)
	if err != nil {
		return cas.ID{}, err
	}
	return tree, batch.Commit(ctx)
}

type putter interface {
	PutBytes(ctx context.Context, kind cas.Kind, b []byte) (cas.Digest, error)
}

// putFiles stores the tree of all files. It has a directory for each first byte of a digest, so that a slightly
// changed lock shares nearly all of it. It also includes the previous tree, if there is one.
func putFiles(ctx context.Context, to putter, path string, objects []lock.Object, before cas.ID) (cas.ID, error) {
	var files [256][]cas.Entry
	var docs strings.Builder
	for _, o := range objects {
		e := cas.Entry{Name: digits(o.Digest), Digest: o.Digest, Mode: cas.File, Size: o.Size}
		switch o.Kind {
		case cas.Document:
			docs.WriteString(o.Digest.String() + "\n")
			continue
		case cas.TreeKind:
			// The suffix avoids a collision with a blob of the same digits.
			e.Name, e.Mode, e.Size = e.Name+".tree", cas.Dir, 0
		}
		files[o.Digest[0]] = append(files[o.Digest[0]], e)
	}
	var root []cas.Entry
	for name, text := range map[string]string{pathFile: path, documentsFile: docs.String()} {
		d, err := to.PutBytes(ctx, cas.Blob, []byte(text))
		if err != nil {
			return cas.ID{}, err
		}
		root = append(root, cas.Entry{Name: name, Digest: d, Mode: cas.File, Size: int64(len(text))})
	}
	if before.Kind == cas.TreeKind {
		root = append(root, cas.Entry{Name: beforeDir, Digest: before.Digest, Mode: cas.Dir})
	}
	for i, entries := range files {
		if len(entries) == 0 {
			continue
		}
		d, err := putTree(ctx, to, entries)
		if err != nil {
			return cas.ID{}, err
		}
		root = append(root, cas.Entry{Name: hex.EncodeToString([]byte{byte(i)}), Digest: d, Mode: cas.Dir})
	}
	d, err := putTree(ctx, to, root)
	return cas.ID{Kind: cas.TreeKind, Digest: d}, err
}

func putTree(ctx context.Context, to putter, entries []cas.Entry) (cas.Digest, error) {
	slices.SortFunc(entries, func(a, b cas.Entry) int { return cmp.Compare(a.Name, b.Name) })
	b, err := cas.AppendTree(nil, entries)
	if err != nil {
		return cas.Digest{}, err
	}
	return to.PutBytes(ctx, cas.TreeKind, b)
}

// setRef points a ref to an object, whatever it pointed to before; the zero ID removes it.
func setRef(ctx context.Context, keeper Keeper, name string, id cas.ID) error {
	for {
		old, err := keeper.Ref(name)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if old == id {
			return nil
		}
		if err = keeper.SetRef(ctx, name, old, id); err == nil {
			return nil
		}
		if now, again := keeper.Ref(name); again == nil && now != old || errors.Is(again, fs.ErrNotExist) &&
			old != (cas.ID{}) {
			continue // another process was quicker
		}
		return err
	}
}

// read reads a small blob.
func read(ctx context.Context, s cas.Getter, id cas.ID) ([]byte, error) {
	o, err := s.Get(ctx, id)
	if err != nil {
		return nil, err
	}
	defer o.Close()
	return io.ReadAll(o)
}
