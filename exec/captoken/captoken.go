package captoken

import (
	"crypto/rand"
	"encoding/base32"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rye-build/rye/ai/capability"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/canon"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/sign"
)

// The limits of tokens.
const (
	MaxBytes = 256 << 10 // of one, signature line included
	MaxChain = 16
	MaxDepth = 1 << 20

	maxGrants = 2048
	maxThread = 300
)

// Audience is the only valid audience of a token: a thread.
const Audience = "thread"

const timeForm = "2006-01-02T15:04:05Z"

// spec is the format that the package comment shows.
var spec = canon.Spec{
	Format: "token/2",
	Header: []canon.Field{
		{Name: "token", Max: 26}, {Name: "parent", Optional: true, Max: 71}, {Name: "thread", Max: maxThread},
		{Name: "directive"},
		{Name: "set", Optional: true, Max: 71}, {Name: "audience", Max: 100},
		{Name: "not-before", Max: int64(len(timeForm))}, {Name: "expires", Max: int64(len(timeForm))},
		{Name: "depth", Type: canon.Int, Max: MaxDepth},
	},
	Sections:   []canon.Section{{Name: "grants"}},
	MaxBytes:   MaxBytes,
	MaxEntries: maxGrants,
}

// Indexes into the header.
const (
	atToken = iota
	atParent
	atThread
	atDirective
	atSet
	atAudience
	atNotBefore
	atExpires
	atDepth
)

// A Token is one token of a chain.
type Token struct {
	manifest.Document // its Name is "token:" and the id

	Unique    string
	Parent    cas.Digest // zero for the first
	Thread    string
	Directive string
	Set       cas.Digest // zero for none
	Audience  string
	NotBefore time.Time
	Expires   time.Time
	Depth     int64
	Grants    capability.Set
}

// New returns an unsigned token for a thread, valid from now.
func New(thread, directive string, set cas.Digest, grants capability.Set, depth int64, now time.Time,
	lasts time.Duration) *Token {
	var b [16]byte
	rand.Read(b[:]) // never fails
	return &Token{Unique: strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(b[:])),
		Thread: thread, Directive: directive, Set: set,
		Audience: Audience, NotBefore: now, Expires: now.Add(lasts.Truncate(time.Second) + time.Second),
		Depth: min(depth, MaxDepth), Grants: grants}
}

// Encode signs the token with the machine key and returns the document.
func (t *Token) Encode(machine key.Private, now time.Time) (string, error) {
	encoder := canon.NewEncoderBytes(nil, &spec)
	digest := func(i int, d cas.Digest) {
		if !d.IsZero() {
			encoder.HeaderStr(i, d.String())
		}
	}
	encoder.HeaderStr(atToken, t.Unique)
	digest(atParent, t.Parent)
	encoder.HeaderStr(atThread, t.Thread)
	encoder.HeaderStr(atDirective, t.Directive)
	digest(atSet, t.Set)
	encoder.HeaderStr(atAudience, t.Audience)
	encoder.HeaderStr(atNotBefore, t.NotBefore.UTC().Format(timeForm))
	encoder.HeaderStr(atExpires, t.Expires.UTC().Format(timeForm))
	encoder.HeaderInt(atDepth, t.Depth)
	for _, c := range t.Grants.Strings() {
		encoder.Begin(0, c)
		encoder.End()
	}
	if err := encoder.Close(); err != nil {
		return "", err
	}
	body := encoder.Bytes()
	t.Document = document(body)
	if err := t.Sign(machine, now); err != nil {
		return "", err
	}
	text := string(manifest.Join(nil, body, t.Signatures))
	_, err := Parse([]byte(text))
	return text, err
}

func document(body []byte) manifest.Document {
	id := cas.Sum(body)
	return manifest.Document{Domain: sign.Token, Name: "token:" + id.String(), ID: id}
}

// Parse parses a token. It doesn't verify the signature.
func Parse(b []byte) (*Token, error) {
	t, err := parse(b)
	if err != nil {
		return nil, fault.Wrap(err, "invalid token: %v", err)
	}
	return t, nil
}

func parse(data []byte) (*Token, error) {
	scanner := canon.NewScannerBytes(data, &spec)
	if !scanner.Header() {
		return nil, scanner.Err()
	}
	token := &Token{Unique: string(scanner.HeaderStr(atToken)), Thread: string(scanner.HeaderStr(atThread)),
		Directive: string(scanner.HeaderStr(atDirective)),
		Audience:  string(scanner.HeaderStr(atAudience)), Depth: scanner.HeaderInt(atDepth)}
	var errs []error
	for i, to := range map[int]*cas.Digest{atParent: &token.Parent, atSet: &token.Set} {
		if scanner.HeaderHas(i) {
			d, err := cas.ParseDigest(scanner.HeaderStr(i))
			if *to = d; err == nil && d.IsZero() {
				err = errors.New("a digest of zeros")
			}
			errs = append(errs, err)
		}
	}
	for i, to := range map[int]*time.Time{atNotBefore: &token.NotBefore, atExpires: &token.Expires} {
		text := string(scanner.HeaderStr(i))
		at, err := time.Parse(timeForm, text)
		if at.Format(timeForm) != text {
			err = fmt.Errorf("%q is not a time such as %q", text, timeForm)
		}
		*to = at
		errs = append(errs, err)
	}
	_, err := model.ParseRef(token.Directive)
	errs = append(errs, err)
	if token.Unique == "" || token.Thread == "" || !token.NotBefore.Before(token.Expires) {
		errs = append(errs, errors.New("it has no name, no thread or no time"))
	}
	var grants []string
	for scanner.Scan() {
		grants = append(grants, string(scanner.Key()))
	}
	if err := errors.Join(append(errs, scanner.Err())...); err != nil {
		return nil, err
	}
	if token.Grants, err = capability.ParseSet(grants); err != nil {
		return nil, err
	}
	if !slices.Equal(token.Grants.Strings(), grants) {
		return nil, errors.New("its grants are not in their shortest form")
	}
	body, lines, err := manifest.Split(data)
	if err != nil {
		return nil, err
	}
	token.Document = document(body)
	token.Signatures = lines
	return token, nil
}
