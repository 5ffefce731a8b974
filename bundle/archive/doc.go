// Package archive reads and writes a bundle as one file: its manifest, the signatures, and all files that the
// manifest names.
//
// # Format
//
//	archive   = one zstd frame (RFC 8878) around a tar stream, and nothing before or after it
//	frame     = with a content checksum, without a dictionary; a window of at most 8 MiB
//	tar       = entry(manifest.yaml)          the manifest without signature lines
//	            entry(manifest.yaml.sig)      its signature lines, as in the file of that name (package manifest)
//	            [entry(manifest.yaml.keys)]   the public keys of its signers, written by manifest.AppendSignerKeys
//	            entry(files/PATH) …           every file of the manifest, in its order
//	            entry(evidence/NAME) …        every file of its section "evidence", in its order
//	            1,024 zero bytes
//	entry     = [long] header content zeros   as many zeros as make the content a multiple of 512 bytes
//	header    = 512 bytes of ustar (POSIX.1-1988): the name, mode 0000644 or, of what may be executed, 0000755; uid,
//	            gid, mtime and device numbers 0 in octal digits; type "0"; no link, user, group or prefix. The mode
//	            and the numbers end in NUL, the sum in NUL and a space, the magic is "ustar" NUL "00".
//	long      = where the name has more than 100 bytes: a header of type "x" (POSIX.1-2001) with the name "pax",
//	            and the one record "LENGTH path=NAME\n" as its content; the header after it has the first 100 bytes
//
// The keys are information for a reader who doesn't know the signer yet; nothing trusts them. They are optional:
// without them, the archive has the same bytes as one of an older rye.
//
// Names are UTF-8. A file has at most 8 GiB less one byte, the limit of ustar. The manifest has at most 64 MiB,
// enough for some 300,000 files: anyone can make a frame of 1 MiB that unpacks to a manifest of a quarter of a GiB.
// An archive without a signature is neither written nor read.
//
// A manifest and its signatures determine the tar stream, except for the contents of files: a reader makes each
// header itself and requires exactly these bytes. This excludes links, devices, directories, sparse files, other
// extensions, missing, additional, repeated or misplaced entries, and other sizes, modes, owners and times. The
// frame may differ from the one that Write makes, because the same bytes can be compressed in many ways. An archive
// has exactly one frame, complete, with a valid checksum, no longer than its content can require, and without
// skippable frames. Identity never depends on the frame.
//
// # How an archive goes through here
//
// Read checks the frame's header (frame.begin) and decodes the frame. reader.head reads the manifest, its
// signatures and its keys, and Sink.Begin gets them first, so that a sink can refuse an unknown signer before
// anything else is read. reader.file then compares each header with the expected one and passes the file to
// Sink.File, in a reader that hashes, reads exactly the declared size, and ends in a *cas.DamagedError instead of
// io.EOF if the bytes differ from the manifest. frame.end refuses bytes after the frame.
//
// The sink gets everything as it arrives and must not publish it before Read returns without an error. Memory grows
// with the manifest only, and only with its valid lines: a frame that claims gigabytes costs no more than the lines
// read.
//
// Write checks the limits (Head.fits) and writes the manifest, the signatures and the keys. writer.all collects
// small files in a lot, which flush reads together, and copies large ones with stream.
package archive

import (
	"fmt"
	"io"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/sign"
)

const (
	// MaxFile is the size of the largest file that fits into an archive.
	MaxFile = 1<<33 - 1
	// MaxManifest is the size of the largest manifest that fits into an archive.
	MaxManifest = 64 << 20
	// Magic is what every archive begins with.
	Magic = "\x28\xb5\x2f\xfd"
	// MaxWindow is the largest window of a frame that is read.
	MaxWindow = 8 << 20
)

// The names of entries.
const (
	manifestName   = "manifest.yaml"
	signaturesName = "manifest.yaml.sig"
	keysName       = "manifest.yaml.keys"
	filesDir       = "files/"
	evidenceDir    = "evidence/"
)

// A Head is the beginning of an archive.
type Head struct {
	Body  []byte             // the manifest without signature lines
	List  *manifest.FileList // with the signatures: their digest matches Body, but no key has checked them
	Files []manifest.File
	Keys  []manifest.SignerKey // the signers' keys, as the archive claims; nil without any
}

// An Entry is one file that the manifest names.
type Entry struct {
	Path     string // a file's path or the name of evidence
	Evidence bool
	Digest   cas.Digest
	Size     int64
	Mode     cas.Mode
}

// name returns the name of the entry in the archive.
func (e *Entry) name() string {
	if e.Evidence {
		return evidenceDir + e.Path
	}
	return filesDir + e.Path
}

// entry returns the entry of an index: files first, then evidence.
func (h *Head) entry(i int) Entry {
	if i < len(h.Files) {
		f := &h.Files[i]
		return Entry{f.Path, false, f.Digest, f.Size, f.Mode}
	}
	v := &h.List.Evidence[i-len(h.Files)]
	return Entry{v.Name, true, v.Digest, v.Size, cas.File}
}

// entries returns the number of entries.
func (h *Head) entries() int { return len(h.Files) + len(h.List.Evidence) }

// A Sink receives the content of an archive. Read stops at its first error and returns it.
type Sink interface {
	// Begin receives the manifest and its signatures before anything else of the archive is read.
	Begin(*Head) error
	// File receives each file, in order. The reader ends in a *cas.DamagedError instead of io.EOF if the bytes
	// differ from the manifest; if File has met that error and returns nil, Read continues. Read reads and checks
	// whatever File leaves unread.
	File(e Entry, r io.Reader) error
}

// An Error is the place and the reason of an invalid archive.
type Error struct {
	Offset int64  // in the tar stream; in the file if Frame is set
	Frame  bool   // the zstd frame is invalid, not its content
	Entry  string // the entry at the offset, or ""
	Err    error
}

func (e *Error) Error() string {
	where := fmt.Sprintf("byte %d of the content", e.Offset)
	if e.Frame {
		where = fmt.Sprintf("byte %d", e.Offset)
	}
	if e.Entry != "" {
		where += fmt.Sprintf(", %+q", e.Entry)
	}
	return fmt.Sprintf("corrupt archive: %s: %v", where, e.Err)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Fault returns e as an error with a code.
func (e *Error) Fault() *fault.Error {
	return fault.New(fault.Integrity, "%s", e).From(e).On("reason", "archive").On("offset", e.Offset).On("entry",
		e.Entry).Try("rye docs bundles")
}

// newHead parses a manifest and adds its signatures.
func newHead(body []byte, signatures manifest.Signatures) (*Head, error) {
	list, files, err := manifest.ParseFileList(body)
	if err != nil {
		return nil, err
	}
	h := &Head{Body: body, List: list, Files: files}
	return h, h.sign(signatures.Append(nil))
}

// sign parses the lines of a .sig file into the head.
func (h *Head) sign(lines []byte) (err error) {
	if len(h.List.Signatures) > 0 {
		return errSigned
	}
	h.List.Signatures, err = manifest.ParseSignatures(lines, h.List.ID)
	return err
}

// fits checks that the manifest and every file fit into an archive.
func (h *Head) fits() error {
	if len(h.Body) > MaxManifest {
		return errLarge
	}
	for i := range h.entries() {
		if e := h.entry(i); e.Size > MaxFile {
			return fmt.Errorf("%+q has %d bytes, more than the archive limit of %d", e.Path, e.Size, int64(MaxFile))
		}
	}
	return nil
}

// maxSignatures exceeds the size of any valid .sig file.
const maxSignatures = sign.MaxLines * 1000

// maxKeys exceeds the size of any valid .keys file.
const maxKeys = sign.MaxLines * 256
