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

// Library is the bundle that is part of rye: what Request.Update calls the items that the binary has.
const Library = "rye/std"

// A library is what the binary has of what a lock pins from it.
type library struct {
	space  *ai.Space // nil if there is none
	places map[model.Ref]place
	wrong  []StdItem

	view  *ai.View // made when a tree is looked for: it takes longer than all else here
	admit *ai.Admitter
}

// read looks at everything that is pinned from the library. It is seen alone, as it is in every project: nothing above
// has a say in what belongs to an item of it.
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

// item holds a pin against the item in the library. The bytes of a file with the pinned digest are an item, since they
// were one when they were pinned.
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

// tree returns the digest of the files that come with an item of the library.
func (l *library) tree(ctx context.Context, ref model.Ref) (d cas.Digest, err error) {
	if l.view == nil {
		if l.view, err = ai.NewView(ctx, ai.Options{Spaces: []*ai.Space{l.space}}); err != nil {
			return d, err
		}
		l.admit = ai.NewAdmitter(l.view, nil)
		l.admit.KeepTrees()
	}
	it, err := l.view.Resolve(ctx, ref, nil)
	if err != nil {
		return d, err
	}
	t, err := l.admit.Tree(ctx, it)
	if t != nil {
		d = t.Digest
	}
	return d, err
}

// checkRequire holds what a bundle requires against what is locked. The library has no version that matters: what is
// pinned of it has digests.
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
