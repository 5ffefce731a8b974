package registry

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/canon"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/portable"
	"github.com/rye-build/rye/lock/index"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/tlog"
)

// The names of a registry's files.
const (
	DescriptionFile = "registry.yaml"
	LogDir          = "log"

	// PrivateDir is the directory of private namespaces. Each is a registry of its own.
	PrivateDir = "private"
)

// PrivatePath returns how the name and the address of a private namespace's registry end: in /private/acme.
func PrivatePath(space string) string { return "/" + PrivateDir + "/" + space }

// SplitPrivate splits the name or the address of a private namespace's registry into that of its host and the
// namespace. ok is false for another one, which is returned as it is.
func SplitPrivate(at string) (host, space string, ok bool) {
	i := strings.LastIndexByte(at, '/')
	if i < 0 {
		return at, "", false
	}
	host, found := strings.CutSuffix(at[:i], "/"+PrivateDir)
	if space = at[i+1:]; !found || host == "" || strings.HasSuffix(host, "/") || space == "" {
		return at, "", false
	}
	return host, space, true
}

// PrivateOf returns the address of the private namespace's registry that has a file at an address.
func PrivateOf(address string) (registry string, ok bool) {
	scheme, rest, ok := strings.Cut(address, "://")
	i := strings.Index(rest, "/"+PrivateDir+"/")
	if !ok || i < 0 {
		return "", false
	}
	end := i + len("/"+PrivateDir+"/")
	space, _, below := strings.Cut(rest[end:], "/")
	if _, _, ok = SplitPrivate(rest[:end] + space); !ok || !below {
		return "", false
	}
	return scheme + "://" + rest[:end] + space, true
}

// hidden adds to the error of a file that isn't there what that means for the registry of a private namespace: without
// a token that may see it, nothing is there.
func hidden(url string, err error) error {
	_, space, private := SplitPrivate(url)
	if !private || !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return Hint(url, fault.New(fault.NotFound, "%q shows nothing of the private namespace %q", url, space).From(err))
}

// Hint adds to an error about something that isn't at an address how the registry of a private namespace is read.
func Hint(url string, f *fault.Error) *fault.Error {
	if host, _, private := SplitPrivate(url); private {
		f.Because("it is there only for a token of an owner with the scope read").Try("rye login " + fault.Quote(host))
	}
	return f
}

// MaxDescription is the most bytes of registry.yaml.
const MaxDescription = 16 << 10

// IndexFile returns the name of the index of a bundle.
func IndexFile(id string) string { return "index/" + id + ".yaml" }

// ArchiveFile returns the name of an archive.
func ArchiveFile(archive cas.Digest) string { return "archives/" + hex(archive) }

// ProofFile returns the name of the proof of an archive's version.
func ProofFile(archive cas.Digest) string { return "proofs/" + hex(archive) + ".tlog-proof" }

// DocumentFile returns the name of a document that the log names.
func DocumentFile(document cas.Digest) string { return "documents/" + hex(document) }

func hex(d cas.Digest) string { return strings.TrimPrefix(d.String(), "blake3:") }

// IndexLabel returns the name of the index of a bundle in a registry.
func IndexLabel(registry, id string) string { return registry + "/" + id }

// A Description is the content of registry.yaml.
type Description struct {
	Name string
	Log  tlog.Key
	Key  key.Public // signs indexes
}

var descriptionSpec = canon.Spec{
	Format: "registry/1",
	Header: []canon.Field{
		{Name: "name", Max: portable.MaxID},
		{Name: "log"},
		{Name: "key", Max: 43},
	},
	MaxBytes:   MaxDescription,
	MaxEntries: 1,
}

// ParseDescription reads registry.yaml.
func ParseDescription(b []byte) (*Description, error) {
	scan := canon.NewScannerBytes(b, &descriptionSpec)
	if !scan.Header() {
		return nil, scan.Err()
	}
	for scan.Scan() {
	}
	if scan.Err() != nil {
		return nil, scan.Err()
	}
	description := &Description{Name: string(scan.HeaderStr(0))}
	var err error
	if description.Log, err = tlog.ParseKey(string(scan.HeaderStr(1))); err == nil {
		description.Key, err = key.ParsePublic(string(scan.HeaderStr(2)))
	}
	switch {
	case err != nil:
	case len(scan.Comments()) > 0:
		err = fmt.Errorf("it has signature lines, which it can't have")
	case !description.Log.IsLog():
		err = fmt.Errorf("log is not the key of a log")
	case description.Log.Public() == description.Key:
		err = fmt.Errorf("the log and the indexes have the same key")
	default:
		host, space, private := SplitPrivate(description.Name)
		if err = CheckName(host); err == nil && private {
			err = portable.CheckID(space)
		}
	}
	if err != nil {
		return nil, fault.New(fault.Parsing, "%s: %v", DescriptionFile, err).From(err)
	}
	return description, nil
}

// CheckName returns nil if a registry may have this name: one segment of an id.
func CheckName(name string) error {
	if strings.Contains(name, "/") {
		return fmt.Errorf("the name %q of a registry has a slash", name)
	}
	return portable.CheckID(name)
}

// Append appends registry.yaml.
func (d *Description) Append(dst []byte) ([]byte, error) {
	encoder := canon.NewEncoderBytes(dst, &descriptionSpec)
	encoder.HeaderStr(0, d.Name)
	encoder.HeaderStr(1, d.Log.String())
	encoder.HeaderStr(2, d.Key.String())
	if err := encoder.Close(); err != nil {
		return dst, err
	}
	if _, err := ParseDescription(encoder.Bytes()[len(dst):]); err != nil {
		return dst, err
	}
	return encoder.Bytes(), nil
}

// LogEntry returns what the log says of a version that was published alone. It is computed from the index entry, so
// that a client believes nothing that the log doesn't say.
func LogEntry(e *index.Entry) *tlog.Entry {
	return &tlog.Entry{
		Kind: tlog.Publish,
		Release: tlog.Release{Bundle: e.ID, Version: e.Version, Manifest: e.Manifest, Archive: e.Logged.Digest,
			Size: e.Size},
		By: e.Logged.By, Time: e.Logged.Time,
	}
}
