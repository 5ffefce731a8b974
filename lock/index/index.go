package index

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/rye-build/rye/ai/semver"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/canon"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/portable"
	"github.com/rye-build/rye/lock/project"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/sign"
)

// File is the name of the document in a directory.
const File = "index.yaml"

// The limits of an index.
const (
	MaxBytes   = 64 << 20 // signature lines included
	MaxEntries = 1 << 18
	MaxArchive = 8 << 30 // bytes of one archive
	MaxKeys    = sign.MaxLines * 256
)

// KeysOf returns the place of the public keys of an index's signers, for the path or the address of the index.
func KeysOf(place string) string {
	query := ""
	if strings.Contains(place, "://") {
		place, query, _ = strings.Cut(place, "?")
		if query != "" {
			query = "?" + query
		}
	}
	return place + ".keys" + query
}

const (
	maxRequires = 2048
	maxArchive  = 1000
	maxBy       = 200
	timeForm    = "2006-01-02T15:04:05Z"
)

// indexSpec is the document in the package comment.
var indexSpec = canon.Spec{
	Format: "index/2",
	Header: []canon.Field{
		{Name: "name", Max: 2*portable.MaxID + 1},
		{Name: "counter", Type: canon.Int},
		{Name: "expires", Optional: true, Max: int64(len(timeForm))},
	},
	Sections: []canon.Section{{Name: "bundles", Fields: []canon.Field{
		{Name: "manifest", Max: 71},
		{Name: "archive", Max: maxArchive},
		{Name: "size", Type: canon.Int, Max: MaxArchive},
		{Name: "requires", Type: canon.Strings, Optional: true, Max: maxRequires},
		{Name: "digest", Optional: true, Max: 71},
		{Name: "by", Optional: true, Max: maxBy},
		{Name: "time", Optional: true, Max: int64(len(timeForm))},
		{Name: "leaf", Type: canon.Int, Optional: true},
		{Name: "yanked", Type: canon.Int, Optional: true},
	}}},
	MaxBytes:   MaxBytes,
	MaxEntries: MaxEntries,
}

// Indexes into indexSpec.
const (
	headName, headCounter, headExpires = 0, 1, 2

	atManifest, atArchive, atSize, atRequires, atDigest, atBy, atTime, atLeaf, atYanked = 0, 1, 2, 3, 4, 5, 6, 7, 8
)

// An Index is one issue of a list. It is immutable after it was read, and then safe for concurrent use.
type Index struct {
	manifest.Document // its Name is "index:" and Label

	Label   string // the name of the list
	Counter int64  // from 1
	Expires time.Time
	Entries []Entry // sorted by ID "@" Version
}

// An Entry is one version of a bundle.
type Entry struct {
	ID, Version string
	Manifest    cas.Digest // the id of its manifest
	Archive     string     // a path relative to the index, or an https address
	Size        int64      // of the archive
	Requires    []Require  // sorted by ID
	Logged      *Logged    // of a registry with a log; else nil
}

// A Logged is what a registry's log says of a version, and where.
type Logged struct {
	Digest cas.Digest // of the archive's bytes
	By     string     // the account that published it
	Time   time.Time
	Leaf   int64 // the number of the log's entry
	Yanked int64 // the number of the entry that yanked it; 0 for none
}

// A Require is a requirement of a bundle.
type Require struct {
	ID    string
	Text  string // the range as written
	Range semver.Range
}

// Remote reports whether the archive has an address of its own.
func (e *Entry) Remote() bool { return isAddress(e.Archive) }

func isAddress(archive string) bool { return strings.HasPrefix(archive, "https://") }

// At returns the address of the archive for an index at an address.
func (e *Entry) At(address string) (string, error) {
	if e.Remote() {
		return e.Archive, nil
	}
	base, err := url.Parse(address)
	if err != nil {
		return "", err
	}
	return base.ResolveReference(&url.URL{Path: e.Archive}).String(), nil
}

// order compares two entries as the document sorts them, which is not by version: "a@1.10.0" comes before "a@1.9.0".
func order(id, version, otherID, otherVersion string) int {
	if id == otherID {
		return strings.Compare(version, otherVersion)
	}
	// If one id begins with the other, they differ at the "@" after the shorter one.
	n := min(len(id), len(otherID))
	if c := strings.Compare(id[:n], otherID[:n]); c != 0 {
		return c
	}
	at := func(id string) byte {
		if len(id) == n {
			return '@'
		}
		return id[n]
	}
	return int(at(id)) - int(at(otherID))
}

// Versions returns the entries of a bundle, sorted by the bytes of their versions.
func (x *Index) Versions(id string) []Entry {
	from, _ := slices.BinarySearchFunc(x.Entries, id, func(e Entry, id string) int {
		return order(e.ID, e.Version, id, "")
	})
	to := from
	for to < len(x.Entries) && x.Entries[to].ID == id {
		to++
	}
	return x.Entries[from:to:to]
}

// Find returns the entry of one version of a bundle, or nil.
func (x *Index) Find(id, version string) *Entry {
	i, ok := slices.BinarySearchFunc(x.Entries, id, func(e Entry, id string) int {
		return order(e.ID, e.Version, id, version)
	})
	if !ok {
		return nil
	}
	return &x.Entries[i]
}

// An Error is an invalid entry in an index that is otherwise a canonical document.
type Error struct {
	Line int // 0 if it concerns no single line
	Err  error
}

func (e *Error) Error() string {
	if e.Line == 0 {
		return "index: " + e.Err.Error()
	}
	return fmt.Sprintf("index: line %d: %v", e.Line, e.Err)
}

// Unwrap returns the underlying error.
func (e *Error) Unwrap() error { return e.Err }

// Fault implements the interface of package fault.
func (e *Error) Fault() *fault.Error { return fault.New(fault.Parsing, "%v", e).From(e) }

// checkArchive returns why an archive's place is invalid.
func checkArchive(archive string) error {
	if !isAddress(archive) {
		return portable.Check(archive)
	}
	_, err := project.ParseSource(archive, false)
	return err
}
