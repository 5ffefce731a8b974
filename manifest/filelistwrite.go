package manifest

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/canon"
)

// AppendFileList appends the document, without signature lines, that says what l says of these files, and returns
// it as it reads: with ID, Subject, Files and Bytes. Those of l, and its Document, aren't looked at. The files,
// like Requires and Evidence, may be in any order. What can't be read back isn't written.
func AppendFileList(dst []byte, l *FileList, files []File) ([]byte, *FileList, error) {
	b, err := encodeFileList(dst, l, files)
	if err != nil {
		return dst, nil, err
	}
	// Reading it is the check: so there is one set of rules, and nothing that we write is refused elsewhere.
	read, err := ReadFileList(bytes.NewReader(b[len(dst):]), func(*File) error { return nil })
	if err != nil {
		return dst, nil, err
	}
	return b, read, nil
}

func encodeFileList(dst []byte, l *FileList, files []File) ([]byte, error) {
	e := canon.NewEncoderBytes(dst, &fileListSpec)
	for i, text := range []string{l.BundleID, l.Version, l.Description, l.License, l.Entrypoint, timeText(l.Expires)} {
		if i < headDescription || text != "" {
			e.HeaderStr(i, text)
		}
	}
	for _, r := range sorted(l.Requires, func(r Require) string { return r.BundleID }) {
		e.Begin(inRequires, r.BundleID)
		e.Str(0, r.Version)
		e.End()
	}
	var digest [71]byte
	for _, f := range sorted(files, func(f File) string { return f.Path }) {
		if f.Mode != cas.File && f.Mode != cas.Exec {
			return nil, badDocument("manifest", 0, fmt.Errorf("%+q has neither the mode file nor exec", f.Path))
		}
		e.Begin(inFiles, f.Path)
		e.StrBytes(atDigest, f.Digest.Append(digest[:0]))
		e.Int(atSize, f.Size)
		e.Str(atMode, f.Mode.String())
		if f.Ref != "" {
			e.Str(atRef, f.Ref)
		}
		if f.Version != "" {
			e.Str(atVersion, f.Version)
		}
		e.End()
	}
	for _, v := range sorted(l.Evidence, func(v Evidence) string { return v.Name }) {
		e.Begin(inEvidence, v.Name)
		e.StrBytes(atDigest, v.Digest.Append(digest[:0]))
		e.Int(atSize, v.Size)
		e.Str(atType, v.Type)
		e.End()
	}
	if err := e.Close(); err != nil {
		return nil, err
	}
	return e.Bytes(), nil
}

// timeText is the form of a moment in documents, "" for the zero time.
func timeText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(timeForm)
}

// sorted returns list, sorted by the bytes of a text, as a copy if it has to be.
func sorted[T any](list []T, text func(T) string) []T {
	compare := func(a, b T) int { return strings.Compare(text(a), text(b)) }
	if slices.IsSortedFunc(list, compare) {
		return list
	}
	list = slices.Clone(list)
	slices.SortFunc(list, compare)
	return list
}
