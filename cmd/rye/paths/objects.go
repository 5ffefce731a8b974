package paths

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/disk"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
)

// This file opens the store and resolves the OBJECT arguments of commands.

// ReadStore opens the store for reading. A missing store is an error. A store that only a newer rye may write can
// still be read if its format allows it.
func ReadStore(a *cli.App) (*disk.Store, error) {
	s, err := HaveStore(a)
	if v, ok := errors.AsType[*disk.VersionError](err); ok && v.Readable() {
		return openStore(a, disk.Options{ReadOnly: true})
	}
	return s, err
}

// HaveStore opens an existing store for writing.
func HaveStore(a *cli.App) (*disk.Store, error) { return openStore(a, disk.Options{}) }

// MakeStore opens the store, and creates it if it is missing.
func MakeStore(a *cli.App) (*disk.Store, error) { return openStore(a, disk.Options{Create: true}) }

func openStore(a *cli.App, o disk.Options) (*disk.Store, error) {
	o.Now = a.Now
	return place(a.Store()).Open(o)
}

// object is a resolved OBJECT argument.
type object struct {
	Id   cas.ID
	path string // the part after ':', or empty
	mode cas.Mode
	Part bool // the argument was only the beginning of a digest
}

// Resolve resolves an OBJECT argument. If a digest is stored under several kinds, the first of kinds counts.
func Resolve(ctx context.Context, store *disk.Store, arg string, kinds ...cas.Kind) (object, error) {
	name, path, _ := strings.Cut(strings.TrimPrefix(arg, "blake3:"), ":")
	if strings.HasPrefix(arg, "blake3:") {
		name = "blake3:" + name
	}
	id, part, err := resolveName(ctx, store, name, kinds)
	if err != nil {
		return object{}, err
	}
	found := object{Id: id, path: path, mode: cas.File, Part: part}
	if id.Kind == cas.TreeKind {
		found.mode = cas.Dir
	}
	for segment := range strings.SplitSeq(path, "/") {
		if segment == "" {
			continue
		}
		if found, err = descend(ctx, store, found, segment); err != nil {
			return object{}, err
		}
	}
	return found, nil
}

// descend resolves an entry of a tree.
func descend(ctx context.Context, s *disk.Store, parent object, name string) (object, error) {
	entries, err := ReadTree(ctx, s, parent.Id)
	if err != nil {
		return object{}, err
	}
	var names []string
	for _, e := range entries {
		if e.Name == name {
			return object{Id: e.ID(), path: parent.path, mode: e.Mode, Part: parent.Part}, nil
		}
		names = append(names, e.Name)
	}
	return object{}, fault.New(fault.NotFound, "the tree %s has no %q", parent.Id.Digest.Short(), name).Near(name,
		names)
}

// ReadTree returns the entries of a tree.
func ReadTree(ctx context.Context, s cas.Getter, id cas.ID) ([]cas.Entry, error) {
	if id.Kind != cas.TreeKind {
		return nil, NotATree(id)
	}
	b, err := readObject(ctx, s, id)
	if err != nil {
		return nil, err
	}
	entries, err := cas.ParseTree(nil, b)
	if err != nil {
		return nil, &cas.DamagedError{ID: id, Err: err}
	}
	return entries, nil
}

// NotATree returns the error for an object that should be a tree.
func NotATree(id cas.ID) *fault.Error { return fault.New(fault.Validation, "%s is not a tree", id) }

// resolveName resolves a name, and reports whether it was the beginning of a digest.
func resolveName(ctx context.Context, store *disk.Store, name string, kinds []cas.Kind) (id cas.ID, part bool,
	err error) {
	if len(kinds) == 0 {
		kinds = []cas.Kind{cas.TreeKind, cas.Blob, cas.Document}
	}
	if d, err := cas.ParseDigest(name); err == nil {
		for _, k := range kinds {
			id := cas.ID{Kind: k, Digest: d}
			if has, err := store.Has(id); has || err != nil {
				return id, false, err
			}
		}
		return cas.ID{}, false, noObject(store, name)
	}
	if disk.CheckRefName(name) == nil {
		id, err := store.Ref(name)
		if err == nil || !errors.Is(err, fs.ErrNotExist) {
			return id, false, err
		}
	}
	digits, ok := cas.ParsePrefix(name)
	if !ok {
		return cas.ID{}, false, noObject(store, name)
	}
	found, err := store.Find(ctx, digits)
	if err != nil {
		return cas.ID{}, false, err
	}
	// The order of kinds decides between objects of one digest, but not between digests.
	found = slices.DeleteFunc(found, func(id cas.ID) bool { return !slices.Contains(kinds, id.Kind) })
	if len(found) == 0 {
		return cas.ID{}, false, noObject(store, name)
	}
	if first := found[0].Digest; !slices.ContainsFunc(found, func(id cas.ID) bool { return id.Digest != first }) {
		return slices.MinFunc(found, func(x, y cas.ID) int {
			return slices.Index(kinds, x.Kind) - slices.Index(kinds, y.Kind)
		}), true, nil
	}
	f := fault.New(fault.Ambiguous, "%d objects begin with %q", len(found), name)
	for _, id := range found[:min(len(found), 5)] {
		f.Why = append(f.Why, id.String())
	}
	return cas.ID{}, false, f
}

func noObject(s *disk.Store, name string) error {
	return SuggestRef(s, name, fault.New(fault.NotFound, "the store has no object and no ref %q", name).
		On("object", name).On("store", s.Dir()))
}

// SuggestRef adds similar refs to an error.
func SuggestRef(s *disk.Store, name string, f *fault.Error) *fault.Error {
	refs, _ := s.Refs()
	var names []string
	for _, r := range refs {
		names = append(names, r.Name)
	}
	return f.Near(name, names).Try("rye store refs")
}

// CompleteObjects returns the refs of the store for completion.
func CompleteObjects(a *cli.App) []cli.Candidate {
	s, err := ReadStore(a)
	if err != nil {
		return nil
	}
	defer s.Close()
	refs, _ := s.Refs()
	return cli.Offer(refs, func(r disk.Ref) (string, string) {
		return r.Name, r.ID.Kind.String() + " " + r.ID.Digest.Short()
	})
}

// readObject reads a whole object of limited size: a tree or a document.
func readObject(ctx context.Context, s cas.Getter, id cas.ID) ([]byte, error) {
	o, err := s.Get(ctx, id)
	if err != nil {
		return nil, err
	}
	defer o.Close()
	return io.ReadAll(o)
}
