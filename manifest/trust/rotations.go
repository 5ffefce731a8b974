package trust

import (
	"context"
	"path/filepath"
	"strings"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/manifest/rollback"
)

// CheckOnce refuses a rotation that was carried out before.
func (k Lists) CheckOnce(s rollback.Step) error {
	if k.Err != nil {
		return k.Err
	}
	return k.Journal().CheckOnce(s)
}

// Once records a rotation, which can be carried out a single time.
func (k Lists) Once(ctx context.Context, s rollback.Step) error {
	if k.Err != nil {
		return k.Err
	}
	return k.Journal().Once(ctx, s)
}

// RotationStep is what the journal records of a rotation in this policy. Other policies may still take the same document.
func (au *Authority) RotationStep(name string, id cas.Digest, at time.Time) rollback.Step {
	path := au.Path
	if to, err := filepath.EvalSymlinks(path); err == nil {
		path = to
	}
	return rollback.Step{Source: "policy:" + strings.ToValidUTF8(path, "?"), Name: name, ID: id, At: at}
}
