package session

import (
	"cmp"
	"context"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/exec/audit/record"
	"github.com/rye-build/rye/lock/browse"
	"github.com/rye-build/rye/manifest"
)

// A Reader is the agent that asks a registry, as the audit log names it.
type Reader struct{ Principal, Tenant, Thread string }

// ask returns what records each question before it is sent: what can't be recorded isn't asked.
func (s *Session) ask(by Reader, verb string) browse.Ask {
	return func(ctx context.Context, registry, words string) error {
		kernel, err := s.ready(model.Ref{})
		if err != nil {
			return err
		}
		return kernel.Log.Query(ctx, &record.Query{Principal: cmp.Or(by.Principal, s.principal), Registry: registry,
			Tenant: by.Tenant, Thread: by.Thread, Verb: verb, Words: words})
	}
}

// Browses reports whether agents may search and read what the registries of the project have: rye.yaml says so.
func (s *Session) Browses() bool { return s.lock.Yaml.Searched }

// SearchRegistries asks the registries of the project for bundles.
func (s *Session) SearchRegistries(ctx context.Context, by Reader, words string, limit int) ([]browse.Found, error) {
	return browse.Search(ctx, s.lock, words, limit, s.ask(by, "search"))
}

// Offer brings a bundle that isn't locked from a registry of the project, to read it. The caller closes it.
func (s *Session) Offer(ctx context.Context, by Reader, id string) (*browse.Offer, error) {
	return browse.Bring(ctx, s.lock, id, s.ask(by, "load"))
}

// OfferItem brings the bundle that has an item; nil if no registry of the project has one. The caller closes it.
func (s *Session) OfferItem(ctx context.Context, by Reader, ref model.Ref) (*browse.Offer, *manifest.File, error) {
	return browse.BringItem(ctx, s.lock, ref.String(), s.ask(by, "load"))
}
