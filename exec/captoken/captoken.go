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
	now = now.UTC().Truncate(time.Second)
	return &Token{Unique: strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(b[:])),
		Thread: thread, Directive: directive, Set: set,
		Audience: Audience, NotBefore: now, Expires: now.Add(lasts.Truncate(time.Second) + time.Second),
		Depth: min(depth, MaxDepth), Grants: grants}
}

// Encode signs the token with the machine key and returns the document.
func (t *Token) Encode(machine key.Private, now time.Time) (string, error) {
	e := canon.NewEncoderBytes(nil, &spec)
	digest := func(i int, d cas.Digest) {
		if !d.IsZero() {
			e.HeaderStr(i, d.String())
		}
	}
	e.HeaderStr(atToken, t.Unique)
	digest(atParent, t.Parent)
	e.HeaderStr(atThread, t.Thread)
	e.HeaderStr(atDirective, t.Directive)
	digest(atSet, t.Set)
	e.HeaderStr(atAudience, t.Audience)
	e.HeaderStr(atNotBefore, t.NotBefore.UTC().Format(timeForm))
	e.HeaderStr(atExpires, t.Expires.UTC().Format(timeForm))
	e.HeaderInt(atDepth, t.Depth)
	for _, c := range t.Grants.Strings() {
		e.Begin(0, c)
		e.End()
	}
	if err := e.Close(); err != nil {
		return "", err
	}
	body := e.Bytes()
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

func parse(b []byte) (*Token, error) {
	s := canon.NewScannerBytes(b, &spec)
	if !s.Header() {
		return nil, s.Err()
	}
	t := &Token{Unique: string(s.HeaderStr(atToken)), Thread: string(s.HeaderStr(atThread)),
		Directive: string(s.HeaderStr(atDirective)),
		Audience:  string(s.HeaderStr(atAudience)), Depth: s.HeaderInt(atDepth)}
	var errs []error
	for i, to := range map[int]*cas.Digest{atParent: &t.Parent, atSet: &t.Set} {
		if s.HeaderHas(i) {
			d, err := cas.ParseDigest(s.HeaderStr(i))
			if *to = d; err == nil && d.IsZero() {
				err = errors.New("a digest of zeros")
			}
			errs = append(errs, err)
		}
	}
	for i, to := range map[int]*time.Time{atNotBefore: &t.NotBefore, atExpires: &t.Expires} {
		text := string(s.HeaderStr(i))
		at, err := time.Parse(timeForm, text)
		if err == nil && at.Format(timeForm) != text {
			err = fmt.Errorf("%q is not a time such as %q", text, timeForm)
		}
		*to = at
		errs = append(errs, err)
	}
	_, err := model.ParseRef(t.Directive)
	errs = append(errs, err)
	if t.Unique == "" || t.Thread == "" || !t.NotBefore.Before(t.Expires) {
		errs = append(errs, errors.New("it has no name, no thread or no time"))
	}
	var grants []string
	for s.Scan() {
		grants = append(grants, string(s.Key()))
	}
	if err := errors.Join(append(errs, s.Err())...); err != nil {
		return nil, err
	}
	if t.Grants, err = capability.ParseSet(grants); err != nil {
		return nil, err
	}
	if !slices.Equal(t.Grants.Strings(), grants) {
		return nil, errors.New("its grants are not in their shortest form")
	}
	body, lines, err := manifest.Split(b)
	if err != nil {
		return nil, err
	}
	t.Document = document(body)
	t.Signatures = lines
	return t, nil
}
