package bundle

import (
	"context"

	"github.com/rye-build/rye/cas"
)

// Open reads a bundle from where it is, believes none of it, and calls use with what its manifest says and with the
// bytes of its items, of the files beside them and of evidence. These are named by the digests of the manifest and held
// against them as they are read, until use returns. A bundle without a manifest, and an archive that is damaged, is an
// error, a *Failure.
func Open(ctx context.Context, src Source, tempDir string, use func(*Bundle, cas.Getter) error) error {
	return src.look(ctx, &VerifyOptions{TempDir: tempDir}, func(l *look) error {
		if len(l.failures) > 0 {
			return l.failures[0]
		}
		return use(l.bundle, l.getter)
	})
}
