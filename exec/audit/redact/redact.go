// Package redact is the removal of secrets from texts and values that are kept or shown.
//
// A secret is found by its value anywhere in a text, and by what programs make of it:
//
//	base64          of both alphabets, with padding or without, wherever in what is encoded it begins (Basic of HTTP
//	                has a user's name before it); of the common alphabet in lines of 64 or 76 as well, but one of
//	                more than Wrapped bytes only where it is encoded by itself
//	hexadecimal     digits, in capitals or not
//	escapes         of URLs, as queries, paths and whole addresses have them or one for every byte; of JSON, for HTML
//	                and in ASCII too, and of JSON in JSON
//	lines           of Line bytes and more, of a secret that has several
//
// At both ends of a text, parts of a secret of Shortest bytes and more are taken out as well: what is too long to be
// kept is cut somewhere. A secret of fewer than Shortest bytes is taken out only where it is the whole text, since it
// would be found in everything; rye never hands out such a short one. What overlaps is taken out together.
//
// In JSON, text is also taken out by its name: in a member whose name holds, in any case, one of
//
//	secret token password passwd api_key apikey api-key authorization access_key private_key credential
//
// and in everything below it. Numbers stay, unless their digits are a secret. What was there is replaced by
// ***REDACTED***, so that the digest of parameters (Digest) is the same for all secrets, and can't be used to guess
// which one it was. A Stream does the same to bytes that come piece by piece.
//
// This is a net, and no proof: a tool that turns a secret around gets it through.
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
	// Shortest is how many bytes a secret has that is looked for within text. Shorter ones are found in everything.
	Shortest = 6
	// Line is how many bytes a line of a secret has that is looked for by itself.
	Line = 16
	// Wrapped is how many bytes a secret has that is looked for in lines of base64 wherever in them it begins.
	Wrapped = 2048
)

// secretNames are parts of names of members that hold a secret, whatever it is.
var secretNames = []string{"secret", "token", "password", "passwd", "api_key", "apikey", "api-key", "authorization",
	"access_key", "private_key", "credential"}

// A Redactor takes secrets out of text and values. It isn't changed, and is safe for many goroutines.
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

// Value returns a copy of v, a value as package jcs has it, without secrets. Text in a member whose name says that it
// is secret is taken out, too.
func (r *Redactor) Value(v any) any { return r.value(v, true, false, 0) }

// Result is Value for what a tool gives: nothing is taken out by its name, since to give a token may be what it is
// for.
func (r *Redactor) Result(v any) any { return r.value(v, false, false, 0) }

func (r *Redactor) value(v any, named, secret bool, depth int) any {
	if depth > jcs.MaxDepth {
		return Mask // jcs refuses what is so deep
	}
	switch v := v.(type) {
	case string:
		if secret {
			return Mask
		}
		return r.Text(v)
	case int64, float64:
		if digits, err := jcs.Append(nil, v); err == nil && r.Text(string(digits)) != string(digits) {
			return Mask
		}
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = r.value(v[i], named, secret, depth+1)
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for _, k := range slices.Sorted(maps.Keys(v)) {
			out[r.Text(k)] = r.value(v[k], named, secret || named && isSecretName(k), depth+1)
		}
		return out
	}
	return v
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
		at := strings.IndexByte(arg, '{') // of a JSON object, perhaps behind a flag
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
