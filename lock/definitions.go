package lock

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/lock/closure"
	"github.com/rye-build/rye/lock/file"
)

// Config returns the config of a name, merged from all spaces of a view that View made. It must match the lock, or be
// missing there and come from the library alone. Otherwise the error is one of ai.View.Config, a *NotLockedError, or
// LOCK_MISMATCH.
func (s *Set) Config(ctx context.Context, view *ai.View, admitter *ai.Admitter, name string) (*ai.Merged, error) {
	ref := model.Ref{Kind: config, ID: name}
	pin, defined := s.Pin(ref), s.definition(ref.String())
	if pin == nil && defined == nil {
		if m, err := view.Config(ctx, admitter, name); err == nil && len(m.Layers) == 1 && m.Layers[0].Space.Builtin {
			return m, nil
		}
	}
	if pin == nil || defined == nil {
		return nil, &NotLockedError{Ref: ref, Err: &ai.NotFoundError{Ref: ref}}
	}
	merged, err := view.Config(ctx, admitter, name)
	if err != nil {
		return nil, err
	}
	if err := s.match(pin, merged.Layers[len(merged.Layers)-1]); err != nil {
		return nil, err
	}
	found, err := closure.ConfigDigest(merged.Value)
	if err != nil {
		return nil, inPin(ref, err)
	}
	if found != defined.Digest {
		return nil, mismatch(ref, "definition", defined.Digest.String(), found.String())
	}
	return merged, nil
}

func (s *Set) definition(name string) *file.Definition {
	i, ok := slices.BinarySearchFunc(s.lock.Definitions, name, func(d file.Definition, name string) int {
		return strings.Compare(d.Name, name)
	})
	if !ok {
		return nil
	}
	return &s.lock.Definitions[i]
}

// CheckConfig returns nil if the lock and the view have the same config. The errors are those of Config, joined.
func (s *Set) CheckConfig(ctx context.Context, view *ai.View, admitter *ai.Admitter) error {
	listing, err := view.Files(ctx, config)
	if err != nil {
		return err
	}
	names := map[string]bool{}
	for _, f := range listing.Files {
		// Config that only the library has isn't pinned unless an item reaches it.
		if !f.Space.Builtin {
			names[f.ID] = true
		}
	}
	for i := range s.lock.Pins {
		if ref := s.lock.Pins[i].Ref; ref.Kind == config {
			names[ref.ID] = true
		}
	}
	for i := range s.lock.Definitions {
		if id, ok := strings.CutPrefix(s.lock.Definitions[i].Name, config+":"); ok {
			names[id] = true
		}
	}
	var wrong []error
	for _, p := range listing.Problems {
		wrong = append(wrong, p)
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if _, err := s.Config(ctx, view, admitter, name); err != nil {
			wrong = append(wrong, err)
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return errors.Join(wrong...)
}
