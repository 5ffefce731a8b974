package lock

import (
	"context"
	"io/fs"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/ai/semver"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/lock/file"
	"github.com/rye-build/rye/manifest"
)

// Library is the id of the bundle that is part of rye. Request.Update uses it for the items in the binary.
const Library = "rye/std"

// A library holds the binary's items that a lock pins.
type library struct {
	space  *ai.Space // nil without a library
	places map[model.Ref]place
	wrong  []StdItem

	view  *ai.View // made for the first tree: it is the slowest part
	admit *ai.Admitter
}

// read reads every item that is pinned from the library. Its view has the library alone, as in every project: no
// higher space decides which files belong to its items.
func (l *library) read(ctx context.Context, of *file.Lock) error {
	l.places = map[model.Ref]place{}
	kinds := map[string]*model.Kind{}
	for _, k := range model.Builtin() {
		kinds[k.Name] = k
	}
	for i := range of.Pins {
		pin := &of.Pins[i]
		if pin.From != file.FromStd {
			continue
		}
		if err := l.item(ctx, kinds[pin.Ref.Kind], pin); err != nil {
			return err
		}
	}
	return nil
}

// item compares a pin with the item in the library. Bytes with the pinned digest are a valid item, since they were
// when they were pinned.
func (l *library) item(ctx context.Context, k *model.Kind, pin *file.Pin) error {
	bad := StdItem{Ref: pin.Ref, Expected: pin.Digest}
	at := place{space: file.FromStd, mode: cas.File}
	if k != nil && l.space != nil {
		for _, ext := range k.Extensions {
			b, err := fs.ReadFile(l.space.FS, k.Dir+"/"+pin.Ref.ID+ext)
			if err != nil {
				continue
			}
			at.path, at.size, bad.Found = k.Dir+"/"+pin.Ref.ID+ext, int64(len(b)), cas.Sum(b)
			if bad.Found == pin.Digest {
				break
			}
		}
	}
	if bad.Found == pin.Digest && !pin.Tree.IsZero() {
		bad.Expected, bad.Tree = pin.Tree, true
		bad.Found, bad.Err = l.tree(ctx, pin.Ref)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	if bad.Found == bad.Expected {
		l.places[pin.Ref] = at
	} else {
		l.wrong = append(l.wrong, bad)
	}
	return nil
}

// tree returns the digest of the files of a library item's tree.
func (l *library) tree(ctx context.Context, ref model.Ref) (digest cas.Digest, err error) {
	if l.view == nil {
		if l.view, err = ai.NewView(ctx, ai.Options{Spaces: []*ai.Space{l.space}}); err != nil {
			return digest, err
		}
		l.admit = ai.NewAdmitter(l.view, nil)
		l.admit.KeepTrees()
	}
	it, err := l.view.Resolve(ctx, ref, nil)
	if err != nil {
		return digest, err
	}
	t, err := l.admit.Tree(ctx, it)
	if t != nil {
		digest = t.Digest
	}
	return digest, err
}

// checkRequire compares a bundle's requirement with the locked bundles. The library's version doesn't matter: its
// pins have digests.
func (a *assembly) checkRequire(by *file.Bundle, r manifest.Require) error {
	if file.System+r.BundleID == file.FromStd {
		return nil
	}
	versions, err := semver.Parse(r.Version)
	if err != nil {
		return inBundle(by.ID, by.Version, err)
	}
	if b := a.lock.Bundle(r.BundleID); b == nil || !versions.Contains(b.Version) {
		return Unmet(BundleName(by.ID, by.Version), r.BundleID, r.Version, versionOf(b))
	}
	return nil
}
