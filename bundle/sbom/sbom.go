package sbom

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/manifest"
)

// The names of the evidence in a manifest, and of the files next to manifest.yaml.
const (
	CycloneDXName = "sbom.cdx.json"
	SPDXName      = "sbom.spdx.json"
)

// Options are facts that the manifest lacks.
type Options struct {
	Time time.Time // creation time; required
	Rye  string    // the version of the program that made it
}

// time returns the creation time, which both formats require.
func (o *Options) time() (string, error) {
	t := o.Time.UTC()
	if t.IsZero() || t.Year() < 0 || t.Year() > 9999 {
		return "", fault.New(fault.Validation, "the list of contents needs a creation time")
	}
	return t.Format(time.RFC3339), nil
}

// URL returns the package URL of a bundle; the version may be empty.
func URL(id, version string) string {
	// Ids need no escapes, and versions only for "+".
	if version == "" {
		return "pkg:rye/" + id
	}
	return "pkg:rye/" + id + "@" + strings.ReplaceAll(version, "+", "%2B")
}

// serial returns a UUID of version 8 from a digest.
func serial(d cas.Digest) string {
	var u [16]byte
	copy(u[:], d[:])
	u[6] = u[6]&0x0f | 0x80
	u[8] = u[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:])
}

func hexOf(d cas.Digest) string { return strings.TrimPrefix(d.String(), "blake3:") }

// A writer writes JSON with one element of a long array per line. It keeps the first error.
type writer struct {
	w   *bufio.Writer
	err error
}

// text writes text that is JSON already.
func (w *writer) text(s string) {
	if w.err == nil {
		_, w.err = w.w.WriteString(s)
	}
}

// value writes a value without a line end.
func (w *writer) value(v any) {
	if w.err != nil {
		return
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if w.err = e.Encode(v); w.err == nil {
		_, w.err = w.w.Write(bytes.TrimSuffix(b.Bytes(), []byte("\n")))
	}
}

// list writes the elements that next returns until it returns false.
func (w *writer) list(next func() (any, bool)) {
	w.text("[\n")
	for i := 0; w.err == nil; i++ {
		v, ok := next()
		if !ok {
			break
		}
		if i > 0 {
			w.text(",\n")
		}
		w.value(v)
	}
	w.text("\n]")
}

func (w *writer) end() error {
	w.text("}\n")
	if w.err != nil {
		return w.err
	}
	return w.w.Flush()
}

func newWriter(w io.Writer) *writer { return &writer{w: bufio.NewWriter(w)} }

// entries returns an iterator over first, the requirements and the files of a bundle.
func entries[R, F any](bundle *bundle.Bundle, first []any, require func(int, manifest.Require) R,
	file func(int, *manifest.File) F) func() (any, bool) {
	i := -1
	return func() (any, bool) {
		i++
		n := i
		if n < len(first) {
			return first[n], true
		}
		if n -= len(first); n < len(bundle.Requires) {
			return require(n, bundle.Requires[n]), true
		}
		if n -= len(bundle.Requires); n < len(bundle.Files) {
			return file(n, &bundle.Files[n]), true
		}
		return nil, false
	}
}
