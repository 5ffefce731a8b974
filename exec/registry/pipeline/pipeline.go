// Package pipeline says what run of a pipeline has sent a token: trusted publishing gives a run what its binding
// allows, and no password lies anywhere.
//
// How a token goes through here: Issuers.Identify reads which issuer it names, without believing it, and takes that
// one of the configuration. The issuer's keys, as they are now, must have signed the token, for this
// registry alone, for at most fifteen minutes. Then the claims become a Run, by the shape of the issuer: those of
// GitHub and of GitLab are known. A claim that contradicts another one refuses the token, as does a run for a pull or
// merge request: anyone who may propose a change would publish.
//
// A run is known by numbers that never change hands. The names of repositories and owners do, so they are only shown.
package pipeline

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/lock/web"
)

// A Shape is how an issuer writes what a run is.
type Shape string

// The shapes.
const (
	GitHub Shape = "github"
	GitLab Shape = "gitlab"
)

// An Issuer signs the tokens of runs.
type Issuer struct {
	URL   string `json:"url"`
	Shape Shape  `json:"shape"`
}

// Check refuses an issuer that can't be asked for its keys safely.
func (i Issuer) Check() error {
	if i.Shape != GitHub && i.Shape != GitLab {
		return fault.New(fault.Config, "the issuer %q has the shape %q: expected github or gitlab", i.URL, i.Shape)
	}
	if !strings.HasPrefix(i.URL, "https://") && !strings.HasPrefix(i.URL, "http://127.0.0.1:") {
		return fault.New(fault.Config, "the issuer %q is not an https address", i.URL)
	}
	return nil
}

// A Run is one run of a pipeline.
type Run struct {
	Issuer       string
	Repository   string // owner and name, for people
	RepositoryID string
	OwnerID      string
	Workflow     string // its file in the repository
	Environment  string // "" outside one; where the issuer says whether it is protected, it is
	Ref          string // as refs/tags/v1
	Token        string // the token's own id, which counts once
	Expires      time.Time
}

// Issuers are the issuers that a registry believes. They are safe for concurrent use.
type Issuers struct {
	List     []Issuer
	Audience []string // the registry's origins: a token is for one of them
	Web      *web.Client
	Now      func() time.Time

	mu    sync.Mutex
	known map[string]keys
}

type keys struct {
	provider *oidc.Provider
	read     time.Time
}

const (
	maxToken  = 16 << 10
	maxAnswer = 1 << 20
	maxLife   = 15 * time.Minute
	keysLife  = 5 * time.Minute // of what is known about an issuer
	clockSkew = time.Minute
	askTime   = 10 * time.Second
)

func refused(format string, args ...any) *fault.Error {
	return fault.New(fault.AuthFailed, "the pipeline's token is refused: "+format, args...).
		Try("rye docs registry-release")
}

// Identify returns the run that a token belongs to.
func (s *Issuers) Identify(ctx context.Context, token string) (*Run, error) {
	issuer, err := s.named(token)
	if err != nil {
		return nil, err
	}
	asks := &http.Client{Transport: bounded{s.Web.Transport()},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	ctx, cancel := context.WithTimeout(oidc.ClientContext(ctx, asks), askTime)
	defer cancel()
	provider, err := s.provider(ctx, issuer)
	if err != nil {
		return nil, err
	}
	verified, err := provider.VerifierContext(ctx, &oidc.Config{SkipClientIDCheck: true, Now: s.Now,
		SupportedSigningAlgs: []string{oidc.RS256, oidc.ES256}}).Verify(ctx, token)
	if err != nil {
		return nil, refused("%s", fault.Clip(err.Error(), 200)).From(err)
	}
	now := s.Now()
	switch {
	case len(verified.Audience) != 1 || !slices.Contains(s.Audience, verified.Audience[0]):
		return nil, refused("it is for %s, not for %s", fault.Clip(strings.Join(verified.Audience, ", "), 200),
			strings.Join(s.Audience, " or "))
	case verified.IssuedAt.After(now.Add(clockSkew)):
		return nil, refused("it is of a later time than now")
	case verified.Expiry.Sub(verified.IssuedAt) > maxLife:
		return nil, refused("it lives for %s, at most %s are allowed", verified.Expiry.Sub(verified.IssuedAt), maxLife)
	}
	var text json.RawMessage
	if err := verified.Claims(&text); err != nil {
		return nil, refused("%v", err)
	}
	run, err := parse(issuer.Shape, text)
	if err != nil {
		return nil, refused("%v", err)
	}
	run.Issuer, run.Expires = issuer.URL, verified.Expiry
	return run, nil
}

// A bounded transport ends an answer that is too long for keys.
type bounded struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := b.RoundTripper.RoundTrip(r)
	if err == nil {
		response.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(response.Body, maxAnswer), response.Body}
	}
	return response, err
}

// named returns the issuer that a token names, if it is one of the configuration. Nothing is believed by that.
func (s *Issuers) named(token string) (Issuer, error) {
	parts := strings.Split(token, ".")
	if len(token) > maxToken || len(parts) != 3 {
		return Issuer{}, refused("it is no token of an issuer")
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return Issuer{}, refused("it is no token of an issuer")
	}
	var claims struct{ Iss string }
	if err := json.Unmarshal(payload, &claims); err != nil {
		return Issuer{}, refused("it is no token of an issuer")
	}
	for _, issuer := range s.List {
		if issuer.URL == claims.Iss {
			return issuer, nil
		}
	}
	return Issuer{}, refused("this registry doesn't know the issuer %q", fault.Clip(claims.Iss, 200))
}

// provider returns where an issuer has its keys, read anew when that is old. The keys themselves are read for each
// token, so that one that the issuer has withdrawn counts no more.
func (s *Issuers) provider(ctx context.Context, issuer Issuer) (*oidc.Provider, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.Now()
	if k, ok := s.known[issuer.URL]; ok && now.Sub(k.read) < keysLife && !now.Before(k.read) {
		return k.provider, nil
	}
	provider, err := oidc.NewProvider(ctx, issuer.URL)
	if err != nil {
		return nil, fault.New(fault.Unavailable, "the issuer %q doesn't answer", issuer.URL).From(err).
			Because(fault.Clip(err.Error(), 300))
	}
	if s.known == nil {
		s.known = map[string]keys{}
	}
	s.known[issuer.URL] = keys{provider, now}
	return provider, nil
}

// parse reads the claims of a token.
func parse(shape Shape, text []byte) (*Run, error) {
	var run *Run
	var err error
	if shape == GitLab {
		run, err = gitLab(text)
	} else {
		run, err = gitHub(text)
	}
	if err != nil {
		return nil, err
	}
	for _, claim := range []struct{ name, value string }{{"jti", run.Token}, {"the repository's id", run.RepositoryID},
		{"the owner's id", run.OwnerID}, {"the workflow's file", run.Workflow}, {"the repository", run.Repository},
		{"the ref", run.Ref}} {
		if claim.value == "" || len(claim.value) > 500 {
			return nil, fault.New(fault.Validation, "%s is missing or too long", claim.name)
		}
	}
	return run, nil
}

func decode(text []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	if err := decoder.Decode(into); err != nil {
		return fault.New(fault.Validation, "its claims can't be read").From(err)
	}
	return nil
}

// gitHub reads the claims of a run of GitHub Actions.
func gitHub(text []byte) (*Run, error) {
	var c struct {
		Sub, Jti, Repository, Ref, Environment string
		RepositoryID                           string `json:"repository_id"`
		OwnerID                                string `json:"repository_owner_id"`
		Workflow                               string `json:"workflow_ref"`
		Event                                  string `json:"event_name"`
	}
	if err := decode(text, &c); err != nil {
		return nil, err
	}
	if err := noRequest(c.Event, "pull_request", "pull_request_target"); err != nil {
		return nil, err
	}
	// Other events have requests' refs, too, such as that of a review.
	if !strings.HasPrefix(c.Ref, "refs/heads/") && !strings.HasPrefix(c.Ref, "refs/tags/") {
		return nil, fault.New(fault.Validation, "its ref is neither a branch nor a tag")
	}
	owner, name, _ := strings.Cut(c.Repository, "/")
	if rest, ok := strings.CutPrefix(c.Sub, "repo:"); ok {
		old, fixed := c.Repository+":", owner+"@"+c.OwnerID+"/"+name+"@"+c.RepositoryID+":"
		if !strings.HasPrefix(rest, old) && !strings.HasPrefix(rest, fixed) {
			return nil, fault.New(fault.Validation, "its subject is another repository than %q", c.Repository)
		}
	}
	file, ok := strings.CutPrefix(c.Workflow, c.Repository+"/")
	if !ok {
		return nil, fault.New(fault.Validation, "its workflow is of another repository than %q", c.Repository)
	}
	if file, ok = strings.CutSuffix(file, "@"+c.Ref); !ok {
		return nil, fault.New(fault.Validation, "its workflow is of another ref than %q", c.Ref)
	}
	return &Run{Repository: c.Repository, RepositoryID: c.RepositoryID, OwnerID: c.OwnerID, Workflow: file,
		Environment: c.Environment, Ref: c.Ref, Token: c.Jti}, nil
}

// gitLab reads the claims of a job of GitLab.
func gitLab(text []byte) (*Run, error) {
	var c struct {
		Iss, Sub, Jti, Ref, Environment string
		Repository                      string `json:"project_path"`
		RepositoryID                    string `json:"project_id"`
		OwnerID                         string `json:"namespace_id"`
		Config                          string `json:"ci_config_ref_uri"`
		RefType                         string `json:"ref_type"`
		Protected                       string `json:"environment_protected"`
		Source                          string `json:"pipeline_source"`
	}
	if err := decode(text, &c); err != nil {
		return nil, err
	}
	if err := noRequest(c.Source, "merge_request_event", "external_pull_request_event"); err != nil {
		return nil, err
	}
	if rest, ok := strings.CutPrefix(c.Sub, "project_path:"); ok && !strings.HasPrefix(rest, c.Repository+":") {
		return nil, fault.New(fault.Validation, "its subject is another project than %q", c.Repository)
	}
	kind := map[string]string{"branch": "refs/heads/", "tag": "refs/tags/"}[c.RefType]
	if kind == "" {
		return nil, fault.New(fault.Validation, "its ref is neither a branch nor a tag")
	}
	_, host, _ := strings.Cut(c.Iss, "://")
	file, ok := strings.CutPrefix(c.Config, host+"/"+c.Repository+"//")
	if !ok {
		return nil, fault.New(fault.Validation, "its configuration is of another project than %q", c.Repository)
	}
	if file, ok = strings.CutSuffix(file, "@"+kind+c.Ref); !ok {
		return nil, fault.New(fault.Validation, "its configuration is of another ref than %q", c.Ref)
	}
	if c.Protected != "true" {
		c.Environment = "" // anyone who may push can name one
	}
	return &Run{Repository: c.Repository, RepositoryID: c.RepositoryID, OwnerID: c.OwnerID, Workflow: file,
		Environment: c.Environment, Ref: kind + c.Ref, Token: c.Jti}, nil
}

// noRequest refuses a run that proposes a change, and one that doesn't say what it is for.
func noRequest(event string, requests ...string) error {
	if event == "" || slices.Contains(requests, event) {
		return fault.New(fault.Validation, "a run for %q never counts", event)
	}
	return nil
}
