// Package docker is a reader of docker's credentials for registries: in its file config.json, and in the helper
// programs that the file names. It writes to neither, and its errors show nothing that they hold.
package docker

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/oci"
	"github.com/rye-build/rye/cas/osfile"
)

const maxConfig = 4 << 20

// A config is the part of config.json that names credentials.
type config struct {
	Helpers map[string]string `json:"credHelpers"`
	Store   string            `json:"credsStore"`
	Auths   map[string]entry  `json:"auths"`
}

type entry struct {
	Auth     string `json:"auth"` // USER:PASSWORD in base64
	User     string `json:"username"`
	Password string `json:"password"`
	Token    string `json:"identitytoken"`
}

// Credential returns what the configuration in a file knows of a registry, HOST[:PORT]: a helper of that registry
// counts first, then the one of all, then the file itself. A zero Credential means that none is known.
func Credential(ctx context.Context, path, host string) (oci.Credential, error) {
	config, err := read(path)
	if errors.Is(err, fs.ErrNotExist) {
		return oci.Credential{}, nil
	}
	var helper string
	if err == nil {
		helper, err = config.helper(host)
	}
	if err != nil {
		return oci.Credential{}, fault.Wrap(err, "credentials for %s from %+q: %s", host, path, fault.Of(err).Text).
			On("path", path).On("host", host)
	}
	if helper != "" {
		return ask(ctx, helper, host, path)
	}
	found, ok := config.entry(host).credential()
	if !ok {
		return oci.Credential{}, notConfig("credentials for %s from %+q: auth is not USER:PASSWORD in base64", host,
			path).On("path", path).On("host", host)
	}
	return found, nil
}

func notConfig(format string, args ...any) *fault.Error {
	return fault.New(fault.Config, format, args...)
}

// read reads a file.
func read(path string) (*config, error) {
	f, err := osfile.OpenRegular(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxConfig+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxConfig {
		return nil, notConfig("not a docker configuration: more than %d bytes", maxConfig)
	}
	return parse(text)
}

// parse reads a configuration. Its errors don't show values: one may be a password.
func parse(text []byte) (*config, error) {
	config := new(config)
	if len(bytes.TrimSpace(text)) == 0 {
		return config, nil
	}
	if err := json.Unmarshal(text, config); err != nil {
		why := "not JSON"
		if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			why = fmt.Sprintf("%q has a value of the wrong type", fault.Clip(wrong.Field, 100))
		}
		return nil, notConfig("not a docker configuration: %s", why)
	}
	return config, nil
}

// address returns docker's name of a registry: the host, except for docker's own.
func address(host string) string {
	if host == "docker.io" || host == "registry-1.docker.io" {
		return "https://index.docker.io/v1/"
	}
	return host
}

// helper returns the helper for a registry; empty if there is none. The helper must be in PATH.
func (c *config) helper(host string) (string, error) {
	helper := c.Store
	for _, name := range []string{address(host), host} {
		if own := c.Helpers[name]; own != "" {
			helper = own
		}
	}
	if strings.ContainsFunc(helper, func(r rune) bool {
		return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-", r)
	}) {
		return "", notConfig("not a docker configuration: %+q is not the name of a credential helper",
			fault.Clip(helper, 100))
	}
	return helper, nil
}

// entry returns the file's own entry for a registry. Older files name it by an address.
func (c *config) entry(host string) entry {
	if e, ok := c.Auths[address(host)]; ok {
		return e
	}
	for _, name := range slices.Sorted(maps.Keys(c.Auths)) {
		_, rest, ok := strings.Cut(name, "://")
		if !ok {
			rest = name
		}
		if at, _, _ := strings.Cut(rest, "/"); at == host {
			return c.Auths[name]
		}
	}
	return entry{}
}

func (e entry) credential() (oci.Credential, bool) {
	c := oci.Credential{User: e.User, Password: e.Password, Token: e.Token}
	if e.Auth == "" {
		return c, true
	}
	text, err := base64.StdEncoding.DecodeString(e.Auth)
	var ok bool
	c.User, c.Password, ok = strings.Cut(strings.TrimRight(string(text), "\x00"), ":")
	return c, ok && err == nil
}
