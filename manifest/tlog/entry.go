package tlog

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/canon"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/portable"
	"github.com/rye-build/rye/manifest"
)

// The limits of an entry.
const (
	MaxEntry    = 32 << 10 // bytes
	MaxReleases = 64       // versions that one entry publishes
	MaxArchive  = 8 << 30  // bytes of an archive

	maxBy    = 200
	timeForm = "2006-01-02T15:04:05Z"
)

// A Kind says what an entry records.
type Kind string

// The kinds of entries.
const (
	Publish          Kind = "publish"
	Yank             Kind = "yank"
	Unpublish        Kind = "unpublish"
	Owner            Kind = "owner"
	TrustedPublisher Kind = "trusted-publisher"
	Advisory         Kind = "advisory"
	Group            Kind = "release" // several versions at once
)

// An Entry is one leaf of the log.
type Entry struct {
	Kind     Kind
	Release             // what it is about; of an owner entry, Bundle is the namespace
	Document cas.Digest // what an owner, trusted-publisher or advisory entry says
	By       string     // the account
	Time     time.Time  // in whole seconds
	Releases []Release  // of a group, sorted by bundle and version
}

// A Release is one version of a bundle.
type Release struct {
	Bundle, Version   string
	Manifest, Archive cas.Digest
	Size              int64 // of the archive
}

// Key returns the name of the release in documents: "acme/base@2.1.4".
func (r *Release) Key() string { return r.Bundle + "@" + r.Version }

// entrySpec is the document in the package comment.
var entrySpec = canon.Spec{
	Format: "log-entry/1",
	Header: []canon.Field{
		{Name: "kind", Max: 32},
		{Name: "bundle", Optional: true, Max: portable.MaxID},
		{Name: "version", Optional: true},
		{Name: "manifest", Optional: true, Max: 71},
		{Name: "archive", Optional: true, Max: 71},
		{Name: "archive-size", Optional: true, Type: canon.Int, Max: MaxArchive},
		{Name: "document", Optional: true, Max: 71},
		{Name: "by", Max: maxBy},
		{Name: "time", Max: int64(len(timeForm))},
	},
	Sections: []canon.Section{{Name: "releases", Fields: []canon.Field{
		{Name: "manifest", Max: 71},
		{Name: "archive", Max: 71},
		{Name: "archive-size", Type: canon.Int, Max: MaxArchive},
	}}},
	MaxBytes:   MaxEntry,
	MaxEntries: MaxReleases,
}

// Indexes into entrySpec.
const (
	headKind, headBundle, headVersion, headManifest       = 0, 1, 2, 3
	headArchive, headSize, headDocument, headBy, headTime = 4, 5, 6, 7, 8

	atManifest, atArchive, atSize = 0, 1, 2
)

// needs says which of the optional header lines each kind has, and no others.
var needs = map[Kind][]int{
	Publish:          {headBundle, headVersion, headManifest, headArchive, headSize},
	Yank:             {headBundle, headVersion, headManifest},
	Unpublish:        {headBundle, headVersion, headManifest},
	Owner:            {headBundle, headDocument},
	TrustedPublisher: {headBundle, headDocument},
	Advisory:         {headBundle, headDocument},
	Group:            nil,
}

// ParseEntry reads an entry. What it accepts, AppendEntry writes again byte for byte.
func ParseEntry(b []byte) (*Entry, error) {
	scan := canon.NewScannerBytes(b, &entrySpec)
	entry := &Entry{}
	err := entry.read(scan)
	if scan.Err() != nil {
		return nil, scan.Err()
	}
	if err != nil {
		return nil, invalidEntry(err)
	}
	return entry, nil
}

func invalidEntry(err error) error {
	return fault.New(fault.Parsing, "log entry: %v", err).From(err)
}

func (e *Entry) read(scan *canon.Scanner) error {
	if !scan.Header() {
		return scan.Err()
	}
	e.Kind = Kind(scan.HeaderStr(headKind))
	need, known := needs[e.Kind]
	if !known {
		return fmt.Errorf("unknown kind %+q", e.Kind)
	}
	for i := headBundle; i <= headDocument; i++ {
		if scan.HeaderHas(i) != slices.Contains(need, i) {
			return fmt.Errorf("an entry of kind %q has exactly these of its own: %s", e.Kind, headerNames(need))
		}
	}
	e.Bundle, e.Version = string(scan.HeaderStr(headBundle)), string(scan.HeaderStr(headVersion))
	e.By = string(scan.HeaderStr(headBy))
	if err := e.readHeader(scan); err != nil {
		return err
	}
	for scan.Scan() {
		if err := e.readRelease(scan); err != nil {
			return err
		}
	}
	switch {
	case scan.Err() != nil:
		return scan.Err()
	case len(scan.Comments()) > 0:
		return errors.New("it has signature lines: the log's signature covers it")
	case (len(e.Releases) > 0) != (e.Kind == Group):
		return fmt.Errorf("an entry of kind %q has a section releases, and no other has one", Group)
	}
	return nil
}

func headerNames(fields []int) string {
	var names []string
	for _, i := range fields {
		names = append(names, entrySpec.Header[i].Name)
	}
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

func (e *Entry) readHeader(scan *canon.Scanner) (err error) {
	if scan.HeaderHas(headBundle) {
		if err := portable.CheckID(e.Bundle); err != nil {
			return err
		}
	}
	if scan.HeaderHas(headVersion) {
		if err := manifest.CheckVersion(e.Version); err != nil {
			return err
		}
	}
	for i, digest := range map[int]*cas.Digest{
		headManifest: &e.Manifest, headArchive: &e.Archive, headDocument: &e.Document,
	} {
		if !scan.HeaderHas(i) {
			continue
		}
		if *digest, err = cas.ParseDigest(scan.HeaderStr(i)); err != nil {
			return err
		}
	}
	if scan.HeaderHas(headSize) {
		if e.Size = scan.HeaderInt(headSize); e.Size == 0 {
			return errors.New("an archive can't have 0 bytes")
		}
	}
	if !isAccount(e.By) {
		return fmt.Errorf("%+q is not the name of an account", e.By)
	}
	text := string(scan.HeaderStr(headTime))
	if e.Time, err = time.Parse(timeForm, text); err != nil || e.Time.Format(timeForm) != text {
		return fmt.Errorf("%+q is not a time such as %q", text, timeForm)
	}
	return nil
}

// isAccount reports whether s is visible ASCII without spaces.
func isAccount(s string) bool {
	return s != "" && strings.IndexFunc(s, func(r rune) bool { return r <= ' ' || r > '~' }) < 0
}

func (e *Entry) readRelease(scan *canon.Scanner) (err error) {
	var release Release
	var ok bool
	if release.Bundle, release.Version, ok = strings.Cut(string(scan.Key()), "@"); !ok {
		return fmt.Errorf("%+q is not an id, \"@\" and a version", scan.Key())
	}
	if err := portable.CheckID(release.Bundle); err != nil {
		return err
	}
	if err := manifest.CheckVersion(release.Version); err != nil {
		return err
	}
	if release.Manifest, err = cas.ParseDigest(scan.Str(atManifest)); err != nil {
		return err
	}
	if release.Archive, err = cas.ParseDigest(scan.Str(atArchive)); err != nil {
		return err
	}
	if release.Size = scan.Int(atSize); release.Size == 0 {
		return errors.New("an archive can't have 0 bytes")
	}
	e.Releases = append(e.Releases, release)
	return nil
}

// AppendEntry appends the encoded entry. Releases may be in any order. If ParseEntry would refuse the result, it
// returns dst unchanged with that error.
func AppendEntry(dst []byte, e *Entry) ([]byte, error) {
	need, known := needs[e.Kind]
	if !known {
		return dst, invalidEntry(fmt.Errorf("unknown kind %+q", e.Kind))
	}
	encoder := canon.NewEncoderBytes(dst, &entrySpec)
	encoder.HeaderStr(headKind, string(e.Kind))
	for _, i := range need {
		switch i {
		case headBundle:
			encoder.HeaderStr(i, e.Bundle)
		case headVersion:
			encoder.HeaderStr(i, e.Version)
		case headManifest:
			encoder.HeaderStr(i, e.Manifest.String())
		case headArchive:
			encoder.HeaderStr(i, e.Archive.String())
		case headSize:
			encoder.HeaderInt(i, e.Size)
		case headDocument:
			encoder.HeaderStr(i, e.Document.String())
		}
	}
	encoder.HeaderStr(headBy, e.By)
	encoder.HeaderStr(headTime, e.Time.UTC().Format(timeForm))
	for _, release := range slices.SortedFunc(slices.Values(e.Releases), func(a, b Release) int {
		return strings.Compare(a.Key(), b.Key())
	}) {
		encoder.Begin(0, release.Key())
		encoder.Str(atManifest, release.Manifest.String())
		encoder.Str(atArchive, release.Archive.String())
		encoder.Int(atSize, release.Size)
		encoder.End()
	}
	if err := encoder.Close(); err != nil {
		return dst, err
	}
	if _, err := ParseEntry(encoder.Bytes()[len(dst):]); err != nil {
		return dst, err
	}
	return encoder.Bytes(), nil
}

// All returns the versions that the entry publishes.
func (e *Entry) All() []Release {
	switch e.Kind {
	case Publish:
		return []Release{e.Release}
	case Group:
		return e.Releases
	}
	return nil
}
