package advisory

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/canon"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/portable"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/sign"
)

// The limits of a list.
const (
	MaxList    = 16 << 20 // bytes, signature lines included
	MaxEntries = 1 << 16
)

// A List is one issue of a registry's list of its advisories.
type List struct {
	manifest.Document // its Name is "advisories:" and Registry

	Registry string // the name of the registry
	Counter  int64  // from 1
	Issued   time.Time
	Entries  []Entry // sorted by ID
}

// An Entry is one advisory in a list.
type Entry struct {
	ID       string
	Bundle   string
	Document cas.Digest // of the advisory
	Leaf     int64      // the number of the log's entry with the document
	Modified time.Time
}

var listSpec = canon.Spec{
	Format: "advisories/1",
	Header: []canon.Field{
		{Name: "name", Max: portable.MaxID},
		{Name: "counter", Type: canon.Int},
		{Name: "issued", Max: int64(len(timeForm))},
	},
	Sections: []canon.Section{{Name: "advisories", Fields: []canon.Field{
		{Name: "bundle", Max: portable.MaxID},
		{Name: "document", Max: 71},
		{Name: "leaf", Type: canon.Int},
		{Name: "modified", Max: int64(len(timeForm))},
	}}},
	MaxBytes:   MaxList,
	MaxEntries: MaxEntries,
}

// Indexes into listSpec.
const (
	headName, headCounter, headIssued = 0, 1, 2

	atBundle, atDocument, atLeaf, atModified = 0, 1, 2, 3
)

func badList(err error) error { return fault.New(fault.Parsing, "advisories: %v", err).From(err) }

// ParseList reads a list, with or without signature lines. It checks that they sign these bytes, but no key: see
// Document.Check. What it accepts, AppendList and manifest.Join write again byte for byte.
func ParseList(b []byte) (*List, error) {
	scan := canon.NewScannerBytes(b, &listSpec)
	list := &List{}
	err := list.read(scan)
	if scan.Err() != nil {
		return nil, scan.Err()
	}
	if err != nil {
		return nil, badList(err)
	}
	body, lines, err := manifest.Split(b)
	if err != nil {
		return nil, err
	}
	list.Document = manifest.Document{Domain: sign.Advisories, Name: "advisories:" + list.Registry, ID: cas.Sum(body),
		Signatures: lines}
	return list, nil
}

func (l *List) read(scan *canon.Scanner) (err error) {
	if !scan.Header() {
		return scan.Err()
	}
	l.Registry, l.Counter = string(scan.HeaderStr(headName)), scan.HeaderInt(headCounter)
	if err := portable.CheckID(l.Registry); err != nil {
		return err
	}
	if l.Counter == 0 {
		return fmt.Errorf("the counter must be at least 1")
	}
	if l.Issued, err = parseTime(scan.HeaderStr(headIssued)); err != nil {
		return err
	}
	for scan.Scan() {
		entry := Entry{ID: string(scan.Key()), Bundle: string(scan.Str(atBundle)), Leaf: scan.Int(atLeaf)}
		if !IsID(entry.ID) {
			return fmt.Errorf("line %d: %+q is not the id of an advisory", scan.Line(), entry.ID)
		}
		if err := portable.CheckID(entry.Bundle); err != nil {
			return fmt.Errorf("line %d: %w", scan.Line(), err)
		}
		if entry.Document, err = cas.ParseDigest(scan.Str(atDocument)); err != nil {
			return fmt.Errorf("line %d: %w", scan.Line(), err)
		}
		if entry.Modified, err = parseTime(scan.Str(atModified)); err != nil {
			return fmt.Errorf("line %d: %w", scan.Line(), err)
		}
		l.Entries = append(l.Entries, entry)
	}
	return scan.Err()
}

func parseTime(b []byte) (time.Time, error) {
	at, err := time.Parse(timeForm, string(b))
	if err != nil || at.Format(timeForm) != string(b) {
		return at, fmt.Errorf("%+q is not a time such as %q", b, timeForm)
	}
	return at, nil
}

// AppendList appends the encoded list, without signature lines, and returns it as parsed. Entries may be in any order.
// If the result would be invalid, it returns dst unchanged with the error.
func AppendList(dst []byte, l *List) ([]byte, *List, error) {
	encoder := canon.NewEncoderBytes(dst, &listSpec)
	encoder.HeaderStr(headName, l.Registry)
	encoder.HeaderInt(headCounter, l.Counter)
	encoder.HeaderStr(headIssued, l.Issued.UTC().Format(timeForm))
	for _, entry := range slices.SortedFunc(slices.Values(l.Entries), func(a, b Entry) int {
		return strings.Compare(a.ID, b.ID)
	}) {
		encoder.Begin(0, entry.ID)
		encoder.Str(atBundle, entry.Bundle)
		encoder.Str(atDocument, entry.Document.String())
		encoder.Int(atLeaf, entry.Leaf)
		encoder.Str(atModified, entry.Modified.UTC().Format(timeForm))
		encoder.End()
	}
	if err := encoder.Close(); err != nil {
		return dst, nil, err
	}
	read, err := ParseList(encoder.Bytes()[len(dst):])
	if err != nil {
		return dst, nil, err
	}
	return encoder.Bytes(), read, nil
}

// Find returns the entry of an advisory, or nil.
func (l *List) Find(id string) *Entry {
	i, ok := slices.BinarySearchFunc(l.Entries, id, func(e Entry, id string) int { return strings.Compare(e.ID, id) })
	if !ok {
		return nil
	}
	return &l.Entries[i]
}

// Of returns the entries about a bundle.
func (l *List) Of(bundle string) (found []Entry) {
	for _, e := range l.Entries {
		if e.Bundle == bundle {
			found = append(found, e)
		}
	}
	return found
}
