package lock

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/ai/value"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/lock/file"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/admission"
	"github.com/rye-build/rye/manifest/policy"
)

// View returns a view of the set in which only pinned extractors and the library's count. mayOverride is as in
// ai.Options. It fails if an extractor without a pin would change the meaning of pinned items.
func (s *Set) View(ctx context.Context, trust ai.Examiner, mayOverride func(name string) bool) (*ai.View, error) {
	view, err := ai.NewView(ctx, ai.Options{Spaces: s.spaces, Trust: s.Examiner(trust), MayOverride: mayOverride})
	if err != nil {
		return nil, err
	}
	var wrong []error
	for _, w := range view.Warnings() {
		if p, ok := errors.AsType[*value.Problem](w.Err); ok && p.Warning {
			continue
		}
		if pin := s.Pin(w.Ref); pin != nil && pin.From == w.Space.Label {
			wrong = append(wrong, inPin(w.Ref, w.Err))
		}
	}
	checked := map[string]bool{}
	for i := range s.lock.Pins {
		name := s.lock.Pins[i].Ref.Kind
		if checked[name] {
			continue
		}
		checked[name] = true
		k, ok := view.Kind(name)
		if !ok || k.From == "" {
			continue // then resolving fails, or finds an item that the kernel knows
		}
		by := model.Ref{Kind: "tool", ID: k.From}
		if s.Pin(by) == nil {
			wrong = append(wrong, fmt.Errorf("items of kind %q are read by %q: %w", name, by,
				&NotLockedError{Ref: by}))
		}
	}
	return view, errors.Join(wrong...)
}

// Resolver returns a resolver that finds only pinned items, in a view that View made. In addition to a view's errors
// it returns *NotLockedError, and LOCK_MISMATCH for an item that differs from its pin.
func (s *Set) Resolver(v *ai.View) ai.Resolver { return resolver{s, v} }

type resolver struct {
	set  *Set
	view *ai.View
}

// Resolve implements ai.Resolver. The view resolves the ref first, so that the reach of items and the rule for
// overriding the library are the same as without a lock. The result must then match the pin.
func (r resolver) Resolve(ctx context.Context, ref model.Ref, from *ai.Space) (*ai.Item, error) {
	pin := r.set.Pin(ref)
	if pin == nil {
		return nil, &NotLockedError{Ref: ref, Err: &ai.NotFoundError{Ref: ref}}
	}
	it, err := r.view.Resolve(ctx, ref, from)
	if _, ok := errors.AsType[*ai.NotFoundError](err); ok {
		return nil, &NotLockedError{ref, pin.From, err}
	}
	if err != nil {
		return nil, err
	}
	if err := r.set.match(pin, it); err != nil {
		return nil, err
	}
	return it, nil
}

// match compares an item with its pin.
func (s *Side) match(pin *file.Pin, it *ai.Item) error {
	differ := func(what, expected, found string) error {
		return mismatch(pin.Ref, what, expected, found)
	}
	version := it.Model.Version
	if manifest.CheckVersion(version) != nil {
		version = "" // which a lock can't say
	}
	switch {
	case it.Space.Label != pin.From:
		return differ("space", pin.From, it.Space.Label)
	case it.Path != s.places[pin.Ref].path:
		return differ("path", s.places[pin.Ref].path, it.Path)
	case it.Raw != pin.Digest:
		return differ("digest", pin.Digest.String(), it.Raw.String())
	case version != pin.Version:
		return differ("version", pin.Version, version)
	}
	taken, err := it.Model.Interface().Hash()
	if err != nil {
		return inPin(pin.Ref, err)
	}
	wanted, err := it.Model.Grants().Hash()
	if err != nil {
		return inPin(pin.Ref, err)
	}
	// An item without an interface or grants may be pinned with or without their hash.
	switch {
	case taken != pin.Interface && !(pin.Interface.IsZero() && taken == nothing):
		return differ("interface", file.DigestText(pin.Interface), taken.String())
	case wanted != pin.Grants && !(pin.Grants.IsZero() && wanted == nothing):
		return differ("grants", file.DigestText(pin.Grants), wanted.String())
	}
	return nil
}

// nothing is the hash of an empty interface or of empty grants.
var nothing = cas.Sum([]byte("{}"))

// Examiner returns an examiner that asks t about pinned items. It denies all others except those built into the
// binary, and config, which CheckConfig checks. It returns nil for nil.
func (s *Set) Examiner(t ai.Examiner) ai.Examiner {
	if t == nil {
		return nil
	}
	return examiner{s, t}
}

type examiner struct {
	set   *Set
	trust ai.Examiner
}

func (x examiner) Examine(subject admission.Subject, r io.ReadSeeker, purpose policy.Purpose) (*admission.Exam,
	error) {
	exam, err := x.trust.Examine(subject, r, purpose)
	if err != nil || subject.Kind() == config {
		return exam, err
	}
	ref, err := model.ParseRef(subject.Name)
	if err != nil {
		return exam, err
	}
	switch pin := x.set.Pin(ref); {
	case pin == nil && subject.Voucher == policy.Builtin:
	case pin == nil:
		return exam, &NotLockedError{Ref: ref, Err: &ai.NotFoundError{Ref: ref}}
	case exam.Signed.Raw != pin.Digest:
		return exam, mismatch(ref, "digest", pin.Digest.String(), exam.Signed.Raw.String())
	case subject.Tree != pin.Tree:
		return exam, mismatch(ref, "tree", file.DigestText(pin.Tree), file.DigestText(subject.Tree))
	}
	return exam, nil
}
