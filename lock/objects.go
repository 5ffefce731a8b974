package lock

import (
	"cmp"
	"context"
	"slices"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/lock/file"
	"github.com/rye-build/rye/manifest"
)

// An Object is an object that a set needs.
type Object struct {
	cas.ID
	Size       int64
	NeededBy   string              // a ref, or bundle:ID@VERSION; the first of several
	Signatures manifest.Signatures // the known signatures of a document
}

// Objects returns every object that the set needs outside of the binary, each once, sorted by kind and digest. It
// doesn't check that they exist. Of a bundle it has the files of the set, of a plugin all files and the evidence.
func (s *Set) Objects(ctx context.Context) ([]Object, error) {
	var all []Object
	for i, b := range s.bundles {
		// Its length isn't recorded anywhere else.
		o, err := s.get.Get(ctx, cas.ID{Kind: cas.Document, Digest: b.ID})
		if err != nil {
			return nil, err
		}
		o.Close()
		line := &s.lock.Bundles[i]
		all = append(all, Object{o.ID, o.Size, BundleName(line.ID, line.Version), b.Signatures})
	}
	s.blobs(func(neededBy string, f *manifest.File) bool {
		all = append(all, Object{ID: cas.ID{Kind: cas.Blob, Digest: f.Digest}, Size: f.Size, NeededBy: neededBy})
		return true
	})
	for i := range s.lock.Pins {
		pin := &s.lock.Pins[i]
		if d := s.trees[pin.Files]; d != nil {
			for _, o := range d.objects {
				all = append(all, Object{ID: o.ID, Size: o.Size, NeededBy: pin.Ref.String()})
			}
		}
	}
	for _, a := range s.lock.Artifacts {
		all = append(all, Object{ID: cas.ID{Kind: cas.Blob, Digest: a.Digest}, Size: a.Size, NeededBy: a.String()})
	}
	return inOrder(all), ctx.Err()
}

// blobs calls visit with each file of the spaces and the item that needs it, until visit returns false.
func (s *Side) blobs(visit func(neededBy string, f *manifest.File) bool) {
	seen := map[cas.Digest]bool{}
	for i := range s.lock.Pins {
		pin := &s.lock.Pins[i]
		at, ok := s.places[pin.Ref]
		if !ok || at.space == file.FromStd {
			continue
		}
		own := manifest.File{Path: at.path, Digest: pin.Digest, Size: at.size, Mode: at.mode}
		if !visit(pin.Ref.String(), &own) {
			return
		}
		d := s.trees[pin.Files]
		if d == nil || seen[pin.Files] {
			continue
		}
		seen[pin.Files] = true
		for j := range d.files {
			if !visit(pin.Ref.String(), &d.files[j]) {
				return
			}
		}
	}
	for i := range s.lock.Bundles {
		line := &s.lock.Bundles[i]
		files := slices.Concat(s.files[file.System+line.ID], s.evidence[file.System+line.ID])
		for j := range files {
			if !visit(BundleName(line.ID, line.Version), &files[j]) {
				return
			}
		}
	}
}

// neededBy returns the item or bundle that needs an object.
func (s *Side) neededBy(id cas.ID) (who string) {
	switch id.Kind {
	case cas.Document:
		for i := range s.lock.Bundles {
			if line := &s.lock.Bundles[i]; line.Manifest == id.Digest {
				return BundleName(line.ID, line.Version)
			}
		}
	case cas.Blob:
		s.blobs(func(by string, f *manifest.File) bool {
			if f.Digest == id.Digest {
				who = by
			}
			return who == ""
		})
		for i := range s.lock.Artifacts {
			if a := &s.lock.Artifacts[i]; a.Digest == id.Digest && who == "" {
				who = a.String()
			}
		}
	}
	return cmp.Or(who, file.Name) // a tree, whose pin is reported, or signatures
}

// inOrder sorts objects and removes duplicates, keeping the first. It sorts indexes, which move faster.
func inOrder(all []Object) []Object {
	order := make([]int32, len(all))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortFunc(order, func(i, j int32) int {
		a, b := &all[i], &all[j]
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), a.Digest.Compare(b.Digest), cmp.Compare(i, j))
	})
	out := make([]Object, 0, len(all))
	for _, i := range order {
		if n := len(out); n == 0 || out[n-1].ID != all[i].ID {
			out = append(out, all[i])
		}
	}
	return out
}
