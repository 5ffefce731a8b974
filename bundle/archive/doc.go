// Package archive is a bundle in one file: its manifest, the signatures, and every byte that the manifest names.
//
// # Format
//
//	archive   = one zstd frame (RFC 8878) around a tar stream, and nothing before or behind it
//	frame     = with a content checksum, without a dictionary; a window of at most 8 MiB
//	tar       = entry(manifest.yaml)          the manifest without signature lines
//	            entry(manifest.yaml.sig)      its signature lines, as package manifest keeps them beside it
//	            [entry(manifest.yaml.keys)]   the public keys of its signers, as manifest.AppendSignerKeys writes them
//	            entry(files/PATH) …           every file of the manifest, in its order
//	            entry(evidence/NAME) …        every file of its section "evidence", in its order
//	            1,024 zero bytes
//	entry     = [long] header content zeros   as many zeros as make the content a multiple of 512 bytes
//	header    = 512 bytes of ustar (POSIX.1-1988): the name, mode 0000644 or, of what may be executed, 0000755; uid,
//	            gid, mtime and device numbers 0 in octal digits; type "0"; no link, user, group or prefix. The mode
//	            and the numbers end in NUL, the sum in NUL and a space, the magic is "ustar" NUL "00".
//	long      = where the name has more than 100 bytes: a header of type "x" (POSIX.1-2001) with the name "pax",
//	            and the one record "LENGTH path=NAME\n" as its content; the header behind it has the first 100 bytes
//
// The keys are information for a reader who doesn't know the signer yet; nothing trusts them. An archive made without
// them is the same as before they could be there.
//
// Names are UTF-8. A file has at most 8 GiB less one byte, as ustar can say no more, and the manifest at most 64 MiB,
// which is that of some 300,000 files: a frame of 1 MiB can hold a manifest of a quarter of a GiB, and everybody can
// make one. An archive without a signature isn't written, and refused.
//
// So there is one tar stream for each manifest with its signatures, and it is known, but for the contents, when both
// were read: a reader makes each header itself and wants these very bytes. Links, devices, directories, sparse files,
// other extensions, entries that are missing, more, twice or elsewhere, other sizes, modes, owners and times need
// no rule of their own. The frame may be another one than we make of it, since the same bytes can be compressed in
// many ways; of it there must be one, whole and with the right checksum, and it may not be longer than it can have
// need to be. Skippable frames are no part of it. Identity never depends on it.
//
// # Reading
//
// Read hands everything on as it comes, and what it hands on means nothing until it has returned without an error:
// the sink keeps what it gets out of sight. First comes the manifest with its signatures, so that a
// sink can refuse a stranger's archive before it reads anything else. Then come the files, each in a reader that
// hashes, reads the declared size and no more, and ends in a *cas.DamagedError instead of io.EOF if these are other
// bytes than the manifest says. Memory grows with the manifest alone, and that only as far as its lines are good
// ones: a frame that promises gigabytes costs what was declared by lines that were there.
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

// A Head is what stands first in an archive.
type Head struct {
	Body  []byte             // the manifest without signature lines
	List  *manifest.FileList // with the signatures, which are those of these bytes and not checked under any key
	Files []manifest.File
	Keys  []manifest.SignerKey // that the archive claims its signers have; nil if it says nothing
}

// An Entry is one file that the manifest names.
type Entry struct {
	Path     string // of a file its path, of evidence its name
	Evidence bool
	Digest   cas.Digest
	Size     int64
	Mode     cas.Mode
}

// name is what the entry is called in the archive.
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

// entries is how many there are.
func (h *Head) entries() int { return len(h.Files) + len(h.List.Evidence) }

// A Sink is given what is in an archive. An error of its ends the reading and is returned.
type Sink interface {
	// Begin is given the manifest and its signatures before anything else of the archive was read.
	Begin(*Head) error
	// File is given each file, in order. The reader ends in a *cas.DamagedError instead of io.EOF if the bytes are not
	// those of the manifest; where File knows that and returns no error, the reading goes on. What it leaves unread is
	// read, and checked, after it has returned.
	File(e Entry, r io.Reader) error
}

// An Error says where an archive is invalid.
type Error struct {
	Offset int64  // in the tar stream, or in the file where Frame is set
	Frame  bool   // the zstd frame is invalid, not its content
	Entry  string // the name of the entry there; "" for none
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

// newHead reads a manifest and the signatures beside it.
func newHead(body []byte, signatures manifest.Signatures) (*Head, error) {
	list, files, err := manifest.ParseFileList(body)
	if err != nil {
		return nil, err
	}
	h := &Head{Body: body, List: list, Files: files}
	return h, h.sign(signatures.Append(nil))
}

// sign takes up the signatures of a .sig file.
func (h *Head) sign(lines []byte) (err error) {
	if len(h.List.Signatures) > 0 {
		return errSigned
	}
	h.List.Signatures, err = manifest.ParseSignatures(lines, h.List.ID)
	return err
}

// fits reports whether the manifest and every file can stand in an archive.
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

// maxSignatures is more bytes than a .sig file has.
const maxSignatures = sign.MaxLines * 1000

// maxKeys is more bytes than a .keys file has.
const maxKeys = sign.MaxLines * 256
