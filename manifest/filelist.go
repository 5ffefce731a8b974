package manifest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/canon"
	"github.com/rye-build/rye/cas/portable"
	"github.com/rye-build/rye/manifest/sign"
)

// The limits of a file list.
const (
	MaxListBytes   = 256 << 20
	MaxListEntries = 1 << 20
	MaxFileSize    = 1 << 40
)

// fileListSpec is the document that the package comment shows.
var fileListSpec = canon.Spec{
	Format: "manifest/2",
	Header: []canon.Field{
		{Name: "id", Max: portable.MaxID},
		{Name: "version", Max: 100},
		{Name: "description", Optional: true},
		{Name: "license", Optional: true, Max: 200},
		{Name: "entrypoint", Optional: true, Max: maxRef},
		{Name: "expires", Optional: true, Max: int64(len(timeForm))},
		{Name: "plugin", Optional: true, Max: int64(len(PluginVersion))},
	},
	Sections: []canon.Section{
		{Name: "requires", Fields: []canon.Field{{Name: "version", Max: 200}}},
		{Name: "files", Fields: []canon.Field{
			{Name: "digest", Max: 71},
			{Name: "size", Type: canon.Int, Max: MaxFileSize},
			{Name: "mode", Max: 4},
			{Name: "ref", Optional: true, Max: maxRef},
			{Name: "version", Optional: true, Max: 100},
		}},
		{Name: "evidence", Fields: []canon.Field{
			{Name: "digest", Max: 71},
			{Name: "size", Type: canon.Int, Max: MaxFileSize},
			{Name: "type", Max: 200},
		}},
	},
	MaxBytes:   MaxListBytes,
	MaxEntries: MaxListEntries,
}

const (
	maxRef    = 64 + 1 + portable.MaxID
	maxNeeds  = 1 << 12 // entries of requires
	maxProofs = 1 << 10 // entries of evidence
)

// PluginVersion is the version of Agent Plugins that a list can be of.
const PluginVersion = "1.0.0"

// Indexes into fileListSpec.
const (
	headID, headVersion, headDescription, headLicense, headEntrypoint, headExpires, headPlugin = 0, 1, 2, 3, 4, 5, 6

	inRequires, inFiles, inEvidence = 0, 1, 2

	atDigest, atSize, atMode, atRef, atVersion = 0, 1, 2, 3, 4
	atType                                     = 2
)

// A FileList is a file list without its files, which may be many.
type FileList struct {
	Document

	BundleID    string // by portable.CheckID
	Version     string // by CheckVersion
	Description string // one line; may be empty, as all that follows
	License     string
	Entrypoint  string    // a ref
	Expires     time.Time // in UTC and whole seconds; zero for never
	Plugin      string    // PluginVersion for a plugin, else empty
	Requires    []Require // sorted by BundleID
	Evidence    []Evidence

	// Subject is the digest of the document without its evidence, or its ID if it has none. Evidence that the document
	// names can refer to the Subject.
	Subject cas.Digest
	Files   int   // number of files
	Bytes   int64 // the sum of their sizes
}

// A Require is a bundle that this one uses.
type Require struct {
	BundleID string `json:"bundle"`
	Version  string `json:"version"` // a range, which package ai reads
}

// Evidence is a file about the other files, such as an SBOM or an envelope.
type Evidence struct {
	Name   string     `json:"name"` // one portable segment
	Type   string     `json:"type"` // a media type
	Digest cas.Digest `json:"digest"`
	Size   int64      `json:"bytes"`
}

// A File is one file of a list.
type File struct {
	Path    string     `json:"path"` // by portable.Check
	Digest  cas.Digest `json:"digest"`
	Size    int64      `json:"bytes"`
	Mode    cas.Mode   `json:"mode"`          // cas.File or cas.Exec
	Ref     string     `json:"ref,omitempty"` // of an item, as kind:id; else empty
	Version string     `json:"-"`             // of an item; may be empty
}

// SignedBy returns the fingerprints that the signature lines name, unchecked.
func (l *FileList) SignedBy() []string {
	all := make([]string, 0, len(l.Signatures))
	for _, s := range l.Signatures {
		all = append(all, s.Key.String())
	}
	return all
}

// Expired reports whether the list has expired at a moment.
func (l *FileList) Expired(at time.Time) bool { return !l.Expires.IsZero() && !at.Before(l.Expires) }

// ReadFileList reads a file list, with or without its signature lines, and calls visit with each file, sorted by path.
// The File is reused; its strings may be kept. visit gets files before the end was read, so it may only collect: act
// only after ReadFileList has returned no error. An error of visit ends the reading and is returned. Memory grows with
// the refs alone.
//
// The signatures are those of these bytes, but not checked under any key: see Check.
func ReadFileList(r io.Reader, visit func(*File) error) (*FileList, error) {
	p := listReader{scan: newScan(r, &fileListSpec, "evidence"), visit: visit, refs: map[string]struct{}{}}
	if err := p.read(); err != nil {
		if p.Err() != nil {
			return nil, p.Err()
		}
		return nil, err
	}
	list := p.list // without its parser, which holds the scanner
	return &list, nil
}

// ReadFileListHead reads a file list up to its files. It doesn't check the signatures, the files, and the rest.
func ReadFileListHead(r io.Reader) (*FileList, error) {
	enough := errors.New("the head is read")
	p := listReader{scan: newScan(r, &fileListSpec, "evidence"), visit: func(*File) error {
		return enough
	}, refs: map[string]struct{}{}}
	if err := p.read(); err != nil && err != enough {
		return nil, err
	}
	list := p.list // without its parser, which holds the scanner
	return &list, nil
}

// ParseFileList is ReadFileList for bytes in memory.
func ParseFileList(b []byte) (*FileList, []File, error) {
	var files []File
	l, err := ReadFileList(bytes.NewReader(b), func(f *File) error {
		files = append(files, *f)
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	return l, files, nil
}

type listReader struct {
	canon.Keeper
	*scan
	list  FileList
	visit func(*File) error
	file  File
	refs  map[string]struct{}
	found error
}

func (p *listReader) errorf(format string, args ...any) error {
	return badDocument("manifest", p.Line(), fmt.Errorf(format, args...))
}

func (p *listReader) read() (err error) {
	if !p.head() {
		return p.Err()
	}
	if err := p.header(); err != nil {
		return err
	}
	more := p.Scan()
	for ; more && p.Section() == inRequires; more = p.Scan() {
		if err := p.require(); err != nil {
			return err
		}
	}
	if more, err = p.files(more); err != nil {
		return err
	}
	for ; more; more = p.Scan() {
		if err := p.proof(); err != nil {
			return err
		}
	}
	if p.Err() != nil {
		return p.Err()
	}
	list := &p.list
	if list.Files == 0 {
		return badDocument("manifest", 0, errors.New("no files"))
	}
	if err := portable.CheckSet(func(yield func(string) bool) {
		for i := range list.Evidence {
			if !yield(list.Evidence[i].Name) {
				return
			}
		}
	}); err != nil {
		return badDocument("manifest", 0, err)
	}
	list.Document, err = p.document(sign.Manifest, "bundle:"+list.BundleID+"@"+list.Version)
	list.Subject = p.hash.before
	return err
}

func (p *listReader) header() error {
	list := &p.list
	list.BundleID, list.Version = string(p.HeaderStr(headID)), string(p.HeaderStr(headVersion))
	list.Description, list.License = string(p.HeaderStr(headDescription)), string(p.HeaderStr(headLicense))
	list.Entrypoint = string(p.HeaderStr(headEntrypoint))
	if err := portable.CheckID(list.BundleID); err != nil {
		return badDocument("manifest", 0, err)
	}
	if err := CheckVersion(list.Version); err != nil {
		return badDocument("manifest", 0, err)
	}
	if !plain(list.Description) || !plain(list.License) {
		return badDocument("manifest", 0, errors.New("description and license are one line of visible text"))
	}
	if list.Entrypoint != "" && !isRef(list.Entrypoint) {
		return badDocument("manifest", 0, fmt.Errorf("the entrypoint %+q is not a ref", list.Entrypoint))
	}
	if p.HeaderHas(headExpires) {
		var ok bool
		if list.Expires, ok = parseTime(p.HeaderStr(headExpires)); !ok {
			return badDocument("manifest", 0, fmt.Errorf("expires is not a time such as %q", timeForm))
		}
	}
	if list.Plugin = string(p.HeaderStr(headPlugin)); list.Plugin != "" && list.Plugin != PluginVersion {
		return badDocument("manifest", 0, fmt.Errorf("unsupported version %+q of Agent Plugins: expected %q",
			list.Plugin, PluginVersion))
	}
	return nil
}

func (p *listReader) require() error {
	require := Require{string(p.Key()), string(p.Str(0))}
	if err := portable.CheckID(require.BundleID); err != nil {
		return badDocument("manifest", p.Line(), err)
	}
	if require.BundleID == p.list.BundleID {
		return p.errorf("the bundle requires itself")
	}
	if !plain(require.Version) || require.Version == "" {
		return p.errorf("%+q is not a range of versions", require.Version)
	}
	if len(p.list.Requires) == maxNeeds {
		return p.errorf("more than %d required bundles", maxNeeds)
	}
	p.list.Requires = append(p.list.Requires, require)
	return nil
}

// files reads the section "files" and reports whether an entry follows it.
func (p *listReader) files(more bool) (bool, error) {
	// CheckSet reads the paths while this function reads the entries.
	err := portable.CheckSet(func(yield func(string) bool) {
		for ; more && p.Section() == inFiles; more = p.Scan() {
			p.file.Path = p.Keep(p.Key())
			if !yield(p.file.Path) {
				return
			}
			if p.found = p.entry(); p.found != nil {
				return
			}
		}
	})
	if p.found == nil && p.Err() == nil && err != nil {
		line := 0
		if more { // otherwise the last directory is wrong, at its end
			line = p.Line()
		}
		p.found = badDocument("manifest", line, err)
	}
	return more, p.found
}

// entry reads a file's fields, without its path.
func (p *listReader) entry() (err error) {
	file := &p.file
	if file.Digest, err = cas.ParseDigest(p.Str(atDigest)); err != nil {
		return badDocument("manifest", p.Line(), err)
	}
	file.Size = p.Int(atSize)
	switch string(p.Str(atMode)) {
	case "file":
		file.Mode = cas.File
	case "exec":
		file.Mode = cas.Exec
	default:
		return p.errorf("mode %+q is neither \"file\" nor \"exec\"", p.Str(atMode))
	}
	file.Ref, file.Version = "", ""
	if p.Has(atRef) || p.Has(atVersion) {
		if err := p.item(); err != nil {
			return err
		}
	}
	p.list.Files++
	// At most 2^20 files of 2^40 bytes: the sum can't overflow.
	p.list.Bytes += file.Size
	return p.visit(file)
}

func (p *listReader) item() error {
	f := &p.file
	f.Ref, f.Version = p.Keep(p.Str(atRef)), p.Keep(p.Str(atVersion))
	if !isRef(f.Ref) {
		return p.errorf("%+q is not a ref", f.Ref)
	}
	if _, twice := p.refs[f.Ref]; twice {
		return p.errorf("two files are %q", f.Ref)
	}
	p.refs[f.Ref] = struct{}{}
	if f.Version != "" && CheckVersion(f.Version) != nil {
		return badDocument("manifest", p.Line(), CheckVersion(f.Version))
	}
	return nil
}

func (p *listReader) proof() (err error) {
	evidence := Evidence{Name: string(p.Key()), Size: p.Int(atSize), Type: string(p.Str(atType))}
	if evidence.Digest, err = cas.ParseDigest(p.Str(atDigest)); err != nil {
		return badDocument("manifest", p.Line(), err)
	}
	if err := portable.CheckName(evidence.Name); err != nil {
		return badDocument("manifest", p.Line(), err)
	}
	if !printable(evidence.Type, 200) {
		return p.errorf("%+q is not a media type", evidence.Type)
	}
	if len(p.list.Evidence) == maxProofs {
		return p.errorf("more than %d files of evidence", maxProofs)
	}
	p.list.Evidence = append(p.list.Evidence, evidence)
	return nil
}
