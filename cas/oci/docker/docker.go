// Package docker reads the credentials that the docker client and its like keep for registries: in a file, config.json, and in
// the helper programs that it names. It writes to neither.
package docker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os/exec"
	"strings"
	"time"

	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/credentials"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/oci"
	"github.com/rye-build/rye/cas/osfile"
)

const (
	maxConfig = 4 << 20
	maxWait   = 2 * time.Minute // for a helper, which may ask the user
)

// Credential returns what the configuration in a file knows of a registry, HOST[:PORT]: a helper of that registry counts first,
// then the one of all, then the file itself. Nothing known is a zero Credential.
func Credential(ctx context.Context, path, host string) (oci.Credential, error) {
	helper, err := helperOf(path, host)
	if errors.Is(err, fs.ErrNotExist) {
		return oci.Credential{}, nil
	}
	if err != nil {
		return oci.Credential{}, fault.Wrap(err, "credentials for %s from %+q: %s", host, path, fault.Of(err).Text).On("path", path).On("host", host)
	}
	var store credentials.Store
	if helper != "" {
		store = credentials.NewNativeStore(helper)
	} else if store, err = credentials.NewStore(path, credentials.StoreOptions{}); err != nil {
		return oci.Credential{}, badConfig(path, err)
	}
	ctx, stop := context.WithTimeout(ctx, maxWait)
	defer stop()
	found, err := store.Get(ctx, credentials.ServerAddressFromRegistry(host))
	switch {
	case err != nil && helper == "":
		return oci.Credential{}, badConfig(path, err)
	case err != nil:
		return oci.Credential{}, failed(helper, host, path, err)
	case found == auth.EmptyCredential:
		return oci.Credential{}, nil
	}
	return oci.Credential{User: found.Username, Password: found.Password, Token: found.RefreshToken}, nil
}

// helperOf returns which helper knows of a registry; empty if none does.
func helperOf(path, host string) (string, error) {
	f, err := osfile.OpenRegular(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxConfig+1))
	if err != nil {
		return "", err
	}
	if len(text) > maxConfig {
		return "", badConfig(path, fmt.Errorf("more than %d bytes", maxConfig))
	}
	return helperIn(path, text, host)
}

func helperIn(path string, text []byte, host string) (string, error) {
	var config struct {
		Helpers map[string]string `json:"credHelpers"`
		Store   string            `json:"credsStore"`
	}
	if err := json.Unmarshal(text, &config); err != nil {
		return "", badConfig(path, err)
	}
	helper := config.Store
	for _, name := range []string{credentials.ServerAddressFromRegistry(host), host} {
		if own := config.Helpers[name]; own != "" {
			helper = own
		}
	}
	// It is looked for in PATH, and nowhere else.
	if strings.ContainsFunc(helper, func(r rune) bool {
		return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-", r)
	}) {
		return "", badConfig(path, fmt.Errorf("%+q is not the name of a credential helper", fault.Clip(helper, 100)))
	}
	return helper, nil
}

func badConfig(path string, err error) *fault.Error {
	return fault.New(fault.Config, "%+q is not a docker configuration: %s", path, fault.Clip(err.Error(), 300)).From(err).On("path", path)
}

// failed is about a helper that can't be started, or that has no answer. What it printed may be a secret, and isn't shown.
func failed(helper, host, path string, err error) *fault.Error {
	program := "docker-credential-" + helper
	f := fault.New(fault.AuthRequired, "the credential helper %s has no credentials for %s", program, host).From(err).On("host", host).On("helper", program).On("path", path)
	if errors.Is(err, exec.ErrNotFound) {
		f.Text = fmt.Sprintf("the credential helper %s is not in PATH", program)
		f.Because(fmt.Sprintf("%s names it for %s", path, host))
	}
	return f.Try("rye auth set " + oci.Scheme + host)
}
