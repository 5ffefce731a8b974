package agenttools

import (
	"cmp"
	"context"
	"strings"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/ai/search/query"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/session"
	"github.com/rye-build/rye/lock/browse"
)

// BundleKind is the kind by which load names a bundle of a registry.
const BundleKind = "bundle"

// NotLocked marks what a registry has and the lock doesn't: it can be read and not run.
const NotLocked = "not locked"

// Registries returns what the registries of the project have for a search, as an answer shows it; nil if rye.yaml
// doesn't let agents search there, or the search names no words. A registry that has not answered is an entry with its
// error: the items that were found count without it.
func Registries(ctx context.Context, s *session.Session, by session.Reader, words, scope string, limit int) ([]any,
	error) {
	if words = strings.TrimSpace(words); !s.Browses() || words == "" {
		return nil, nil
	}
	in, err := query.ParseScope(scope)
	if err != nil {
		return nil, err
	}
	all, err := s.SearchRegistries(ctx, by, words, cmp.Or(limit, DefaultHits))
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		return []any{failed("", err)}, nil
	}
	answer := []any{}
	for _, found := range all {
		if found.Err != nil {
			answer = append(answer, failed(found.Registry, found.Err))
		}
		for _, hit := range found.Hits {
			if in.ID != "" && !in.Covers(in.Kind, hit.Bundle) && !strings.HasPrefix(in.ID, hit.Bundle+"/") {
				continue
			}
			about, _, _ := strings.Cut(hit.About, "\n")
			state := NotLocked
			if hit.Locked != "" {
				state = "locked at " + hit.Locked
			}
			answer = append(answer, object{"ref": BundleKind + ":" + hit.Bundle, "version": hit.Version,
				"about": fault.Clip(about, maxAbout), "registry": found.Registry, "state": state})
		}
	}
	return answer, nil
}

// failed is the entry of a registry that has not answered.
func failed(registry string, err error) object {
	f := fault.Of(err)
	entry := object{"error": object{"code": string(f.Code), "message": f.Text}}
	if registry != "" {
		entry["registry"] = registry
	}
	return entry
}

// LoadOffered returns the text of a bundle, or of an item, that a registry of the project has and the lock doesn't,
// and what a person runs to add it. missing is why the item can't be loaded otherwise; it is returned if no registry
// has it. The text is proven and verified as what a lock has, and nothing of it runs.
func LoadOffered(ctx context.Context, s *session.Session, by session.Reader, ref model.Ref, missing error) (
	map[string]any, error) {
	if ref.Kind == BundleKind {
		if !s.Browses() {
			return nil, fault.New(fault.Denied, "agents read no bundles of registries here").
				Because("rye.yaml lets them, with the line search: registries").Try("rye docs registry")
		}
		offer, err := s.Offer(ctx, by, ref.ID)
		if err != nil {
			return nil, err
		}
		defer offer.Close()
		text, err := offer.About(ctx)
		if err != nil {
			return nil, err
		}
		answer := offered(offer, ref, offer.ID.String(), text)
		items := []any{}
		for i := range offer.Files {
			if offer.Files[i].Ref != "" {
				items = append(items, offer.Files[i].Ref)
			}
		}
		answer["items"] = items
		return answer, nil
	}
	if code := fault.CodeOf(missing); !s.Browses() || code != fault.NotFound && code != fault.ToolNotFound &&
		code != fault.NotLocked {
		return nil, missing
	}
	offer, file, err := s.OfferItem(ctx, by, ref)
	if err != nil {
		return nil, err
	}
	if offer == nil {
		return nil, missing
	}
	defer offer.Close()
	text, err := offer.Read(ctx, file)
	if err != nil {
		return nil, err
	}
	return offered(offer, ref, file.Digest.String(), string(text)), nil
}

func offered(offer *browse.Offer, ref model.Ref, digest, text string) object {
	return object{"ref": ref.String(), "digest": digest, "text": text, "state": NotLocked, "bundle": offer.BundleID,
		"version": offer.Version, "registry": offer.Registry,
		"add": fault.Command("rye add", offer.BundleID)}
}
