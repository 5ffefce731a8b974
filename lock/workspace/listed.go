package workspace

import (
	"context"
	"sync"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/bundle/plugin"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/lock"
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
	refused map[string]error // why bundles aren't admitted, by the labels of their spaces
}

// add adds a bundle whose manifest the policy admits.
func (l *listed) add(bundle *bundle.Bundle) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.bundles[bundle.ID] {
		return
	}
	if l.bundles == nil {
		l.bundles, l.files = map[cas.Digest]bool{}, map[cas.Digest]bool{}
	}
	l.bundles[bundle.ID] = true
	for i := range bundle.Files {
		l.files[bundle.Files[i].Digest] = true
	}
}

// Beside adds the items of l to a listing, and the bundles whose items don't count.
func (l *listed) Beside(asked *bundle.Listing) *bundle.Listing {
	others := asked.Listed
	asked.Listed = func(d cas.Digest) bool {
		l.mu.Lock()
		yes := l.files[d]
		l.mu.Unlock()
		return yes || others(d)
	}
	asked.Refused = func(space, item string) error {
		l.mu.Lock()
		defer l.mu.Unlock()
		if ref, err := model.ParseRef(item); err == nil && l.refused[space] == nil && plugin.Derived(ref) {
			space = lockfile.System + plugin.Owned(ref.ID)
		}
		return l.refused[space]
	}
	return asked
}

// AddBundles adds the bundles of a set of the lock: see listed.examine.
func (l *Lock) AddBundles(set *lock.Set) {
	for i := range l.Old.Bundles {
		l.Listed.examine(l.Trust, set.Bundle(l.Old.Bundles[i].ID), "rye update")
	}
}

// examine adds a bundle if the policy admits its manifest. Otherwise its items don't count: a policy may
// want more signatures for a bundle than for an item. The command again replaces the bundle.
func (l *listed) examine(t *trust.Trust, b *bundle.Bundle, again string) {
	if t == nil || b == nil {
		return
	}
	verify := bundle.VerifyOptions{Trust: t.Exam()}
	_, err := verify.Admit(b)
	if err == nil {
		l.add(b)
		return
	}
	unsigned := sources.Unadmitted(b, err)
	refusal := fault.Of(unsigned)
	if unsigned == err {
		refusal.Hint = append([]string{fault.Command(again, b.BundleID)}, refusal.Hint...)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.refused == nil {
		l.refused = map[string]error{}
	}
	l.refused[lockfile.System+b.BundleID] = refusal
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
