package paths

import (
	"context"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/oci"
	"github.com/rye-build/rye/cas/oci/docker"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/exec/secret"
	"github.com/rye-build/rye/lock/web"
)

// Registry opens the registry or image layout that an argument names. Progress may be nil.
func Registry(app *cli.App, text string, p *cli.Progress) (*oci.Place, oci.Reference, error) {
	ref, err := oci.ParseReference(text)
	if err != nil {
		return nil, ref, err
	}
	options := registryOptions(app)
	options.PlainHTTP, options.Progress = app.Globals.PlainHTTP, p.Add
	options.Again = func(err error, in time.Duration) { AskedAgain(app, err, in) }
	switch {
	case ref.Dir != "":
		dir := app.Absolute(cli.Setting{Value: ref.Dir})
		if dir.Err != nil {
			return nil, ref, dir.Err
		}
		options.Dir = dir.Value
	case app.IsOffline():
		return nil, ref, fault.New(fault.Offline, "%s is not on this machine, and --offline is set", ref).
			On("reference", ref.String()).
			Try("rye bundle pull " + oci.LayoutScheme + "DIR")
	default:
		options.Transport = web.New(webOptions(app, false)).Transport()
	}
	place, err := oci.Open(ref, options)
	return place, ref, err
}

// Spool returns the directory of downloaded layers that aren't unpacked yet.
func Spool(a *cli.App) (string, error) {
	s := a.Dir(cli.CachePlace)
	return filepath.Join(s.Value, "oci"), s.Err
}

// RegistrySecret returns the name of the secret with the credentials of a registry, HOST[:PORT]: USER:PASSWORD, or an
// identity token. "-" is doubled, because "." and "-" both become "_" in the variable: otherwise credentials for
// a.b.com would be sent to a-b.com too.
func RegistrySecret(host string) (string, error) {
	name := "oci." + strings.NewReplacer(":", "_", "-", "__").Replace(host)
	if _, err := secret.Variable(name); err != nil || strings.Contains(host, "_") {
		return "", fault.New(fault.Validation,
			"credentials for %q can't be stored: the name is too long or contains \"_\"", fault.Clip(host, 200)).
			On("host", fault.Clip(host, 200)).Try("rye docs oci")
	}
	return name, nil
}

// RegistryToken is the variable with a token for the registry that a command names, in pipelines.
const RegistryToken = "RYE_REGISTRY_TOKEN"

// TokenSecret returns the name of the secret with the token for a registry of bundles.
func TokenSecret(registry string) (string, error) {
	u, err := url.Parse(registry)
	if err != nil {
		return "", err
	}
	name, err := RegistrySecret(u.Host)
	return "registry." + strings.TrimPrefix(name, "oci."), err
}

// registryTokens returns the tokens with which this user reads private namespaces, each asked for once. The one of
// RYE_REGISTRY_TOKEN names no host: it is for one that the user has typed, never for one that a project names.
func registryTokens(app *cli.App) func(ctx context.Context, registry string, typed bool) (string, error) {
	var mu sync.Mutex
	tokens := map[string]string{}
	return func(ctx context.Context, registry string, typed bool) (string, error) {
		if token := app.Env(RegistryToken); typed && token != "" {
			return token, nil
		}
		mu.Lock()
		defer mu.Unlock()
		token, known := tokens[registry]
		if known {
			return token, nil
		}
		name, err := TokenSecret(registry)
		if err != nil {
			return "", err
		}
		store, err := Secrets(app)
		if err != nil {
			return "", err
		}
		token, err = store.Get(ctx, name)
		switch fault.CodeOf(err) {
		case "", fault.AuthRequired:
			tokens[registry] = token
			return token, nil
		case fault.SessionExpired:
			return "", fault.New(fault.SessionExpired, "the token for %q has expired", registry).From(err).
				On("registry", registry).Try("rye login " + fault.Quote(registry))
		}
		return "", err
	}
}

// registryOptions returns this user's credentials and mirrors.
func registryOptions(a *cli.App) oci.Options {
	return oci.Options{Credential: registryCredential(a), Mirrors: a.Env(cli.EnvMirrors),
		Left: func(err error) { a.Term.Note("%v; going on without this mirror", err) }}
}

// MirrorSetting returns the setting of registry mirrors.
func MirrorSetting(a *cli.App) cli.Setting {
	if v := a.Env(cli.EnvMirrors); v != "" {
		return cli.Setting{Value: v, Origin: cli.EnvMirrors}
	}
	return cli.Setting{Value: "none", Origin: "default"}
}

// registryCredential finds credentials: those of rye auth set, else those of docker's configuration.
func registryCredential(app *cli.App) func(ctx context.Context, host string) (oci.Credential, error) {
	return func(ctx context.Context, host string) (oci.Credential, error) {
		name, err := RegistrySecret(host)
		if err == nil {
			var store *secret.Store
			if store, err = Secrets(app); err != nil {
				return oci.Credential{}, err
			}
			value, err := store.Get(ctx, name)
			if user, password, both := strings.Cut(value, ":"); err == nil && both {
				return oci.Credential{User: user, Password: password}, nil
			}
			if err == nil || fault.CodeOf(err) != fault.AuthRequired {
				return oci.Credential{Token: value}, err
			}
		}
		dir := cli.Setting{}
		if at := app.Env("DOCKER_CONFIG"); at != "" {
			dir = app.FromEnv("DOCKER_CONFIG", at)
		} else if dir = app.Home(); dir.Err == nil {
			dir.Value = filepath.Join(dir.Value, ".docker")
		} else {
			return oci.Credential{}, nil
		}
		if dir.Err != nil {
			return oci.Credential{}, dir.Err
		}
		return docker.Credential(ctx, filepath.Join(dir.Value, "config.json"), host)
	}
}

// Secrets returns this user's secrets.
func Secrets(a *cli.App) (*secret.Store, error) {
	s := a.Dir(cli.StatePlace)
	if s.Err != nil {
		return nil, s.Err
	}
	return &secret.Store{Dir: filepath.Join(s.Value, "auth"), Keyring: Keyring(a), Env: a.Env, Now: a.Now,
		Wait: osfile.LockWait}, nil
}
