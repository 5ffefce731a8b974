// Package export writes a thread into one file that anyone can verify with a public key.
//
// An export is the archive of a bundle (package archive): its manifest has the id "thread", the version 1.0.0, the
// thread's id as description, and the files
//
//	payloads          of the thread's directory, if it has large payloads
//	rye.lock          the thread's lock, if any; its digest is in the transcript
//	transcript.jsonl  of the thread's directory, up to the last complete line
//	voucher.json      a user's voucher for the exporting machine (package receipt), if any
//
// The machine's key signs the manifest, in the domain of manifests, and the manifest names every byte. So the end
// of an export can't be cut off, although that of an unfinished thread's transcript could. The ids of the policies
// are in the transcript. Verify requires only the public key of the machine, or of the user who vouches for it. It
// returns an *Error of package archive or a fault if the file isn't the export, and a problem in the report if the
// transcript was changed.
//
// # How an export goes through here
//
// Write verifies the transcript, compares the lock (checkLock), collects the files (source.files), signs their
// manifest and writes the archive. Verify unpacks the archive with an extractor, finds the signing machine
// (Report.signer), verifies the transcript, and compares the lock.
package export

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rye-build/rye/bundle/archive"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/exec/audit/receipt"
	"github.com/rye-build/rye/exec/thread/transcript"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/key"
)

const (
	bundleID    = "thread"
	version     = "1.0.0"
	lockFile    = transcript.LockFile
	voucherFile = "voucher.json"
)

// Limits of the other files.
const (
	maxLock    = transcript.MaxLock
	maxVoucher = 16 << 10
)

// Options are the further content of an export.
type Options struct {
	Key     key.Private // the machine's key, which signs the export
	Voucher []byte      // for the machine; may be nil
	Lock    []byte      // the thread's lock; nil without one
	Now     time.Time
	Check   transcript.Check // requirements of the transcript
}

// Write writes an export of the thread in a directory, and returns the report of its verification.
func Write(ctx context.Context, out io.Writer, dir string, options Options) (*transcript.Report, error) {
	report, err := transcript.Verify(ctx, dir, options.Check)
	if err != nil {
		return nil, err
	}
	if report.Problem != nil {
		return report, report.Problem
	}
	if err := checkLock(report, options.Lock); err != nil {
		return report, err
	}
	source := source{}
	files, err := source.files(dir, report, options)
	if err != nil {
		return report, err
	}
	list := manifest.FileList{BundleID: bundleID, Version: version, Description: report.Thread}
	body, l, err := manifest.AppendFileList(nil, &list, files)
	if err == nil {
		err = l.Sign(options.Key, options.Now)
	}
	if err != nil {
		return report, err
	}
	return report, archive.Write(ctx, out, body, l.Signatures, source,
		manifest.SignerKey{Public: options.Key.Public()})
}

// checkLock compares a lock with the one that the transcript names.
func checkLock(r *transcript.Report, data []byte) error {
	switch want := r.Started.Lock; {
	case want.IsZero() && data == nil:
		return nil
	case want.IsZero():
		return fault.New(fault.LockMismatch, "the thread %s ran without a lock", r.Thread).On("thread", r.Thread)
	case data == nil:
		return fault.New(fault.NotFound, "the lock of %s is missing: %s", r.Thread, want).On("thread", r.Thread).
			On("lock", want.String())
	case cas.Sum(data) != want:
		return fault.New(fault.LockMismatch, "the thread %s ran with another lock", r.Thread).On("thread", r.Thread).
			On("expected", want.String()).On("found", cas.Sum(data).String()).Because("expected "+want.String(),
			"found    "+cas.Sum(data).String())
	}
	return nil
}

// A source has files' contents by digest.
type source map[cas.Digest]content

type content struct {
	path string // "" for bytes
	b    []byte
	size int64
}

// files adds the files of an export.
func (s source) files(dir string, r *transcript.Report, options Options) ([]manifest.File, error) {
	contents := map[string]content{transcript.LinesFile: {path: filepath.Join(dir, transcript.LinesFile),
		size: r.Bytes}}
	if r.PayloadBytes > 0 {
		contents[transcript.PayloadsFile] = content{path: filepath.Join(dir, transcript.PayloadsFile),
			size: r.PayloadBytes}
	}
	if options.Lock != nil {
		contents[lockFile] = content{b: options.Lock, size: int64(len(options.Lock))}
	}
	if options.Voucher != nil {
		contents[voucherFile] = content{b: options.Voucher, size: int64(len(options.Voucher))}
	}
	var files []manifest.File
	for name, c := range contents {
		d, err := c.digest()
		if err != nil {
			return nil, err
		}
		s[d] = c
		files = append(files, manifest.File{Path: name, Digest: d, Size: c.size, Mode: cas.File})
	}
	return files, nil
}

func (c *content) open() (io.ReadCloser, error) {
	if c.path == "" {
		return io.NopCloser(strings.NewReader(string(c.b))), nil
	}
	f, err := osfile.OpenRegular(c.path)
	if err != nil {
		return nil, err
	}
	return struct {
		io.Reader
		io.Closer
	}{io.LimitReader(f, c.size), f}, nil
}

func (c *content) digest() (cas.Digest, error) {
	r, err := c.open()
	if err != nil {
		return cas.Digest{}, err
	}
	defer r.Close()
	h := cas.NewHasher()
	_, err = io.Copy(h, r)
	return h.Digest(), err
}

// Get implements cas.Getter.
func (s source) Get(_ context.Context, id cas.ID) (cas.Object, error) {
	c, ok := s[id.Digest]
	if !ok {
		return cas.Object{}, cas.NotFound(id)
	}
	r, err := c.open()
	if err != nil {
		return cas.Object{}, err
	}
	return cas.Verify(cas.Info{ID: id, Size: c.size}, r), nil
}

// A Report is the result of verifying an export.
type Report struct {
	*transcript.Report
	Export    cas.Digest `json:"export"`  // the id of its manifest
	Machine   key.Public `json:"machine"` // the signer
	By        key.Public `json:"by"`      // the key that vouches for the machine, or the machine's own
	Time      time.Time  `json:"time"`    // of the signature
	LockBytes int64      `json:"lock_bytes"`
}

// Verify reads an export to its end and checks all of it. It unpacks the export into a private directory, which the
// caller creates and removes.
func Verify(ctx context.Context, from io.Reader, dir string, check transcript.Check) (*Report, error) {
	extractor := extractor{dir: dir}
	h, err := archive.Read(ctx, from, &extractor)
	if err != nil {
		return nil, err
	}
	rep := &Report{Export: h.List.ID, LockBytes: extractor.lockBytes}
	if err := rep.signer(h, extractor.voucher, check.Keys); err != nil {
		return nil, err
	}
	thread := h.List.Description
	if check.Thread != "" && check.Thread != thread {
		return nil, fault.New(fault.Integrity, "an export of the thread %s, expected %s", thread, check.Thread)
	}
	check.Thread = thread
	if extractor.voucher != nil {
		check.Vouchers = append(slices.Clone(check.Vouchers), extractor.voucher)
	}
	if rep.Report, err = transcript.Verify(ctx, dir, check); err != nil {
		return nil, err
	}
	if s := rep.Started; rep.Problem == nil && s.Lock != extractor.lock {
		return rep, fault.New(fault.LockMismatch, "the lock of the export is not the thread's lock").On("expected",
			s.Lock.String()).On("found", extractor.lock.String())
	}
	return rep, nil
}

// Unpack unpacks an export into a private directory, for reading. It checks the bytes against the export's list,
// but no signature: Verify does.
func Unpack(ctx context.Context, from io.Reader, dir string) error {
	_, err := archive.Read(ctx, from, &extractor{dir: dir})
	return err
}

// signer finds the machine that signed the export.
func (r *Report) signer(head *archive.Head, voucher []byte, keys []key.Public) error {
	var counts []key.Public
	by := map[key.Public]key.Public{}
	for _, k := range head.Keys {
		if user, err := receipt.CheckVoucher(voucher, k.Public, keys); err == nil {
			by[k.Public], counts = user, append(counts, k.Public)
		}
	}
	for _, k := range keys {
		if _, ok := by[k]; !ok {
			by[k], counts = k, append(counts, k)
		}
	}
	signers, err := head.List.Check(func(f key.Fingerprint) (key.Public, bool) {
		i := slices.IndexFunc(counts, func(k key.Public) bool { return k.Fingerprint() == f })
		if i < 0 {
			return key.Public{}, false
		}
		return counts[i], true
	})
	if err != nil {
		return fault.Wrap(err,
			"the export is signed by none of the keys, and by no machine that one of them vouches for: %v", err)
	}
	r.Machine, r.By, r.Time = signers[0].Key, by[signers[0].Key], signers[0].Time
	return nil
}

// An extractor writes the files of an export into a directory.
type extractor struct {
	dir       string
	voucher   []byte
	lock      cas.Digest
	lockBytes int64
}

var errNot = fault.New(fault.Validation, "not an export of a thread").Try("rye bundle inspect FILE")

// Begin implements archive.Sink.
func (x *extractor) Begin(h *archive.Head) error {
	if h.List.BundleID != bundleID || h.List.Version != version || len(h.List.Requires)+len(h.List.Evidence) > 0 ||
		transcript.CheckThread(h.List.Description) != nil {
		return errNot
	}
	most := map[string]int64{transcript.LinesFile: transcript.MaxLines * transcript.MaxLine,
		transcript.PayloadsFile: transcript.MaxPayloads,
		lockFile:                maxLock, voucherFile: maxVoucher}
	whole := false
	for _, f := range h.Files {
		if f.Size > most[f.Path] {
			return errNot
		}
		whole = whole || f.Path == transcript.LinesFile
	}
	if !whole {
		return errNot
	}
	return nil
}

// File implements archive.Sink.
func (x *extractor) File(e archive.Entry, in io.Reader) error {
	switch e.Path {
	case lockFile:
		x.lock, x.lockBytes = e.Digest, e.Size
	case voucherFile:
		b, err := io.ReadAll(in)
		x.voucher = b
		return err
	}
	f, err := os.OpenFile(filepath.Join(x.dir, e.Path), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, in)
	return errors.Join(err, f.Close())
}
