package main

import (
	"context"
	"io"
	"time"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/manifest/policy"
)

// signItems signs items before the bundle is made: those that are named, or those that this key has signed before.
func (m *making) signItems(ctx context.Context) (answer, error) {
	old := m.previous()
	s := &resigner{
		app: m.app, key: m.key, flag: m.run.keyFlag, dryRun: m.run.DryRun,
		includes: func(path string) bool { return m.recipe.Includes(markerDir + "/" + path) },
		before:   func(ctx context.Context, it *ai.Item) []byte { return m.listedBytes(ctx, old, it) },
	}
	signed, problems, err := s.sign(ctx, m.run.Refs)
	m.answer.Signed = append(m.answer.Signed, signed...)
	m.answer.Problems = append(m.answer.Problems, problems...)
	if err == nil {
		return nil, nil
	}
	if len(problems) > 0 {
		return m.answer, err
	}
	return nil, err
}

// previous is the last manifest of the bundle, if the policy admits it: it names the bytes that were signed.
func (m *making) previous() *bundle.Bundle {
	old, err := readManifest(m.found.root.root, m.recipe.ID)
	if err != nil {
		return nil
	}
	e, err := m.trust.exam().ExamineDocument(&old.Document, time.Time{}, policy.ToUse)
	if err != nil || !e.Decision.Allowed {
		return nil
	}
	return old
}

// listedBytes are the bytes that an item had in the last manifest, if the store still has them.
func (m *making) listedBytes(ctx context.Context, old *bundle.Bundle, it *ai.Item) []byte {
	if old == nil || m.store == nil {
		return nil
	}
	f, ok := old.File(markerDir + "/" + it.Path)
	if !ok {
		return nil
	}
	return signedBytes(ctx, m.store, f.Digest)
}

// signedBytes reads what was signed once; nil where it isn't to be had.
func signedBytes(ctx context.Context, src cas.Getter, d cas.Digest) []byte {
	o, err := src.Get(ctx, cas.ID{Kind: cas.Blob, Digest: d})
	if err != nil {
		return nil
	}
	defer o.Close()
	b, err := io.ReadAll(io.LimitReader(o, maxSigned))
	if err != nil {
		return nil
	}
	return b
}
