package packages

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/textproto"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/rye-build/rye/bundle/licence"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/lock"
	"github.com/rye-build/rye/lock/file"
	list "github.com/rye-build/rye/lock/packages"
)

// A Licence is the licence of a bundle or a package.
type Licence struct {
	Name     string `json:"name"` // "acme/base", "npm:a", "pypi:a"
	Version  string `json:"version"`
	Licence  string `json:"licence"`            // an expression of SPDX, or NOASSERTION
	Declared string `json:"declared,omitempty"` // the declared text if it isn't an expression
	Denied   bool   `json:"denied"`
	Line     int    `json:"line"` // in rye.lock
}

// LicencesOf returns the entries of a set, whose lock is lock and has the given bytes, sorted by name and version.
func LicencesOf(ctx context.Context, set *lock.Set, lock *file.Lock, content []byte) ([]Licence, error) {
	var all []Licence
	for _, b := range lock.Bundles {
		e := Licence{Name: b.ID, Version: b.Version, Line: file.LineOf(content, "bundles", b.ID)}
		if made := set.Bundle(b.ID); made != nil {
			e.declare(made.License)
		}
		all = append(all, e)
	}
	dir, err := osfile.TempDir("licences")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	of := make([]Licence, len(lock.Artifacts))
	err = cas.Parallel(ctx, 0, len(of), func(ctx context.Context, i int) error {
		a := lock.Artifacts[i]
		b, err := Metadata(ctx, set, a, dir)
		if err != nil {
			return err
		}
		e := &of[i]
		e.Name, e.Line = a.Name, file.LineOf(content, "artifacts", a.String())
		e.Version, _ = a.Tags()
		if strings.HasPrefix(a.Name, list.NPM+":") {
			e.declare(ofNPM(b))
		} else {
			e.declare(ofWheel(b))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	all = append(all, of...)
	slices.SortStableFunc(all, func(a, b Licence) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Version, b.Version),
			cmp.Compare(a.Licence, b.Licence), cmp.Compare(a.Declared, b.Declared))
	})
	// The wheels of one version usually declare the same licence.
	return slices.CompactFunc(all, func(a, b Licence) bool {
		return a.Name == b.Name && a.Version == b.Version && a.Licence == b.Licence && a.Declared == b.Declared
	}), nil
}

// declare sets the licence by a declaration.
func (e *Licence) declare(text string) {
	var ok bool
	if e.Licence, ok = licence.Normal(text); !ok {
		e.Declared = fault.Clip(strings.TrimSpace(text), 200)
	}
}

// DenyLicences marks the entries that require a licence matching a glob, in any case, and returns their number.
// NOASSERTION denies unknown licences; so does a glob for the text that an entry declares.
func DenyLicences(all []Licence, globs []string) (int, error) {
	// In "MIT/X11" the slash is an ordinary character.
	plain := func(s string) string { return strings.ReplaceAll(strings.ToLower(s), "/", "\x00") }
	for _, g := range globs {
		if _, err := path.Match(plain(g), ""); err != nil || strings.TrimSpace(g) == "" {
			return 0, fault.New(fault.Validation, "%q is not a valid glob", g).On("glob", g).Try("rye help licences")
		}
	}
	deny := func(name string) bool {
		return slices.ContainsFunc(globs, func(g string) bool {
			ok, _ := path.Match(plain(g), plain(name))
			other, _ := path.Match(plain(g), plain(licence.Alias(name)))
			return ok || other
		})
	}
	n := 0
	for i := range all {
		e := &all[i]
		if x := licence.Parse(e.Licence); x != nil {
			e.Denied = x.Denied(deny)
		} else {
			e.Denied = deny(licence.NoAssertion) || e.Declared != "" && deny(e.Declared)
		}
		if e.Denied {
			n++
		}
	}
	return n, nil
}

// ofNPM returns the declaration in package.json.
func ofNPM(b []byte) string {
	var said map[string]json.RawMessage // names of fields have a case
	if json.Unmarshal(bytes.TrimPrefix(b, []byte("\ufeff")), &said) != nil {
		return ""
	}
	type object struct {
		Type string `json:"type"`
	}
	var text string
	var one object
	var several []object
	switch {
	case json.Unmarshal(said["license"], &text) == nil:
		return text
	case json.Unmarshal(said["license"], &one) == nil:
		return one.Type
	case json.Unmarshal(said["licenses"], &several) != nil:
		return ""
	}
	var types []string
	for _, o := range several {
		types = append(types, "("+o.Type+")")
	}
	return strings.Join(types, " OR ")
}

// classifiers maps the classifiers of PyPI that name exactly one SPDX licence.
func classifiers() map[string]string {
	return map[string]string{
		"MIT License": "MIT", "MIT No Attribution License (MIT-0)": "MIT-0", "ISC License (ISCL)": "ISC",
		"Apache Software License":              "Apache-2.0",
		"Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0", "Python Software Foundation License": "PSF-2.0",
		"The Unlicense (Unlicense)":                               "Unlicense",
		"GNU General Public License v2 (GPLv2)":                   "GPL-2.0-only",
		"GNU General Public License v2 or later (GPLv2+)":         "GPL-2.0-or-later",
		"GNU General Public License v3 (GPLv3)":                   "GPL-3.0-only",
		"GNU General Public License v3 or later (GPLv3+)":         "GPL-3.0-or-later",
		"GNU Lesser General Public License v3 (LGPLv3)":           "LGPL-3.0-only",
		"GNU Lesser General Public License v3 or later (LGPLv3+)": "LGPL-3.0-or-later",
		"GNU Affero General Public License v3":                    "AGPL-3.0-only",
		"GNU Affero General Public License v3 or later (AGPLv3+)": "AGPL-3.0-or-later",
		"zlib/libpng License":                                     "Zlib", "Zope Public License": "ZPL-2.1",
		"Boost Software License 1.0 (BSL-1.0)": "BSL-1.0",
	}
}

// ofWheel returns the declaration in METADATA. Reading ends at a malformed field.
func ofWheel(b []byte) string {
	head, _ := textproto.NewReader(bufio.NewReader(bytes.NewReader(b))).ReadMIMEHeader()
	if text := head.Get("License-Expression"); text != "" {
		return text
	}
	said := head.Get("License")
	if _, ok := licence.Normal(said); ok {
		return said
	}
	var found []string
	for _, c := range head.Values("Classifier") {
		if rest, ok := strings.CutPrefix(c, "License :: "); ok {
			parts := strings.Split(rest, " :: ")
			found = append(found, parts[len(parts)-1])
		}
	}
	if len(found) == 1 {
		if id := classifiers()[found[0]]; id != "" {
			return id
		}
	}
	return cmp.Or(said, strings.Join(found, ", "))
}

// RefusedLicences returns the error for denied entries, or nil.
func RefusedLicences(all []Licence) *fault.Error {
	var lines []string
	for _, e := range all {
		if e.Denied {
			lines = append(lines, e.Text())
		}
	}
	if len(lines) == 0 {
		return nil
	}
	return fault.New(fault.Policy, "%d of %s denied", len(lines),
		fault.Count(int64(len(all)), "licence")).List(lines...).Try("rye why NAME").Answer()
}

// Text returns the licence of the entry.
func (e *Licence) Text() string {
	text := fmt.Sprintf("%s@%s: %s", e.Name, e.Version, e.Licence)
	if e.Declared != "" {
		text += fmt.Sprintf(" (%q)", e.Declared)
	}
	return text
}
