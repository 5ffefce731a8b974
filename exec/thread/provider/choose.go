package provider

import (
	"context"
	"errors"
	"slices"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/ai/value"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/session"
)

// defaultTier is the tier for a directive that names no model.
const defaultTier = "general"

// A Model answers the requests of a thread.
type Model interface {
	String() string
	Name() string // of the model, without its provider
	Provider() *Provider
	Digest() cas.Digest // of the provider's item
	// Ask asks the model. digest is that of the request (Digests). The error is a *Failure, or ends the thread.
	// undone means that the service used nothing.
	Ask(ctx context.Context, r *Request, digest cas.Digest, live func(string)) (a *Answer, undone bool, err error)
}

// A Wanted describes the wanted model.
type Wanted struct {
	Name      string       // a tier or a model that replaces the directive's, or ""
	Directive *value.Value // the directive's model element, or nil
	Replay    string       // the directory of a thread whose answers are replayed; "" for a real model
	Priced    bool         // the thread has a spend limit
}

// name returns the name of the model: a tier or a model's id, with or without the provider.
func (w *Wanted) name() string {
	name := w.Name
	if m := w.Directive; name == "" && m != nil {
		for _, field := range []string{"id", "tier"} {
			if v := m.Get(field); name == "" && !v.IsNull() {
				name = v.String()
			}
		}
		if p := m.Get("provider"); name != "" && !p.IsNull() {
			name = p.String() + "/" + name
		}
	}
	if name == "" {
		name = defaultTier
	}
	return name
}

// ChooseModel finds the model and its fallback.
func ChooseModel(ctx context.Context, session *session.Session, wanted *Wanted) (Model, error) {
	all, digests, err := providers(ctx, session)
	if err != nil {
		return nil, err
	}
	choice, err := Resolve(all, wanted.name())
	if err != nil {
		return nil, err
	}
	second, has, err := wanted.fallback(all)
	if err != nil {
		return nil, err
	}
	if wanted.Replay != "" {
		m, err := openReplay(wanted.Replay, choice, digests[choice.Provider.Ref])
		if err != nil || !has {
			return m, err
		}
		return &fallible{Model: m, next: m}, nil
	}
	if err := wanted.affordable(choice); err != nil {
		return nil, err
	}
	m := &service{choice: choice, raw: digests[choice.Provider.Ref], session: session}
	if !has {
		return m, nil
	}
	if err := wanted.affordable(second); err != nil {
		return nil, err
	}
	return &fallible{Model: m, next: &service{choice: second, raw: digests[second.Provider.Ref], session: session}},
		nil
}

// affordable refuses a model with an unknown price if the thread has a spend limit.
func (w *Wanted) affordable(c Choice) error {
	if _, known := c.Provider.Worst(c.Model, 1, 1); known || !w.Priced {
		return nil
	}
	return fault.New(fault.Budget, "the price of %s is unknown, and the thread has a spend limit", c).On("model",
		c.String()).
		Because("a price of 0 is known: the provider's item lists prices under pricing").Try("rye docs providers")
}

// A Candidate is a provider that threads can use.
type Candidate struct {
	*Provider
	Digest cas.Digest // of its item
	Lacks  []Lack     // empty: the provider is ready
}

// A Lack is a secret that a provider requires and doesn't get.
type Lack struct {
	Secret string
	Denied bool // the policy doesn't allow it
	Unset  bool // it has no value
}

// Candidates returns the providers, the ready ones first. Among these, the library's own that need no key come
// last: they are always ready, but their server may not be running.
func Candidates(ctx context.Context, session *session.Session) (all []Candidate, err error) {
	items, err := session.Providers(ctx)
	if err != nil {
		return nil, err
	}
	var keyless, unready []Candidate
	for _, it := range items {
		if !Is(it.Model) {
			continue
		}
		candidate := Candidate{Digest: it.Raw}
		if candidate.Provider, err = Read(it.Model); err != nil {
			return nil, err
		}
		for _, name := range candidate.Secrets {
			allowed, set, err := session.Secret(ctx, name, candidate.Ref)
			if err != nil {
				return nil, err
			}
			if !allowed || !set {
				candidate.Lacks = append(candidate.Lacks, Lack{name, !allowed, !set})
			}
		}
		switch {
		case len(candidate.Lacks) > 0:
			unready = append(unready, candidate)
		case len(candidate.Secrets) == 0 && it.Space.Builtin:
			keyless = append(keyless, candidate)
		default:
			all = append(all, candidate)
		}
	}
	return slices.Concat(all, keyless, unready), nil
}

// providers returns all providers for Resolve, and the digests of their items.
func providers(ctx context.Context, s *session.Session) (all []*Provider, digests map[model.Ref]cas.Digest,
	err error) {
	candidates, err := Candidates(ctx, s)
	digests = map[model.Ref]cas.Digest{}
	for _, c := range candidates {
		all, digests[c.Ref] = append(all, c.Provider), c.Digest
	}
	return all, digests, err
}

// FailureOf returns the failure of a model call, or nil for another error.
func FailureOf(err error) *Failure {
	f, _ := errors.AsType[*Failure](err)
	return f
}
