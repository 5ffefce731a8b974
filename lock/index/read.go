package index

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rye-build/rye/ai/semver"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/canon"
	"github.com/rye-build/rye/cas/portable"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/sign"
)

// This file parses and encodes indexes.

// Parse reads an index, with or without signature lines. It checks that they sign these bytes, but no key: see
// Document.Check. An error is a *canon.SyntaxError, an *Error with the line, a *canon.VersionError, or an error of
// the signature lines, with which the index is returned too. b isn't kept.
func Parse(b []byte) (*Index, error) {
	parser := parser{Scanner: canon.NewScannerBytes(b, &indexSpec), ranges: map[string]Require{}}
	err := parser.read(len(b))
	if parser.Err() != nil {
		err = parser.Err()
	}
	if err != nil {
		return nil, err
	}
	parser.index.Document = manifest.Document{Domain: sign.Index, Name: "index:" + parser.index.Label}
	body, lines, err := manifest.Split(b)
	if err == nil {
		parser.index.ID, parser.index.Signatures = cas.Sum(body), lines
	}
	index := parser.index // without its parser, which holds the scanner
	return &index, err
}

// minEntry is shorter than any entry.
const minEntry = 100

type parser struct {
	*canon.Scanner
	canon.Keeper
	index  Index
	ranges map[string]Require // cache, since many bundles have the same requirements
}

func (p *parser) errorf(format string, args ...any) error {
	return &Error{p.Line(), fmt.Errorf(format, args...)}
}

func (p *parser) read(size int) error {
	if !p.Header() {
		return p.Err()
	}
	index := &p.index
	index.Label, index.Counter = string(p.HeaderStr(headName)), p.HeaderInt(headCounter)
	if err := checkLabel(index.Label); err != nil {
		return &Error{0, err}
	}
	if index.Counter == 0 {
		return &Error{0, errors.New("the counter must be at least 1")}
	}
	if p.HeaderHas(headExpires) {
		var err error
		text := string(p.HeaderStr(headExpires))
		if index.Expires, err = time.Parse(timeForm, text); err != nil || index.Expires.Format(timeForm) != text {
			return &Error{0, fmt.Errorf("expires is not a time such as %q", timeForm)}
		}
	}
	index.Entries = make([]Entry, 0, min(size/minEntry, MaxEntries))
	for p.Scan() {
		if err := p.entry(); err != nil {
			return err
		}
	}
	if len(index.Entries) == 0 {
		index.Entries = nil
	}
	return p.Err()
}

func (p *parser) entry() (err error) {
	var entry Entry
	var ok bool
	if entry.ID, entry.Version, ok = strings.Cut(p.Keep(p.Key()), "@"); !ok {
		return p.errorf("%+q is not an id, \"@\" and a version", p.Key())
	}
	if last := len(p.index.Entries) - 1; last < 0 || p.index.Entries[last].ID != entry.ID {
		if err := portable.CheckID(entry.ID); err != nil {
			return &Error{p.Line(), err}
		}
	} else {
		entry.ID = p.index.Entries[last].ID
	}
	if err := manifest.CheckVersion(entry.Version); err != nil {
		return &Error{p.Line(), err}
	}
	if entry.Manifest, err = cas.ParseDigest(p.Str(atManifest)); err != nil {
		return &Error{p.Line(), err}
	}
	entry.Archive = p.Keep(p.Str(atArchive))
	if err := checkArchive(entry.Archive); err != nil {
		return &Error{p.Line(), err}
	}
	if entry.Size = p.Int(atSize); entry.Size == 0 {
		return p.errorf("no archive has 0 bytes")
	}
	if p.Has(atRequires) {
		if err := p.requires(&entry, p.Strs(atRequires)); err != nil {
			return err
		}
	}
	if err := p.logged(&entry); err != nil {
		return err
	}
	p.index.Entries = append(p.index.Entries, entry)
	return nil
}

// logged reads what a registry's log says of an entry: all of it, or nothing.
func (p *parser) logged(entry *Entry) (err error) {
	count := 0
	for _, field := range []int{atDigest, atBy, atTime, atLeaf} {
		if p.Has(field) {
			count++
		}
	}
	switch {
	case count == 0 && !p.Has(atYanked):
		return nil
	case count < 4:
		return p.errorf("expected digest, by, time and leaf together")
	}
	logged := &Logged{By: p.Keep(p.Str(atBy)), Leaf: p.Int(atLeaf)}
	if logged.Digest, err = cas.ParseDigest(p.Str(atDigest)); err != nil {
		return &Error{p.Line(), err}
	}
	text := string(p.Str(atTime))
	if logged.Time, err = time.Parse(timeForm, text); err != nil || logged.Time.Format(timeForm) != text {
		return p.errorf("time is not a time such as %q", timeForm)
	}
	if p.Has(atYanked) {
		if logged.Yanked = p.Int(atYanked); logged.Yanked <= logged.Leaf {
			return p.errorf("it is yanked before it is published")
		}
	}
	entry.Logged = logged
	return nil
}

// checkLabel checks the name of an index: an id, or the name of a registry, "/" and an id. A registry's name may have
// slashes, too.
func checkLabel(label string) error {
	if len(label) <= portable.MaxID {
		return portable.CheckID(label)
	}
	at := len(label) - portable.MaxID - 1 // the slash is here or behind
	i := strings.IndexByte(label[at:], '/')
	if i < 0 {
		return portable.CheckID(label)
	}
	if err := portable.CheckID(label[:at+i]); err != nil {
		return err
	}
	return portable.CheckID(label[at+i+1:])
}

func (p *parser) requires(entry *Entry, texts [][]byte) error {
	entry.Requires = make([]Require, len(texts))
	for i, text := range texts {
		require, known := p.ranges[string(text)]
		if !known {
			var err error
			if require, err = parseRequire(string(text)); err != nil {
				return &Error{p.Line(), err}
			}
			p.ranges[string(text)] = require
		}
		switch {
		case require.ID == entry.ID:
			return p.errorf("the bundle requires itself")
		case i > 0 && require.ID <= entry.Requires[i-1].ID:
			return p.errorf("the required bundles are unsorted or duplicate")
		}
		entry.Requires[i] = require
	}
	return nil
}

func parseRequire(text string) (Require, error) {
	id, versions, ok := strings.Cut(text, " ")
	if !ok {
		return Require{}, fmt.Errorf("%+q is not an id, a space and a range of versions", text)
	}
	if err := portable.CheckID(id); err != nil {
		return Require{}, err
	}
	r, err := NewRequire(id, versions)
	if err != nil {
		return Require{}, err
	}
	return r, nil
}

// NewRequire returns the requirement for an id and a range from a manifest.
func NewRequire(id, versions string) (Require, error) {
	r := Require{ID: id, Text: versions}
	var err error
	if r.Range, err = semver.Parse(versions); err != nil {
		return r, fmt.Errorf("it requires %q: %w", id, err)
	}
	if r.Range.Empty() {
		return r, fmt.Errorf("it requires %q: %+q allows no version", id, versions)
	}
	return r, nil
}

// Append appends the encoded index, without signature lines, and returns it as parsed. It ignores x's Document and
// parsed ranges; entries and their requirements may be in any order. If the result would be invalid, it returns dst
// unchanged with the error.
func Append(dst []byte, x *Index) ([]byte, *Index, error) {
	encoder := canon.NewEncoderBytes(dst, &indexSpec)
	encoder.HeaderStr(headName, x.Label)
	encoder.HeaderInt(headCounter, x.Counter)
	if !x.Expires.IsZero() {
		encoder.HeaderStr(headExpires, x.Expires.UTC().Format(timeForm))
	}
	var digest [71]byte
	for _, entry := range slices.SortedFunc(slices.Values(x.Entries), func(a, b Entry) int {
		return order(a.ID, a.Version, b.ID, b.Version)
	}) {
		encoder.Begin(0, entry.ID+"@"+entry.Version)
		encoder.StrBytes(atManifest, entry.Manifest.Append(digest[:0]))
		encoder.Str(atArchive, entry.Archive)
		encoder.Int(atSize, entry.Size)
		var texts []string
		for _, r := range slices.SortedFunc(slices.Values(entry.Requires), func(a, b Require) int {
			return strings.Compare(a.ID, b.ID)
		}) {
			texts = append(texts, r.ID+" "+r.Text)
		}
		if len(texts) > 0 {
			encoder.Strs(atRequires, texts)
		}
		if l := entry.Logged; l != nil {
			encoder.Str(atDigest, l.Digest.String())
			encoder.Str(atBy, l.By)
			encoder.Str(atTime, l.Time.UTC().Format(timeForm))
			encoder.Int(atLeaf, l.Leaf)
			if l.Yanked != 0 {
				encoder.Int(atYanked, l.Yanked)
			}
		}
		encoder.End()
	}
	if err := encoder.Close(); err != nil {
		return dst, nil, err
	}
	read, err := Parse(encoder.Bytes()[len(dst):])
	if err != nil {
		return dst, nil, err
	}
	return encoder.Bytes(), read, nil
}
