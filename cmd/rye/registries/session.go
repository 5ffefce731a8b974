package registries

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"strings"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/lock/project"
	"github.com/rye-build/rye/lock/registry"
	"github.com/rye-build/rye/lock/web"
)

// registryFlag names a registry.
type registryFlag struct {
	Registry string `placeholder:"URL" help:"Registry; default: the one of rye.yaml."`
}

// flag returns the flag as it was given, for hints.
func (f *registryFlag) flag() []string {
	if f.Registry == "" {
		return nil
	}
	return []string{"--registry", f.Registry}
}

// at returns the address of the registry for a bundle: that of the flag, or the one whose names in rye.yaml cover the
// bundle. Without an id it is the only one there.
func (f *registryFlag) at(app *cli.App, id string) (string, error) {
	if f.Registry != "" {
		return address(f.Registry)
	}
	workspace, err := paths.OpenWorkspace(app)
	if err != nil {
		return "", err
	}
	defer workspace.Close()
	lock, err := workspace.OpenLock(false)
	if err != nil && fault.CodeOf(err) != fault.NotFound {
		return "", err
	}
	var all []string
	if lock != nil {
		for i := range lock.Yaml.Registries {
			if r := &lock.Yaml.Registries[i]; id == "" || r.Has(id) || r.Has(id+"/x") {
				all = append(all, r.URL)
			}
		}
	}
	switch len(all) {
	case 0:
		return "", fault.New(fault.Validation, "no registry is named: rye.yaml has none for it").
			Try(app.With("--registry", "https://HOST"))
	case 1:
		return all[0], nil
	}
	return "", fault.New(fault.Ambiguous, "several registries may be meant: %s", strings.Join(all, ", ")).
		On("registries", all).Try(app.With("--registry", all[0]))
}

// address checks the address of a registry. A bare host means https.
func address(text string) (string, error) {
	if !strings.Contains(text, "://") {
		text = "https://" + text
	}
	source, err := project.ParseSource(project.RegistryAt(strings.TrimSuffix(text, "/")).Where, false)
	if err != nil {
		return "", err
	}
	at, _ := source.Registry()
	return at, nil
}

// open returns a session with a registry, which needs a token.
func open(ctx context.Context, app *cli.App, at string) (*registry.Session, error) {
	return openWith(ctx, app, at, app.Env(paths.RegistryToken), true)
}

// openToRead returns a session for what needs no token. That of RYE_REGISTRY_TOKEN names no registry: it goes to one
// that the user has typed, and not to each that the project's rye.yaml names.
func openToRead(ctx context.Context, app *cli.App, at string, typed bool) (*registry.Session, error) {
	token := ""
	if typed {
		token = app.Env(paths.RegistryToken)
	}
	return openWith(ctx, app, at, token, false)
}

func openWith(ctx context.Context, app *cli.App, at, token string, need bool) (*registry.Session, error) {
	if app.IsOffline() {
		return nil, fault.New(fault.Offline, "%q is not asked: rye is offline", at).On("registry", at).
			Try(app.Online())
	}
	session := &registry.Session{URL: at, Client: web.New(web.Options{PlainHTTP: app.Globals.PlainHTTP}), Token: token}
	if token != "" {
		return session, nil
	}
	name, err := paths.TokenSecret(at)
	if err != nil {
		return nil, err
	}
	store, err := paths.Secrets(app)
	if err != nil {
		return nil, err
	}
	session.Token, err = store.Get(ctx, name)
	if err != nil && !need {
		session.Token, err = "", nil
	}
	if f, ok := fault.Find(err); ok && f.Code == fault.AuthRequired {
		return nil, fault.New(fault.AuthRequired, "no token for the registry %q", at).From(err).On("registry", at).
			Try("rye login " + fault.Quote(at))
	}
	return session, err
}

// pipelineToken holds the token of a pipeline's run, as GitLab gives it.
const pipelineToken = "RYE_ID_TOKEN"

// openFor returns a session that may publish a bundle: in a pipeline whose run has a token of its own, by that.
func openFor(ctx context.Context, app *cli.App, at, bundle string) (*registry.Session, error) {
	if app.Env(paths.RegistryToken) != "" || app.Env(pipelineToken) == "" && app.Env(actionsURL) == "" {
		return open(ctx, app, at)
	}
	session, err := openToRead(ctx, app, at, false)
	if err != nil {
		return nil, err
	}
	token := app.Env(pipelineToken)
	if token == "" {
		if token, err = actionsToken(ctx, app, session); err != nil {
			return nil, err
		}
	}
	got, err := session.Exchange(ctx, registry.Exchange{Bundle: bundle, Token: token})
	if err != nil {
		return nil, err
	}
	app.Term.Note("as a run of %s, until %s", got.Label, got.Expires.Format(time.TimeOnly))
	return session, nil
}

// Variables with which GitHub Actions lets a run ask for a token.
const (
	actionsURL     = "ACTIONS_ID_TOKEN_REQUEST_URL"
	actionsRequest = "ACTIONS_ID_TOKEN_REQUEST_TOKEN"
)

// actionsToken asks GitHub Actions for a token of this run that counts at the registry alone.
func actionsToken(ctx context.Context, app *cli.App, session *registry.Session) (string, error) {
	at, err := url.Parse(app.Env(actionsURL))
	if err != nil {
		return "", fault.New(fault.Config, "%s is not an address", actionsURL).From(err)
	}
	query := at.Query()
	query.Set("audience", originOf(session.URL))
	at.RawQuery = query.Encode()
	status, text, err := session.Client.Send(ctx, web.Request{Method: "GET", Address: at.String(),
		Token: app.Env(actionsRequest)}, 64<<10)
	if err != nil {
		return "", err
	}
	var answer struct{ Value string }
	if err := json.Unmarshal(text, &answer); err != nil || answer.Value == "" {
		return "", fault.New(fault.Unavailable, "the pipeline gives no token (HTTP %d)", status).On("status", status).
			Because("a job of GitHub Actions needs the permission id-token: write")
	}
	return answer.Value, nil
}

// originOf returns the scheme and the host of a registry's address: what a token must be for to count there alone.
func originOf(at string) string {
	u, err := url.Parse(at)
	if err != nil {
		return at
	}
	return u.Scheme + "://" + u.Host
}

var errNoVersion = errors.New("expected ID@VERSION")

// split splits ID@VERSION.
func split(text string) (id, version string, err error) {
	id, version, ok := strings.Cut(text, "@")
	if !ok || id == "" || version == "" {
		return "", "", fault.New(fault.Validation, "%q is not a version of a bundle: %v", text, errNoVersion).
			Try("rye info " + fault.Quote(strings.TrimSuffix(text, "@")))
	}
	return id, version, nil
}
