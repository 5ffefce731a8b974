package packages

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/portable"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/jcs"
)

const (
	maxNested = 32
	maxKey    = 1000
	modules   = "node_modules/"
)

// PackageLock reads a package-lock.json of npm. An *Error names the entry.
func PackageLock(r io.Reader) ([]Package, error) {
	b, err := contents(r)
	if err != nil {
		return nil, err
	}
	text, err := jcs.Parse(b)
	if err != nil {
		return nil, &Error{Reason: err.Error()}
	}
	object, _ := text.(map[string]any)
	entries, ok := object["packages"].(map[string]any)
	if format, _ := object["lockfileVersion"].(float64); !ok || format != 2 && format != 3 {
		return nil, &Error{Reason: "is not a package-lock.json of lockfileVersion 2 or 3",
			Hint: "npm install --package-lock-only --lockfile-version 3"}
	}
	if len(entries) > maxPackages {
		return nil, &Error{Reason: fmt.Sprintf("has more than %d packages", maxPackages)}
	}
	list := make([]Package, 0, len(entries))
	// In order, so that of several problems always the same one is reported.
	for _, key := range slices.Sorted(maps.Keys(entries)) {
		if key == "" {
			continue
		}
		p, wanted, err := lockEntry(key, entries[key])
		if err != nil {
			return nil, err
		}
		if wanted {
			list = append(list, p)
		}
	}
	return sorted(list), nil
}

// lockEntry parses one entry, and reports whether it must be pinned.
func lockEntry(key string, value any) (pkg Package, wanted bool, err error) {
	fail := func(hint, format string, args ...any) (Package, bool, error) {
		return pkg, false, &Error{Package: fault.Clip(key, 80), Reason: fmt.Sprintf(format, args...), Hint: hint}
	}
	object, ok := value.(map[string]any)
	if !ok {
		return fail("", "is not an object")
	}
	name, reason := moduleName(key)
	if yes, _ := object["link"].(bool); yes {
		return fail("", "is a link to another directory, not a package of a registry")
	}
	if reason != "" {
		return fail("", "%s", reason)
	}
	for _, why := range []string{"dev", "inBundle"} {
		if yes, _ := object[why].(bool); yes {
			return pkg, false, nil
		}
	}
	pkg = Package{Ecosystem: NPM, Name: name, At: key}
	if alias, ok := object["name"]; ok {
		if pkg.Name, ok = alias.(string); !ok || !isNodeName(pkg.Name) {
			return fail("", "has an invalid name")
		}
	}
	pkg.Optional, _ = object["optional"].(bool)
	if either, _ := object["devOptional"].(bool); either {
		pkg.Optional = true
	}
	if pkg.Version, _ = object["version"].(string); manifest.CheckVersion(pkg.Version) != nil {
		return fail("", "has a missing or invalid version: %q", fault.Clip(pkg.Version, 80))
	}
	for field, to := range map[string]*[]string{"os": &pkg.OS, "cpu": &pkg.CPU, "libc": &pkg.Libc} {
		if *to, ok = words(object[field]); !ok {
			return fail("", "has an invalid %s: expected a list of names", field)
		}
	}
	if pkg.Optional && !pkg.anywhere() {
		return pkg, false, nil
	}
	if yes, _ := object["hasInstallScript"].(bool); yes {
		if pkg.Optional {
			return pkg, false, nil
		}
		return fail("use a version or another package that needs none",
			"has an install script, which rye never runs")
	}
	file := File{Name: path.Base(pkg.Name) + "-" + pkg.Version + ".tgz"}
	if resolved, ok := object["resolved"]; ok {
		file.URL, _ = resolved.(string)
		if file.Name, err = tarballName(file.URL); err != nil {
			return fail("", "doesn't come from a registry: %v", err)
		}
	}
	integrity, _ := object["integrity"].(string)
	if file.Source, err = sha512Of(integrity); err != nil {
		return fail("remove the entry from the file, then run npm install --package-lock-only", "%v", err)
	}
	pkg.Files = []File{file}
	return pkg, true, nil
}

// anywhere reports whether a package is for a platform that rye supports.
func (p *Package) anywhere() bool {
	for _, os := range []string{"linux", "darwin", "win32"} {
		for _, cpu := range []string{"x64", "arm64"} {
			if allows(p.OS, os) && allows(p.CPU, cpu) {
				return true
			}
		}
	}
	return false
}

// moduleName returns the name of the package at a key, or the reason why the key has none.
func moduleName(key string) (name, reason string) {
	if len(key) > maxKey {
		return "", fmt.Sprintf("is longer than %d bytes", maxKey)
	}
	below, ok := strings.CutPrefix(key, modules)
	if !ok {
		return "", "is a directory of the project, not a package of a registry"
	}
	parts := strings.Split(below, "/"+modules)
	for _, name = range parts {
		if !isNodeName(name) {
			return "", "is not the place of a package"
		}
	}
	if len(parts) > maxNested {
		return "", fmt.Sprintf("is nested in more than %d packages", maxNested)
	}
	return name, ""
}

// isNodeName accepts every name that npm has ever allowed, except names that are invalid as file names on some
// system.
func isNodeName(s string) bool {
	bare := s
	if scope, ok := strings.CutPrefix(s, "@"); ok {
		scope, bare, ok = strings.Cut(scope, "/")
		if !ok || !isNodeWord(scope) {
			return false
		}
	}
	return len(s) <= 214 && isNodeWord(bare) && bare != "node_modules"
}

func isNodeWord(s string) bool {
	return portable.Spelled(s, portable.Letters+portable.Digits+"-_~", ".", len(s))
}

// words reads a list of short names, or returns nil if it is missing.
func words(val any) ([]string, bool) {
	if one, ok := val.(string); ok {
		val = []any{one}
	}
	list, ok := val.([]any)
	var out []string
	for _, one := range list {
		w, isText := one.(string)
		if !isText || !isNodeWord(strings.TrimPrefix(w, "!")) || len(list) > 64 {
			return nil, false
		}
		out = append(out, w)
	}
	return out, ok || val == nil
}

// tarballName returns the file name in an address.
func tarballName(address string) (string, error) {
	u, err := url.Parse(address)
	switch {
	case address == "":
		return "", errors.New("it has no address")
	case err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" ||
		len(address) > 2000:
		return "", fmt.Errorf("%q is not the https address of a tarball", fault.Clip(address, 80))
	}
	name := path.Base(u.Path)
	if !strings.HasSuffix(name, ".tgz") && !strings.HasSuffix(name, ".tar.gz") {
		return "", fmt.Errorf("%q is not the https address of a tarball", fault.Clip(address, 80))
	}
	return name, nil
}

// sha512Of returns the sha512 of an integrity text, which must have exactly one.
func sha512Of(integrity string) (string, error) {
	found := ""
	for word := range strings.FieldsSeq(integrity) {
		code, ok := strings.CutPrefix(word, "sha512-")
		if !ok {
			continue
		}
		code, _, _ = strings.Cut(code, "?")
		sum, err := base64.StdEncoding.Strict().DecodeString(code)
		if err != nil || len(sum) != 64 {
			return "", fmt.Errorf("has an invalid sha512: %q", fault.Clip(word, 80))
		}
		if found != "" {
			return "", errors.New("has two sha512 digests: expected one")
		}
		found = "sha512:" + hex.EncodeToString(sum)
	}
	switch {
	case found != "":
		return found, nil
	case strings.Contains(integrity, "sha1-"):
		return "", errors.New("has only a sha1, which is too weak")
	}
	return "", errors.New("has no sha512")
}
