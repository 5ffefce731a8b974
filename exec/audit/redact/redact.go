// Package redact is the removal of secrets from texts and values that are kept or shown.
//
// A secret is found by its value anywhere in a text, and in the forms that programs give it:
//
//	base64          both alphabets, with padding or without, at any offset of the encoded bytes (Basic of HTTP puts a
//	                user's name before it); the common alphabet also in lines of 64 or 76, but a secret of more than
//	                Wrapped bytes only if it is encoded by itself
//	hexadecimal     digits, in capitals or not
//	escapes         of URLs, as in queries, paths and whole addresses, or of every byte; of JSON, also for HTML, in
//	                ASCII, and of JSON in JSON
//	lines           of Line bytes and more, of a secret that has several
//
// At both ends of a text, pieces of a secret of Shortest bytes and more are removed as well, because long text is cut
// somewhere before it is stored. A secret of fewer than Shortest bytes is removed only if it is the whole text, since
// it would match everywhere; rye never hands out such a short one. Overlapping matches become one mask.
//
// In JSON, text is also removed by its name: in a member whose name contains, in any case, one of
//
//	secret token password passwd api_key apikey api-key authorization access_key private_key credential
//
// and in everything below it. Numbers stay, unless their digits are a secret. ***REDACTED*** replaces each secret, so
// that the digest of parameters (Digest) is the same for all secrets and can't be used to guess one. A Stream does
// the same to bytes that arrive in pieces.
//
// This is a safety net and no proof: a tool that reverses a secret gets it through.
//
// # How a text goes through here
//
// New computes the forms of all secrets (spell, wrap) and indexes them (compile). Text masks a whole string; a Stream
// masks piece by piece and holds back a possible beginning of a secret (masker.write, keep). Value walks JSON and
// masks by name too.
package redact

import (
	"maps"
	"slices"
	"strings"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/manifest/jcs"
)

const (
	// Mask replaces a secret.
	Mask = "***REDACTED***"
	// Shortest is the least length of a secret that is searched for within text. Shorter ones would match everywhere.
	Shortest = 6
	// Line is the least length of a secret's line that is searched for by itself.
	Line = 16
	// Wrapped is the greatest length of a secret that is searched for at any offset within lines of base64.
	Wrapped = 2048
)

// secretNames are the parts of a member's name that make its value a secret.
var secretNames = []string{"secret", "token", "password", "passwd", "api_key", "apikey", "api-key", "authorization",
	"access_key", "private_key", "credential"}

// A Redactor removes secrets from text and values. It is immutable, and safe for concurrent use.
type Redactor struct {
	forms forms
	whole map[string]bool
}

// New returns a Redactor for these secrets.
func New(secrets ...string) *Redactor {
	if len(secrets) == 0 {
		return none
	}
	r := &Redactor{whole: map[string]bool{}}
	found := map[string]bool{}
	for _, s := range secrets {
		if s != "" {
			r.whole[s] = true
			spell(found, s)
		}
	}
	r.forms = compile(slices.Collect(maps.Keys(found)))
	return r
}

// none removes only values whose name is that of a secret.
var none = &Redactor{forms: compile(nil)}

// Text returns s without secrets.
func (r *Redactor) Text(s string) string {
	if r.whole[s] {
		return Mask
	}
	if len(r.forms.sorted) == 0 {
		return s
	}
	var out strings.Builder
	m := masker{forms: &r.forms, cut: true, emit: func(b string) error { out.WriteString(b); return nil }}
	m.write(s, true)
	return out.String()
}

// Value returns a copy of v, a value of package jcs, without secrets. It also removes text in members with secret
// names.
func (r *Redactor) Value(v any) any { return r.value(v, true, false, 0) }

// Result is Value without removal by name: a tool's purpose may be to return a token.
func (r *Redactor) Result(v any) any { return r.value(v, false, false, 0) }

func (r *Redactor) value(given any, named, secret bool, depth int) any {
	if depth > jcs.MaxDepth {
		return Mask // jcs refuses values this deep
	}
	switch val := given.(type) {
	case string:
		if secret {
			return Mask
		}
		return r.Text(val)
	case int64, float64:
		if digits, err := jcs.Append(nil, val); err == nil && r.Text(string(digits)) != string(digits) {
			return Mask
		}
	case []any:
		out := make([]any, len(val))
		for i := range val {
			out[i] = r.value(val[i], named, secret, depth+1)
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(val))
		for _, k := range slices.Sorted(maps.Keys(val)) {
			out[r.Text(k)] = r.value(val[k], named, secret || named && isSecretName(k), depth+1)
		}
		return out
	}
	return given
}

func isSecretName(name string) bool {
	name = strings.ToLower(name)
	return slices.ContainsFunc(secretNames, func(s string) bool { return strings.Contains(name, s) })
}

// Args returns the arguments of a command for display, without the values of parameters that have the name of a
// secret.
func Args(args []string) []string {
	out := slices.Clone(args)
	for i, arg := range args {
		name, value, given := strings.Cut(arg, "=")
		if given && value != "" && isSecretName(name) {
			out[i] = name + "=" + Mask
			continue
		}
		at := strings.IndexByte(arg, '{') // of a JSON object, perhaps after a flag
		if v, err := jcs.Parse([]byte(arg[max(at, 0):])); at >= 0 && err == nil {
			if b, err := jcs.Append(nil, none.Value(v)); err == nil {
				out[i] = arg[:at] + string(b)
			}
		}
	}
	return out
}

// Digest returns the digest of a call's parameters: of their JCS, without secrets. Anyone who has the parameters and
// knows which were secret can compute it again, but it reveals no secret.
func (r *Redactor) Digest(params any) (cas.Digest, error) {
	b, err := jcs.Append(nil, r.Value(params))
	if err != nil {
		return cas.Digest{}, err
	}
	return cas.Sum(b), nil
}
