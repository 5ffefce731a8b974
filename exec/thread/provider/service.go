package provider

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec"
	"github.com/rye-build/rye/exec/primitive"
	"github.com/rye-build/rye/exec/session"
	"github.com/rye-build/rye/exec/template/params"
)

// A service is a model that a provider's item reaches.
type service struct {
	choice  Choice
	raw     cas.Digest
	session *session.Session
}

func (s *service) Name() string        { return s.choice.Model }
func (s *service) String() string      { return s.choice.String() }
func (s *service) Provider() *Provider { return s.choice.Provider }
func (s *service) Digest() cas.Digest  { return s.raw }

// Ask implements Model by a call of the provider's item.
func (s *service) Ask(ctx context.Context, r *Request, _ cas.Digest, live func(string)) (answer *Answer, undone bool,
	err error) {
	provider := s.choice.Provider
	values, err := provider.Params(*r)
	if err != nil {
		return nil, true, err
	}
	call := &exec.Call{Ref: provider.Ref, Params: params.Values(values)}
	var stream *Stream
	var to primitive.Sink
	if r.Stream && provider.Streams() {
		stream = provider.Stream(Deltas{Text: live})
		to = stream
	}
	result, err := s.session.CallChosen(ctx, call, to)
	switch {
	case ctx.Err() != nil:
		return nil, false, context.Cause(ctx)
	case err != nil:
		return nil, result == nil, err
	}
	answer, err = provider.Answer(&result.Result, stream)
	if failure := FailureOf(err); failure != nil && failure.Status == http404 {
		failure.Message = cmp.Or(failure.Message, failure.Code, failure.Type, "not found") + s.others(ctx)
	}
	return answer, err != nil && free(&result.Result), err
}

// maxListed is how many models a failure names.
const maxListed = 10

// others says which models the service has, and how one of them is chosen.
func (s *service) others(ctx context.Context) string {
	use := "--model " + s.choice.Provider.Name + "/"
	switch models, err := s.listed(ctx); {
	case err != nil:
		return "; choose another model with " + use + "NAME"
	case len(models) == 0:
		return "; the server has no models: install one"
	case len(models) > maxListed:
		return fmt.Sprintf("; the server has %s and %d more: %s", strings.Join(models[:maxListed], ", "),
			len(models)-maxListed, use+models[0])
	default:
		return "; the server has " + strings.Join(models, ", ") + ": " + use + models[0]
	}
}

// listed returns the models that the service has, by the tool that its item names. A tool that asks another host than
// the provider's knows nothing about them.
func (s *service) listed(ctx context.Context) (models []string, err error) {
	ref := model.Ref{Kind: "tool", ID: s.choice.Provider.Lister}
	unknown := fault.New(fault.NotFound, "the models of %q are unknown", s.choice.Provider.Ref)
	if ref.ID == "" {
		return nil, unknown
	}
	item, err := s.session.Chosen(ctx, ref)
	if err != nil {
		return nil, err
	}
	if tool := item.Model.Tool; tool == nil || authority(tool.Config.Get("url").String()) != s.choice.Provider.Host {
		return nil, unknown
	}
	result, err := s.session.CallChosen(ctx, &exec.Call{Ref: ref, Params: params.Values(nil)}, nil)
	if err != nil || result.Failed {
		return nil, cmp.Or(err, error(unknown))
	}
	answer, _ := result.Value.(map[string]any)
	body, _ := answer["body"].(map[string]any)
	list, isList := body["data"].([]any)
	if !isList && body["object"] != "list" { // Ollama without models has null
		return nil, unknown
	}
	for _, entry := range list {
		object, _ := entry.(map[string]any)
		if name, _ := object["id"].(string); name != "" {
			models = append(models, fault.Clip(name, maxName))
		}
	}
	slices.Sort(models)
	return models, nil
}

// maxName is how many bytes of a listed model's name are shown.
const maxName = 100

// free reports whether a failed call cost nothing: the service was unreachable, or answered with an HTTP error. A
// gateway that answers 502 or 504 doesn't know what the service behind it did. If an item retries by itself, only the
// last try's status is known.
func free(r *primitive.Result) bool {
	t := r.Trouble
	return t != nil && (t.Undone || t.Status >= 400 && t.Status != http502 && t.Status != http504 &&
		r.Usage["attempts"] <= 1)
}

// HTTP statuses. Only a few packages may import net/http.
const (
	http404 = 404 // not found
	http502 = 502 // bad gateway
	http504 = 504 // gateway timeout
)
