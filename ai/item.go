package ai

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/ai/nofollow"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/statcache"
	"github.com/rye-build/rye/manifest/sign"
)

// An Item is an item's file, read once: the bytes that were hashed are the bytes that were parsed.
type Item struct {
	File
	Bytes    []byte
	Raw      cas.Digest // of Bytes
	Stripped cas.Digest // of Bytes without signature lines; zero with Broken
	Broken   error      // the error of sign.Read about the signature lines
	Signed   sign.Signed
	Model    *model.Model // the parsed content; problems are in Model.Problems
}

// Load reads a file. An error is an *ItemError that wraps ErrAsset if the file is not an item, and also ErrGone if
// the file was removed.
func (v *View) Load(ctx context.Context, f File) (*Item, error) {
	it, err := v.Read(ctx, f)
	if err != nil || !it.Raw.IsZero() {
		return it, err
	}
	it.Signed, it.Broken = sign.ReadBytes(it.Bytes, f.Kind.Style(f.Path))
	if it.Raw, it.Stripped = it.Signed.Raw, it.Signed.Stripped; it.Broken != nil {
		it.Raw, it.Stripped = cas.Sum(it.Bytes), cas.Digest{}
	}
	f.Space.cache(f, it)
	return it, nil
}

// Read is Load for callers that need no digests and signatures: it mostly leaves them out, and then Raw is zero.
func (v *View) Read(ctx context.Context, file File) (*Item, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	b, err := file.Space.Read(file.Path)
	if err == nil {
		v.loaded.Add(1)
		v.bytes.Add(int64(len(b)))
		if it := file.Space.cached(file, b); it != nil {
			return it, nil
		}
		if file.Kind.Marked(file.Path, b) {
			if m := file.Kind.Read(file.Ref, file.Path, b); m.Marked {
				return &Item{File: file, Bytes: b, Model: m}, nil
			}
		}
		err = ErrAsset
	}
	return nil, &ItemError{Ref: file.Ref, Space: file.Space, Path: file.Path, Err: err}
}

// Each loads files and calls f for each with its index, from several goroutines, until ctx ends.
func (v *View) Each(ctx context.Context, files []File, f func(i int, it *Item, err error)) error {
	defer v.Hold()()
	return cas.Parallel(ctx, 0, len(files), func(ctx context.Context, i int) error {
		it, err := v.Load(ctx, files[i])
		f(i, it, err)
		return nil
	})
}

// Hold keeps directories open, as nofollow.FS.Hold does, for an operation that reads many items.
func (v *View) Hold() (release func()) {
	var all []func()
	for _, s := range v.spaces {
		if d, ok := s.FS.(*nofollow.FS); ok {
			all = append(all, d.Hold())
		}
	}
	return func() {
		for _, release := range all {
			release()
		}
	}
}

// Counts returns how many items were read so far, and their bytes.
func (v *View) Counts() (items, bytes int64) { return v.loaded.Load(), v.bytes.Load() }

// Find returns the item of a ref, from the highest space that has one. An error is a *NotFoundError with similar
// names, an *AmbiguousError, a *ShadowError, or an *ItemError about a file in the item's place.
func (v *View) Find(ctx context.Context, ref model.Ref) (*Item, error) {
	it, err := v.Resolve(ctx, ref, nil)
	if missing, ok := errors.AsType[*NotFoundError](err); ok {
		missing.Near = v.near(ctx, ref)
	}
	return it, err
}

// Resolve returns the item of a ref for an item in from, out of that space or a lower one, as a Resolver does; a nil
// from is a caller outside. Its errors are those of Find.
func (v *View) Resolve(ctx context.Context, ref model.Ref, from *Space) (*Item, error) {
	var reach, above []*Space
	for _, s := range v.spaces {
		if from == nil || from.mayUse(s) {
			reach = append(reach, s)
		} else if s.Level > from.Level {
			above = append(above, s)
		}
	}
	// Spaces out of reach must not matter, even if their items are broken.
	all, assets, err := v.search(ctx, ref, reach)
	switch {
	case err != nil:
		return nil, err
	case len(all) > 0:
		return v.front(all)
	}
	missing := &NotFoundError{Ref: ref, Assets: assets}
	if all, _, err := v.search(ctx, ref, above); err == nil && len(all) > 0 {
		missing.Above = all[0].Space.Label
	}
	return nil, missing
}

// mayUse reports whether items of s may use those of o: their own space, lower levels, and of system spaces the
// required ones. A pinned space and the one on disk are the same space.
func (s *Space) mayUse(o *Space) bool {
	if s == o || s.Label == o.Label && s.Level == o.Level || o.Level < s.Level {
		return true
	}
	return o.Level == System && s.Level == System && (o.Builtin || slices.Contains(s.Requires, o.Label))
}

// front returns the first of the items with one id, sorted from the highest space to the lowest, if it may hide the
// others.
func (v *View) front(all []*Item) (*Item, error) {
	var hidden, same []File
	for _, it := range all {
		if it != all[0] {
			hidden = append(hidden, it.File)
		}
		// The library is below all bundles, so an item that may hide one of the library's isn't ambiguous with it.
		if it.Space.Level == all[0].Space.Level && !(it.Space.Builtin && Protected(it.ID)) {
			same = append(same, it.File)
		}
	}
	if len(hidden) == 0 {
		return all[0], nil
	}
	if err := v.mayHide(all[0].File, hidden...); err != nil {
		return nil, err
	}
	if len(same) > 1 {
		return nil, ambiguous(same)
	}
	return all[0], nil
}

// Protected reports whether an id is below rye/, in any case: some systems ignore case.
func Protected(id string) bool {
	first, _, _ := strings.Cut(id, "/")
	return strings.EqualFold(first, "rye")
}

// All returns the items of a ref in all spaces, from the highest to the lowest: the first hides the others. Without
// items it returns no error. It fails if a space can't be read.
func (v *View) All(ctx context.Context, ref model.Ref) ([]*Item, error) {
	all, _, err := v.search(ctx, ref, v.spaces)
	return all, err
}

// search returns the items of a ref in some spaces, and the places of files that lack only the marker.
func (v *View) search(ctx context.Context, ref model.Ref, spaces []*Space) (all []*Item, assets []string, err error) {
	k, ok := v.Kind(ref.Kind)
	if !ok {
		return nil, nil, v.noKind(ref)
	}
	if _, err := v.PathFor(ref, k.Extensions[0]); err != nil {
		return nil, nil, err
	}
	for _, s := range spaces {
		found, other, err := v.in(ctx, s, k, ref)
		if err != nil {
			return nil, nil, err
		}
		if len(found) > 1 {
			return nil, nil, ambiguous(collect(found, func(it *Item) File { return it.File }))
		}
		all, assets = append(all, found...), append(assets, other...)
	}
	return all, assets, nil
}

func (v *View) noKind(ref model.Ref) error {
	return fmt.Errorf("%q: unknown kind %q: expected one of %s", ref, ref.Kind, strings.Join(v.kindNames(), ", "))
}

// in returns the items of a ref in one space: at most one in a valid space.
func (v *View) in(ctx context.Context, space *Space, k *model.Kind, ref model.Ref) (found []*Item, assets []string,
	err error) {
	dir, name := path.Split(k.Dir + "/" + ref.ID)
	dir = path.Clean(dir)
	lstat, done, err := space.folder(dir)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, nofollow.ErrNoDir) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, &ItemError{Ref: ref, Space: space, Path: dir, Err: err}
	}
	defer done()
	for _, ext := range k.Extensions {
		file := File{Ref: ref, Kind: k, Space: space, Path: path.Join(dir, name+ext)}
		info, err := lstat(name + ext)
		if errors.Is(err, fs.ErrNotExist) || err == nil && info.IsDir() {
			continue
		}
		if err != nil {
			return nil, nil, &ItemError{Ref: ref, Space: space, Path: file.Path, Err: err}
		}
		file.Stat = statcache.StampOf(info)
		it, err := v.Load(ctx, file)
		if errors.Is(err, ErrGone) {
			continue
		}
		if errors.Is(err, ErrAsset) {
			assets = append(assets, space.where(file.Path))
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		found = append(found, it)
	}
	if len(found) > 0 {
		return found, nil, nil
	}
	for _, ext := range NeverItems {
		if _, err := lstat(name + ext); err == nil {
			assets = append(assets, space.where(path.Join(dir, name+ext)))
		}
	}
	return nil, assets, nil
}

// NeverItems are extensions of tools in RYE that are never items here.
var NeverItems = []string{".json", ".toml"}

// PathFor returns the path of a ref's item in a space, with the extension ext.
func (v *View) PathFor(ref model.Ref, ext string) (string, error) {
	k, ok := v.Kind(ref.Kind)
	if !ok {
		return "", v.noKind(ref)
	}
	p := k.Dir + "/" + ref.ID + ext
	switch got, err := k.RefOf(p); {
	case err != nil:
		return "", err
	case got != ref || ext != strings.ToLower(ext):
		return "", fmt.Errorf("%q is no item of the file %+q", ref, p)
	}
	return p, nil
}

// At returns the item at a path in a space, such as "tools/rye/bash/bash.py".
func (v *View) At(s *Space, path string) (File, error) {
	dir, _, _ := strings.Cut(path, "/")
	for _, k := range v.kinds {
		if k.Dir != dir && !strings.HasPrefix(path, k.Dir+"/") {
			continue
		}
		ref, err := k.RefOf(path)
		if err == nil {
			err = misspelt(k, path)
		}
		return File{Ref: ref, Kind: k, Space: s, Path: path}, err
	}
	return File{}, fault.New(fault.Validation, "path %q is in no directory of a kind: %s", path,
		strings.Join(v.kindDirs(), ", ")).On("reason", "validation-failed")
}
