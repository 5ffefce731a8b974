package manifest

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/canon"
)

// AppendFileList appends the document with the content of list and these files, without signature lines, and returns
// it as ReadFileList would: with ID, Subject, Files and Bytes. It ignores those of list, and its Document. The files,
// Requires and Evidence may be in any order. It writes nothing that can't be read back.
func AppendFileList(dst []byte, list *FileList, files []File) ([]byte, *FileList, error) {
	// Reading the document back is the check, so readers and writers share one set of rules. It runs while the rest is
	// written, because a list may be long.
	written := make(chan []byte, partsAhead)
	var read *FileList
	var wrong error
	var checked sync.WaitGroup
	checked.Go(func() {
		read, wrong = ReadFileList(&partsReader{from: written}, func(*File) error { return nil })
		for range written {
		}
	})
	b, err := encodeFileList(dst, list, files, func(part []byte) { written <- part })
	close(written)
	checked.Wait()
	if err = cmp.Or(err, wrong); err != nil {
		return dst, nil, err
	}
	return b, read, nil
}

const (
	partSize   = 64 << 10
	partsAhead = 32 // most parts that are written and not read
)

// A partsReader reads a document that is still being written.
type partsReader struct {
	from <-chan []byte
	part []byte
}

func (r *partsReader) Read(b []byte) (int, error) {
	for len(r.part) == 0 {
		part, more := <-r.from
		if !more {
			return 0, io.EOF
		}
		r.part = part
	}
	n := copy(b, r.part)
	r.part = r.part[n:]
	return n, nil
}

// encodeFileList appends the document, and calls see with each part that is final.
func encodeFileList(dst []byte, list *FileList, files []File, see func([]byte)) ([]byte, error) {
	if len(dst) == cap(dst) { // otherwise the caller knows the size
		size := partSize
		for i := range files {
			f := &files[i]
			size += len(f.Path) + len(f.Ref) + len(f.Version) + 130 // with the digest, the size and their names
		}
		dst = slices.Grow(dst, size)
	}
	take := func(b []byte) {
		if len(b) > 0 {
			dst = append(dst, b...)
			see(dst[len(dst)-len(b):])
		}
	}
	encoder := canon.NewEncoderBytes(nil, &fileListSpec)
	for i, text := range []string{list.BundleID, list.Version, list.Description, list.License, list.Entrypoint,
		timeText(list.Expires), list.Plugin} {
		if i < headDescription || text != "" {
			encoder.HeaderStr(i, text)
		}
	}
	for _, r := range sorted(list.Requires, func(r Require) string { return r.BundleID }) {
		encoder.Begin(inRequires, r.BundleID)
		encoder.Str(0, r.Version)
		encoder.End()
	}
	var digest [71]byte
	for _, file := range sorted(files, func(f File) string { return f.Path }) {
		if file.Mode != cas.File && file.Mode != cas.Exec {
			return nil, badDocument("manifest", 0, fmt.Errorf("%+q has neither the mode file nor exec", file.Path))
		}
		encoder.Begin(inFiles, file.Path)
		encoder.StrBytes(atDigest, file.Digest.Append(digest[:0]))
		encoder.Int(atSize, file.Size)
		encoder.Str(atMode, file.Mode.String())
		if file.Ref != "" {
			encoder.Str(atRef, file.Ref)
		}
		if file.Version != "" {
			encoder.Str(atVersion, file.Version)
		}
		encoder.End()
		take(encoder.Take(partSize))
	}
	for _, v := range sorted(list.Evidence, func(v Evidence) string { return v.Name }) {
		encoder.Begin(inEvidence, v.Name)
		encoder.StrBytes(atDigest, v.Digest.Append(digest[:0]))
		encoder.Int(atSize, v.Size)
		encoder.Str(atType, v.Type)
		encoder.End()
	}
	if err := encoder.Close(); err != nil {
		return nil, err
	}
	take(encoder.Bytes())
	return dst, nil
}

// timeText returns the form of a moment in documents, "" for the zero time.
func timeText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(timeForm)
}

// sorted returns list sorted by the bytes of a text, as a copy unless it is sorted already.
func sorted[T any](list []T, text func(T) string) []T {
	compare := func(a, b T) int { return strings.Compare(text(a), text(b)) }
	if slices.IsSortedFunc(list, compare) {
		return list
	}
	list = slices.Clone(list)
	slices.SortFunc(list, compare)
	return list
}
