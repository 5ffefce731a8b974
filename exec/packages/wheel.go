package packages

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/binary"
	"encoding/csv"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"strconv"
	"strings"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/lock/packages"
)

// Wheel reads a wheel with this file name.
func Wheel(ctx context.Context, name string, r io.ReaderAt, size int64) (*Archive, error) {
	n, err := ParseWheel(name)
	if err != nil {
		return nil, err
	}
	if err := whole(name, r, size); err != nil {
		return nil, err
	}
	z, err := zip.NewReader(r, size)
	if err != nil {
		return nil, invalid(name, "", err)
	}
	wheel := &wheel{name: name, zip: z}
	if err := wheel.look(n); err != nil {
		return nil, err
	}
	archive, err := read(ctx, name, wheel, budget(size), wheel.recorded)
	if err != nil {
		return nil, err
	}
	for path := range wheel.record {
		if !wheel.seen[path] {
			return nil, badRecord(name, path, "is listed in RECORD but missing")
		}
	}
	// From here on each skips the files that aren't unpacked.
	wheel.unpacked = true
	return archive, nil
}

// whole refuses a zip archive that isn't the whole file, or whose directory is too large: archive/zip reads the
// directory into memory, whatever length it declares.
func whole(name string, readerAt io.ReaderAt, size int64) error {
	bad := func(why string) error { return invalid(name, "", errors.New(why)) }
	const endSize = 22
	tail := make([]byte, min(size, endSize+1<<16-1))
	if _, err := readerAt.ReadAt(tail, size-int64(len(tail))); err != nil && err != io.EOF {
		return err
	}
	at := bytes.LastIndex(tail, []byte("PK\x05\x06"))
	if at < 0 || len(tail)-at < endSize {
		return bad("is not a zip archive")
	}
	end := tail[at:]
	length, offset := int64(binary.LittleEndian.Uint32(end[12:])), int64(binary.LittleEndian.Uint32(end[16:]))
	here := size - int64(len(end))
	var before [20]byte
	if here >= int64(len(before)) {
		if _, err := readerAt.ReadAt(before[:], here-int64(len(before))); err != nil {
			return err
		}
	}
	switch {
	case string(before[:4]) == "PK\x06\x07" || binary.LittleEndian.Uint16(end[10:]) == 0xffff ||
		length == 0xffffffff || offset == 0xffffffff:
		return bad("is a zip64 archive, which is not supported")
	case int(binary.LittleEndian.Uint16(end[20:])) != len(end)-endSize || offset+length != here:
		return bad("has bytes that are not part of the zip archive")
	case length > MaxDirectory:
		return tooMuch(name, "bytes of directory", MaxDirectory)
	}
	var first [4]byte
	if _, err := readerAt.ReadAt(first[:], 0); err != nil || string(first[:]) != "PK\x03\x04" {
		return bad("does not begin as a zip archive")
	}
	return nil
}

type wheel struct {
	name     string
	zip      *zip.Reader
	info     string // the directory .dist-info, with "/"
	data     string // the directory .data, with "/"
	record   map[string]recorded
	seen     map[string]bool
	unpacked bool
}

// A recorded file is a line of RECORD.
type recorded struct {
	sum  string // sha256=…
	size string // "" if missing
}

func (w *wheel) bad(path string, err error) error { return invalid(w.name, path, err) }

// look reads the wheel's metadata.
func (w *wheel) look(n *WheelName) error {
	if len(w.zip.File) > MaxFiles {
		return tooMuch(w.name, "files", MaxFiles)
	}
	for _, f := range w.zip.File {
		dir, _, below := strings.Cut(f.Name, "/")
		if !below || !strings.HasSuffix(dir, ".dist-info") || dir+"/" == w.info {
			continue
		}
		if w.info != "" {
			return w.bad(dir, fmt.Errorf("is a second .dist-info directory, beside %+q", w.info))
		}
		w.info = dir + "/"
	}
	stem := strings.TrimSuffix(w.info, ".dist-info/")
	project, version, _ := strings.Cut(stem, "-")
	if w.info == "" || folded(project) != folded(n.Project) || !packages.SameVersion(version, n.Version) {
		return w.bad("", fmt.Errorf("the directory %s-%s.dist-info is missing", n.Project, n.Version))
	}
	w.data = stem + ".data/"
	about, err := w.text(w.info + "WHEEL")
	if err != nil {
		return err
	}
	version = ""
	for line := range strings.Lines(about) {
		if v, ok := strings.CutPrefix(line, "Wheel-Version:"); ok {
			version = strings.TrimSpace(v)
			break
		}
	}
	if !strings.HasPrefix(version, "1.") {
		return w.bad(w.info+"WHEEL", fmt.Errorf("expected Wheel-Version 1, found %+q", version))
	}
	return w.readRecord()
}

func (w *wheel) readRecord() error {
	text, err := w.text(w.info + "RECORD")
	if err != nil {
		return err
	}
	lines := csv.NewReader(strings.NewReader(text))
	lines.FieldsPerRecord, lines.ReuseRecord = 3, true
	w.record, w.seen = map[string]recorded{}, map[string]bool{}
	for {
		line, err := lines.Read()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return w.bad(w.info+"RECORD", err)
		}
		if w.unsigned(line[0]) {
			continue
		}
		if _, twice := w.record[line[0]]; twice {
			return badRecord(w.name, line[0], "is listed twice in RECORD")
		}
		if len(w.record) == MaxFiles {
			return tooMuch(w.name, "files", MaxFiles)
		}
		w.record[strings.Clone(line[0])] = recorded{strings.Clone(line[1]), strings.Clone(line[2])}
	}
}

// unsigned reports whether RECORD has no digest of a file.
func (w *wheel) unsigned(path string) bool {
	return path == w.info+"RECORD" || path == w.info+"RECORD.jws" || path == w.info+"RECORD.p7s"
}

// recorded compares a file with its line in RECORD.
func (w *wheel) recorded(file *File) (io.Writer, func() error) {
	path := file.entry
	if w.unsigned(path) {
		return nil, func() error { return nil }
	}
	w.seen[path] = true
	no := func(msg string) func() error {
		return func() error { return badRecord(w.name, path, msg) }
	}
	line, listed := w.record[path]
	if !listed {
		return nil, no("is not listed in RECORD")
	}
	name, sum, _ := strings.Cut(line.sum, "=")
	var hash hash.Hash
	switch name {
	case "sha256":
		hash = sha256.New()
	case "sha384":
		hash = sha512.New384()
	case "sha512":
		hash = sha512.New()
	default:
		return nil, no("has no supported digest in RECORD")
	}
	return hash, func() error {
		found := base64.RawURLEncoding.EncodeToString(hash.Sum(nil))
		switch {
		case found != strings.TrimRight(sum, "="):
			return no(fmt.Sprintf("does not match RECORD: expected %s=%s, found %s", name, sum, found))()
		case line.size != "" && line.size != strconv.FormatInt(file.Size, 10):
			return no(fmt.Sprintf("does not match RECORD: expected %s bytes, found %d", line.size, file.Size))()
		}
		return nil
	}
}

// text reads a file into memory.
func (w *wheel) text(path string) (string, error) {
	for _, f := range w.zip.File {
		if f.Name != path {
			continue
		}
		if err := w.fit(f); err != nil {
			return "", err
		}
		r, err := f.Open()
		if err != nil {
			return "", w.bad(path, err)
		}
		defer r.Close()
		b, err := io.ReadAll(io.LimitReader(r, maxText+1))
		if err != nil {
			return "", w.bad(path, err)
		}
		if len(b) > maxText {
			return "", tooMuch(w.name, "bytes of "+path, maxText)
		}
		return string(b), nil
	}
	return "", w.bad(path, fs.ErrNotExist)
}

// fit refuses an entry that isn't a regular, supported file.
func (w *wheel) fit(f *zip.File) error {
	switch {
	case f.Flags&1 != 0:
		return w.bad(f.Name, errors.New("is encrypted"))
	case f.Method != zip.Store && f.Method != zip.Deflate:
		return w.bad(f.Name, fmt.Errorf("uses compression method %d: only 0 and 8 are supported", f.Method))
	case !f.Mode().IsRegular():
		return w.bad(f.Name, errNotRegular)
	}
	return nil
}

// placed returns the file of an entry, without a path if it is verified but not unpacked.
func (w *wheel) placed(file *zip.File) (*File, error) {
	if err := w.fit(file); err != nil {
		return nil, err
	}
	placed := &File{Path: file.Name, Mode: cas.File, Size: int64(min(file.UncompressedSize64, 1<<62)),
		entry: file.Name}
	if file.Mode()&0o111 != 0 {
		placed.Mode = cas.Exec
	}
	if rest, ok := strings.CutPrefix(file.Name, w.data); ok {
		part, path, _ := strings.Cut(rest, "/")
		switch part {
		case "purelib", "platlib":
			placed.Path = path
		case "scripts", "headers", "data":
			placed.Path = ""
			return placed, nil
		default:
			return nil, w.bad(file.Name, fmt.Errorf("unknown part %q of a wheel", part))
		}
	}
	keep, err := kept(placed.Path)
	if err != nil {
		return nil, w.bad(file.Name, err)
	}
	if !keep {
		placed.Path = ""
	}
	return placed, nil
}

// each implements reader. Until the wheel is verified, it also visits files that aren't unpacked.
func (w *wheel) each(visit func(*File, func() (io.Reader, error)) error) error {
	names := make(map[string]bool, len(w.zip.File))
	for _, file := range w.zip.File {
		if names[file.Name] {
			return w.bad(file.Name, errors.New("appears twice"))
		}
		names[file.Name] = true
		if strings.HasSuffix(file.Name, "/") && file.UncompressedSize64 == 0 && file.Mode().IsDir() {
			continue
		}
		f, err := w.placed(file)
		if err != nil {
			return err
		}
		if f.Path == "" && w.unpacked {
			continue
		}
		var r io.ReadCloser
		err = visit(f, func() (io.Reader, error) {
			var err error
			if r, err = file.Open(); err != nil {
				return nil, w.bad(file.Name, err)
			}
			return &entry{w, file.Name, r}, nil
		})
		if r != nil {
			r.Close()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// An entry reads a file, with errors that name it.
type entry struct {
	w    *wheel
	path string
	r    io.Reader
}

func (e *entry) Read(p []byte) (int, error) {
	n, err := e.r.Read(p)
	if err != nil && err != io.EOF {
		err = e.w.bad(e.path, err)
	}
	return n, err
}

// open implements reader.
func (w *wheel) open(path string) (io.ReadCloser, error) {
	for _, e := range w.zip.File {
		if f, err := w.placed(e); err == nil && f.Path == path && !strings.HasSuffix(e.Name, "/") {
			return e.Open()
		}
	}
	return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
}
