// Package redact takes secrets out of what is to be kept or shown.
//
// A secret is found by its value, as it is or in base64 (without the padding), hexadecimal digits or the escapes of URLs,
// anywhere in a text; one of fewer than 6 bytes only where it is the whole text, since it would be found in everything. In
// JSON, text is also taken out by its name: in a member whose name holds, in any case, one of
//
//	secret token password passwd api_key apikey api-key authorization access_key private_key credential
//
// and in everything below it. Numbers stay. What was there is replaced by ***REDACTED***, so that the digest of
// parameters (Digest) is the same for all secrets, and nobody can try which one it was.
//
// This is a net, and no proof: a tool that turns a secret around gets it through.
package redact

import (
	"cmp"
	"encoding/base64"
	"encoding/hex"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/manifest/jcs"
)

// Mask stands where a secret was.
const Mask = "***REDACTED***"

// secretNames are parts of names of members that hold a secret, whatever it is.
var secretNames = []string{"secret", "token", "password", "passwd", "api_key", "apikey", "api-key", "authorization", "access_key", "private_key", "credential"}

// shortest is the length from which a secret is also looked for within text. Shorter ones are found in everything.
const shortest = 6

// A Redactor takes secrets out of text and values.
type Redactor struct {
	within *strings.Replacer
	whole  map[string]bool
}

// New returns a Redactor for these secrets, as they are and in base64, hexadecimal digits and URLs.
func New(secrets ...string) *Redactor {
	r := &Redactor{whole: map[string]bool{}}
	forms := map[string]bool{}
	for _, s := range secrets {
		if s == "" {
			continue
		}
		r.whole[s] = true
		if len(s) < shortest {
			continue
		}
		b := []byte(s)
		for _, f := range []string{
			s, url.QueryEscape(s), url.PathEscape(s), hex.EncodeToString(b), strings.ToUpper(hex.EncodeToString(b)),
			base64.RawStdEncoding.EncodeToString(b), base64.RawURLEncoding.EncodeToString(b),
		} {
			forms[f] = true
		}
	}
	// Where two begin at one place, the longer one counts.
	var pairs []string
	for _, f := range slices.SortedFunc(maps.Keys(forms), func(a, b string) int {
		return cmp.Or(len(b)-len(a), strings.Compare(a, b))
	}) {
		pairs = append(pairs, f, Mask)
	}
	r.within = strings.NewReplacer(pairs...)
	return r
}

// Text returns s without secrets.
func (r *Redactor) Text(s string) string {
	if r.whole[s] {
		return Mask
	}
	return r.within.Replace(s)
}

// Value returns a copy of v, a value as package jcs has it, without secrets. Text in a member whose name says that it
// is secret is taken out, too.
func (r *Redactor) Value(v any) any { return r.value(v, false, 0) }

func (r *Redactor) value(v any, secret bool, depth int) any {
	if depth > jcs.MaxDepth {
		return Mask // jcs refuses what is so deep
	}
	switch v := v.(type) {
	case string:
		if secret {
			return Mask
		}
		return r.Text(v)
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = r.value(v[i], secret, depth+1)
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for _, k := range slices.Sorted(maps.Keys(v)) {
			out[r.Text(k)] = r.value(v[k], secret || isSecretName(k), depth+1)
		}
		return out
	}
	return v
}

func isSecretName(name string) bool {
	name = strings.ToLower(name)
	return slices.ContainsFunc(secretNames, func(s string) bool { return strings.Contains(name, s) })
}

// Digest returns the digest of a call's parameters: of their JCS, without secrets. Who has the parameters and knows
// which of them were secret finds it again, and nobody finds a secret from it.
func (r *Redactor) Digest(params any) (cas.Digest, error) {
	b, err := jcs.Append(nil, r.Value(params))
	if err != nil {
		return cas.Digest{}, err
	}
	return cas.Sum(b), nil
}
