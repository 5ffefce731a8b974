package lock

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/bundle/diff"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/lock/file"
	"github.com/rye-build/rye/manifest"
)

// A Comparison holds every difference between two locks.
type Comparison struct {
	Changes []file.Change `json:"changes,omitempty"` // entry by entry
	Report  *diff.Report  `json:"report"`            // in meaning: the items, and the files that come with them
}

// Compare compares two locks. The report names unreadable parts of either; an error is the context's.
func Compare(ctx context.Context, from, to *Side) (*Comparison, error) {
	c := &Comparison{Changes: file.Diff(from.lock, to.lock)}
	var err error
	c.Report, err = diff.Diff(ctx, from.asBundle(to), to.asBundle(from))
	return c, err
}

// asBundle returns a side as if all pins were files of one bundle. Items keep their paths in their spaces, and other
// files of bundles are below the space's name. An item whose place is unknown gets the other side's place.
func (s *Side) asBundle(other *Side) diff.Side {
	var files []manifest.File
	used := map[string]bool{}
	add := func(f manifest.File) {
		if !used[f.Path] {
			used[f.Path] = true
			files = append(files, f)
		}
	}
	for i := range s.lock.Pins {
		pin := &s.lock.Pins[i]
		at, ok := s.places[pin.Ref]
		if !ok {
			if at, ok = other.places[pin.Ref]; !ok {
				at.path = path.Join(pin.Ref.Kind, pin.Ref.ID)
			}
			at.size, at.mode = pin.Size, cas.File
		}
		add(manifest.File{Path: dotAI + at.path, Digest: pin.Digest, Size: at.size, Mode: at.mode,
			Ref: pin.Ref.String(), Version: pin.Version})
	}
	own := map[string]bool{}
	for _, at := range s.places {
		own[at.space+"/"+at.path] = true
	}
	for label, list := range s.files {
		for _, f := range list {
			in := strings.TrimPrefix(f.Path, dotAI)
			if own[label+"/"+in] {
				continue
			}
			f.Path, f.Ref, f.Version = label+"/"+in, "", ""
			if label == file.FromProject {
				f.Path = dotAI + in
			}
			add(f)
		}
	}
	return side(file.Name, s.id, files, s.getter(), s.std)
}

// side returns a side for package diff.
func side(name string, id cas.Digest, files []manifest.File, get cas.Getter, std *ai.Space) diff.Side {
	slices.SortFunc(files, func(a, b manifest.File) int { return strings.Compare(a.Path, b.Path) })
	l := &manifest.FileList{Document: manifest.Document{Name: name, ID: id}, Files: len(files)}
	for i := range files {
		l.Bytes += files[i].Size
	}
	out := diff.Side{Bundle: &bundle.Bundle{FileList: l, Files: files}, Files: get}
	if std != nil {
		out.Below = []*ai.Space{std}
	}
	return out
}

// CompareItem compares one pinned item with a view of the working tree, for an item of the project together with its
// files. An item that the view lacks counts as removed.
func CompareItem(ctx context.Context, locked *Side, working *ai.View, admit *ai.Admitter, ref model.Ref) (*diff.Report,
	error) {
	pin := locked.lock.Pin(ref)
	if pin == nil {
		return nil, &NotLockedError{Ref: ref, Err: &ai.NotFoundError{Ref: ref}}
	}
	at := locked.places[ref]
	was := []manifest.File{{Path: dotAI + at.path, Digest: pin.Digest, Size: at.size, Mode: at.mode, Ref: ref.String(),
		Version: pin.Version}}
	if d := locked.trees[pin.Files]; d != nil {
		for _, f := range d.files {
			if f.Path != at.path {
				f.Path = dotAI + f.Path
				was = append(was, f)
			}
		}
	}
	it, err := working.Find(ctx, ref)
	if _, gone := errors.AsType[*ai.NotFoundError](err); err != nil && !gone {
		return nil, err
	}
	w := workingCopy{}
	var is []manifest.File
	if it != nil {
		if is, err = w.read(ctx, admit, it, !pin.Files.IsZero() || it.Space.Level != ai.System); err != nil {
			return nil, err
		}
	}
	return diff.Diff(ctx, side(file.Name, locked.id, was, locked.getter(), locked.std),
		side("the working tree", w.id, is, w, locked.std))
}

// A workingCopy is an item of the working tree, as read, and the other files of its tree.
type workingCopy struct {
	id    cas.Digest
	bytes []byte
	in    *ai.Space
	files map[cas.Digest]manifest.File // their paths are in the space
}

// read returns the files of an item of the working tree.
func (w *workingCopy) read(ctx context.Context, admit *ai.Admitter, it *ai.Item, whole bool) ([]manifest.File,
	error) {
	w.id, w.bytes, w.in, w.files = it.Raw, it.Bytes, it.Space, map[cas.Digest]manifest.File{}
	mode, err := ModeOf(it.Space, it.Path)
	if err != nil {
		return nil, err
	}
	all := []manifest.File{{Path: dotAI + it.Path, Digest: it.Raw, Size: int64(len(it.Bytes)), Mode: mode,
		Ref: it.Ref.String(), Version: it.Model.Version}}
	if !whole {
		return all, nil
	}
	anchor, err := admit.Anchor(ctx, it)
	if err != nil || anchor == nil {
		return all, err
	}
	t, err := admit.Tree(ctx, it)
	if err != nil || t == nil {
		return all, err
	}
	for _, f := range t.Files {
		file := manifest.File{Path: path.Join(anchor.Dir, f.Path), Digest: f.Raw, Size: f.Size, Mode: f.Mode}
		w.files[f.Raw] = file
		file.Path = dotAI + file.Path
		all = append(all, file)
	}
	return all, nil
}

// Get implements cas.Getter for the item and the other files.
func (w workingCopy) Get(_ context.Context, id cas.ID) (cas.Object, error) {
	if f, ok := w.files[id.Digest]; ok && id.Kind == cas.Blob && id.Digest != w.id {
		file, err := w.in.FS.Open(f.Path)
		if err != nil {
			return cas.Object{}, err
		}
		return cas.Verify(cas.Info{ID: id, Size: f.Size}, file), nil
	}
	if id != (cas.ID{Kind: cas.Blob, Digest: w.id}) {
		return cas.Object{}, &fs.PathError{Op: "get", Path: id.String(), Err: fs.ErrNotExist}
	}
	return cas.Verify(cas.Info{ID: id, Size: int64(len(w.bytes))}, io.NopCloser(bytes.NewReader(w.bytes))), nil
}
