package legacy

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"

	"github.com/rye-build/rye/ai/parse"
	"github.com/rye-build/rye/ai/value"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/portable"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/admission"
)

// MaxBytes bounds a manifest.
const MaxBytes = 1 << 20

// A Manifest is the content of a v1 manifest. Parsing verifies nothing.
type Manifest struct {
	ID, Version             string
	Entrypoint, Description string
	Created, Type           string // verbatim
	Files                   []File // sorted by path
}

// A File is one listed file.
type File struct {
	Path   string
	SHA256 [32]byte
	Signed bool // inline_signed
}

// Name returns the bundle's name in policies.
func (m *Manifest) Name() string { return "bundle:" + m.ID + "@" + m.Version }

// invalid returns the error for bytes that aren't a v1 manifest. The line and the column are 0 if unknown.
func invalid(line, column int, err error) error {
	at := ""
	if line > 0 {
		at = fmt.Sprintf("line %d: ", line)
		if column > 0 {
			at = fmt.Sprintf("line %d, column %d: ", line, column)
		}
	}
	return fault.New(fault.Parsing, "v1 manifest: %s%v", at, err).On("line", line).On("column", column).From(err)
}

// lineStart marks the lines that old readers drop.
const lineStart = "# rye:signed:"

// Body returns a manifest without its signature line. Its digest is the manifest's name.
func Body(text []byte) []byte {
	if !bytes.HasPrefix(text, []byte(lineStart)) {
		return text
	}
	_, body, _ := bytes.Cut(text, []byte("\n"))
	return body
}

// IsV1 reports whether bytes begin like a v1 manifest, and not like a v2 one. Callers use it to choose the reader
// for a manifest.yaml.
func IsV1(b []byte) bool {
	for line := range bytes.Lines(b) {
		text := bytes.TrimRight(line, "\r\n")
		if len(text) == 0 || text[0] == '#' || string(text) == "---" {
			continue
		}
		return string(bytes.TrimRight(text, " ")) == "bundle:" || bytes.HasPrefix(text, []byte("files:"))
	}
	return false
}

// Identify returns the name in a manifest, for admission.Subject.V1.
func Identify(r io.Reader) (admission.Identity, error) {
	b, err := io.ReadAll(io.LimitReader(r, MaxBytes+1))
	if err != nil {
		return admission.Identity{}, err
	}
	m, err := Parse(b)
	if err != nil {
		return admission.Identity{}, err
	}
	return admission.Identity{Name: m.Name()}, nil
}

// Parse reads a manifest, with or without its signature line.
func Parse(b []byte) (*Manifest, error) {
	if len(b) > MaxBytes {
		return nil, invalid(0, 0, fmt.Errorf("larger than %d bytes", MaxBytes))
	}
	n := 0
	for line := range bytes.Lines(b) {
		if n++; n > 1 && bytes.HasPrefix(line, []byte(lineStart)) {
			return nil, invalid(n, 1, errors.New("signature line after line 1"))
		}
	}
	root, problems := parse.YAML(b, value.Pos{})
	for _, p := range problems {
		if !p.Warning {
			return nil, invalid(p.At.Line, p.At.Column, errors.New(p.Message))
		}
	}
	r := &reader{}
	m := r.manifest(root)
	if r.err != nil {
		return nil, r.err
	}
	return m, nil
}

// A reader reads values and keeps the first error.
type reader struct{ err error }

func (r *reader) fail(v *value.Value, format string, args ...any) {
	if r.err == nil {
		at := value.Pos{}
		if v != nil {
			at = v.At
		}
		r.err = invalid(at.Line, at.Column, fmt.Errorf(format, args...))
	}
}

func (r *reader) manifest(root *value.Value) *Manifest {
	r.keys(root, "the manifest", "bundle", "files")
	head, files := root.Get("bundle"), root.Get("files")
	r.keys(head, "bundle", "id", "version", "entrypoint", "description", "created_at", "type")
	result := &Manifest{ID: r.text(head, "id"), Version: r.text(head, "version"),
		Entrypoint:  r.text(head, "entrypoint"),
		Description: r.text(head, "description"), Created: r.text(head, "created_at"), Type: r.text(head, "type")}
	if r.err != nil {
		return nil
	}
	if err := portable.CheckID(result.ID); err != nil {
		r.fail(head.Get("id"), "id: %w", err)
	}
	if err := manifest.CheckVersion(result.Version); err != nil {
		r.fail(head.Get("version"), "version: %w", err)
	}
	if r.isMap(files, "files"); r.err != nil {
		return nil
	}
	if len(files.Map) == 0 {
		r.fail(files, "files: empty")
	}
	for i := range files.Map {
		if r.err != nil {
			return nil
		}
		e := &files.Map[i]
		result.Files = append(result.Files, r.file(e))
	}
	slices.SortFunc(result.Files, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	if err := portable.CheckSet(result.paths()); err != nil {
		r.fail(files, "files: %w", err)
	}
	return result
}

func (m *Manifest) paths() iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := range m.Files {
			if !yield(m.Files[i].Path) {
				return
			}
		}
	}
}

func (r *reader) file(entry *value.Entry) File {
	r.keys(entry.Value, entry.Key, "sha256", "inline_signed", "item_type")
	file := File{Path: entry.Key}
	if r.err != nil {
		return file
	}
	text := r.text(entry.Value, "sha256")
	if n, err := hex.Decode(file.SHA256[:], []byte(text[:min(len(text), 64)])); err != nil || n != 32 ||
		len(text) != 64 || text != strings.ToLower(text) {
		r.fail(entry.Value, "%+q: sha256 is not 64 hexadecimal digits", entry.Key)
	}
	switch signed := entry.Value.Get("inline_signed"); {
	case signed != nil && signed.Kind == value.Bool:
		file.Signed = signed.Text == "true"
	default:
		r.fail(entry.Value, "%+q: inline_signed must be true or false", entry.Key)
	}
	return file
}

func (r *reader) isMap(v *value.Value, what string) {
	if v == nil || v.Kind != value.Map {
		r.fail(v, "%+q must be a mapping", what)
	}
}

// keys refuses anything but a mapping with known keys.
func (r *reader) keys(v *value.Value, what string, known ...string) {
	r.isMap(v, what)
	if r.err != nil {
		return
	}
	for i := range v.Map {
		if !slices.Contains(known, v.Map[i].Key) {
			r.fail(v.Map[i].Value, "%+q: unknown key %+q", what, v.Map[i].Key)
		}
	}
}

// text returns a scalar verbatim, or "" if it is missing.
func (r *reader) text(v *value.Value, key string) string {
	t := v.Get(key)
	if t.IsNull() {
		return ""
	}
	if t.Kind == value.List || t.Kind == value.Map {
		r.fail(t, "%s must be text", key)
		return ""
	}
	return t.Text
}
