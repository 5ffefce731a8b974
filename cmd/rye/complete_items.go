package main

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/rye-build/rye/ai"
)

// Whoever presses Tab waits: what takes longer than completeTime is not offered, nor more than maxOffered refs. A few
// files are read, to leave out what is no item.
const (
	completeTime = 400 * time.Millisecond
	maxOffered   = 2000
	maxRead      = 200
)

// completeRefs offers the refs that begin with what is typed, of what this user may change alone if own; the kinds
// where not even a kind is typed. It goes by the names of files.
func (a *app) completeRefs(ctx context.Context, prefix string, own bool) (out []candidate) {
	kind, _, typed := strings.Cut(prefix, ":")
	if !typed {
		for _, k := range a.completeKinds(ctx) {
			out = append(out, candidate{k.Value + ":", k.Help})
		}
		return out
	}
	ctx, cancel := context.WithTimeout(ctx, completeTime)
	defer cancel()
	v, err := a.items(ctx)
	if err != nil {
		return nil
	}
	defer v.close()
	if _, ok := v.Kind(kind); !ok {
		return nil
	}
	l, err := v.Files(ctx, kind)
	if err != nil {
		return nil
	}
	l.Files = slices.DeleteFunc(l.Files, func(f ai.File) bool {
		return !strings.HasPrefix(f.Ref.String(), prefix) || own && f.Space != v.own()
	})
	if len(l.Files) <= maxRead {
		assets := make([]bool, len(l.Files))
		if err := v.each(ctx, l.Files, func(i int, _ *ai.Item, err error) { assets[i] = errors.Is(err, ai.ErrAsset) }); err == nil {
			for i, asset := range assets {
				if asset {
					l.Files[i].ID = ""
				}
			}
		}
	}
	for _, f := range l.Files {
		// The spaces with an item of one id follow each other.
		if ref := f.Ref.String(); f.ID != "" && len(out) < maxOffered && (len(out) == 0 || out[len(out)-1].Value != ref) {
			out = append(out, candidate{ref, f.Space.Label})
		}
	}
	return out
}

// completeKinds offers the kinds there are.
func (a *app) completeKinds(ctx context.Context) (out []candidate) {
	v, err := a.items(ctx)
	if err != nil {
		return nil
	}
	defer v.close()
	for _, k := range v.Kinds() {
		out = append(out, candidate{k.Name, "items in " + k.Dir})
	}
	return out
}
