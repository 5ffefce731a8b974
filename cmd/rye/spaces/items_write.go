package spaces

import (
	"context"
	"errors"
	"io/fs"
	"path"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/manifest/exam"
)

// Subject returns what an item's signatures are about. An item whose directory doesn't exist yet has no tree.
func (v *Items) Subject(ctx context.Context, it *ai.Item) (exam.Subject, error) {
	if _, err := fs.Stat(it.Space.FS, path.Dir(it.Path)); errors.Is(err, fs.ErrNotExist) {
		return exam.Subject{Name: it.Ref.String(), Style: it.Kind.Style(it.Path)}, nil
	}
	s, _, err := v.Admit.Subject(ctx, it)
	return s, err
}

// WarnTrees warns of signatures that a file, written or removed, invalidates.
func (v *Items) WarnTrees(ctx context.Context, s *ai.Space, p string, but ...model.Ref) {
	for _, ref := range v.Disturbed(ctx, s, p, but...) {
		v.App.Term.Warn("%q is one of the files of %q, whose signature is no longer valid: rye sign %s", v.Place(s, p), ref, fault.Quote(ref.String()))
	}
}
