package workspace

import (
	"context"
	"sync"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/cas"
	lockfile "github.com/rye-build/rye/lock/file"
	sources "github.com/rye-build/rye/lock/source"
	"github.com/rye-build/rye/manifest/trust"
)

// A listed collects the items that admitted manifests of bundles list. Only with such a manifest does a v1 signature
// count.
type listed struct {
	mu      sync.Mutex
	bundles map[cas.Digest]bool // by their manifests
	files   map[cas.Digest]bool
}

// add adds a bundle whose manifest the policy admits.
func (l *listed) add(b *bundle.Bundle) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.bundles[b.ID] {
		return
	}
	if l.bundles == nil {
		l.bundles, l.files = map[cas.Digest]bool{}, map[cas.Digest]bool{}
	}
	l.bundles[b.ID] = true
	for i := range b.Files {
		l.files[b.Files[i].Digest] = true
	}
}

// Beside adds the items of l to a listing.
func (l *listed) Beside(asked *bundle.Listing) *bundle.Listing {
	others := asked.Listed
	asked.Listed = func(d cas.Digest) bool {
		l.mu.Lock()
		yes := l.files[d]
		l.mu.Unlock()
		return yes || others(d)
	}
	return asked
}

// AddAdmitted adds a bundle if the policy admits its manifest.
func (l *listed) AddAdmitted(t *trust.Trust, b *bundle.Bundle) {
	if t == nil || b == nil {
		return
	}
	verify := bundle.VerifyOptions{Trust: t.Exam()}
	if _, err := verify.Admit(b); err == nil {
		l.add(b)
	}
}

// Asked returns a listing that examines items by the policy. It includes the manifests below dirs and those of the
// lock's bundles.
func (l *Lock) Asked(ctx context.Context, dirs ...string) *bundle.Listing {
	return l.Listed.Beside(Listing(ctx, l.Trust, dirs...))
}

// Bringing is a Sources that adds each bundle that it brings to Listed.
type Bringing struct {
	*sources.Sources
	Listed *listed
}

// Bring implements lock.Sources. What it returns is admitted.
func (b Bringing) Bring(ctx context.Context, want lockfile.Bundle, below []*ai.Space) (*bundle.Bundle, error) {
	got, err := b.Sources.Bring(ctx, want, below)
	if err == nil {
		b.Listed.add(got)
	}
	return got, err
}
