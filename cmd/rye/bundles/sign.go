// The flag --sign of rye bundle create.

package bundles

import (
	"context"
	"time"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/bundle/find"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/signs"
	locked "github.com/rye-build/rye/lock/update"
	"github.com/rye-build/rye/lock/workspace"
	"github.com/rye-build/rye/manifest/policy"
)

// signItems signs items before the bundle is created: the named ones, or the changed ones that this key signed
// before.
func (m *maker) signItems(ctx context.Context) (cli.Answer, error) {
	old := m.previous()
	s := &signs.Resigner{
		App: m.app, Key: m.key, Flag: m.run.KeyFlag, DryRun: m.run.DryRun,
		Includes: func(path string) bool { return m.recipe.Includes(workspace.MarkerDir + "/" + path) },
		Before:   func(ctx context.Context, it *ai.Item) []byte { return m.listedBytes(ctx, old, it) },
	}
	signed, problems, err := s.Sign(ctx, m.run.Refs)
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

// previous returns the last manifest of the bundle if the policy admits it, else nil. It lists the digests of the
// items as they were signed.
func (m *maker) previous() *bundle.Bundle {
	old, err := find.ReadManifest(m.dir, m.recipe.ID)
	if err != nil {
		return nil
	}
	e, err := m.trust.Exam().ExamineDocument(&old.Document, time.Time{}, policy.ToUse)
	if err != nil || !e.Decision.Allowed {
		return nil
	}
	return old
}

// listedBytes returns the bytes of an item in the last manifest, or nil if the store no longer has them.
func (m *maker) listedBytes(ctx context.Context, old *bundle.Bundle, it *ai.Item) []byte {
	if old == nil || m.store == nil {
		return nil
	}
	f, ok := old.File(workspace.MarkerDir + "/" + it.Path)
	if !ok {
		return nil
	}
	return locked.SignedBytes(ctx, m.store, f.Digest)
}
