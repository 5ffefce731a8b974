package offer

import (
	"bytes"
	"cmp"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/rye-build/rye/bundle/skill"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/portable"
	"github.com/rye-build/rye/manifest/jcs"
)

// maxURI bounds an address, in bytes.
const maxURI = 2048

// A File is a file of an offered skill.
type File struct {
	Path string // in the skill
	Resource
}

// An Offer is the entry of a stranger, checked as far as it says everything itself.
type Offer struct {
	Name, Description string
	URI               string
	Files             []File // sorted by path: servers may list them in any order
	Err               error  // why it can't be added; then only Name, Description and URI may be set
	front             []byte // canonical
}

// Same reports whether two entries say the same.
func (o *Offer) Same(other *Offer) bool {
	return o.URI == other.URI && bytes.Equal(o.front, other.front) && slices.Equal(o.Files, other.Files)
}

// Parse checks an entry, parsed as package jcs does.
func Parse(v any) *Offer {
	o := &Offer{}
	o.Err = o.parse(v)
	return o
}

func (o *Offer) parse(v any) (err error) {
	m, _ := v.(map[string]any)
	o.URI, _ = m["uri"].(string)
	fields, ok := m["frontmatter"].(map[string]any)
	o.Name, _ = fields["name"].(string)
	o.Description, _ = fields["description"].(string)
	switch {
	case !ok || o.Name == "" || o.Description == "":
		return wrong("its entry has no front matter with name and description")
	case !skill.IsName(o.Name):
		return wrong("its name %q breaks the rules of names", fault.Clip(o.Name, 80))
	}
	if o.front, err = jcs.Append(nil, fields); err != nil {
		return err
	}
	base, ok := strings.CutSuffix(o.URI, "/"+skill.Main)
	segments, err := split(base)
	if !ok || err != nil || segments[len(segments)-1] != o.Name {
		return wrong("its address %q does not end in /%s/%s", fault.Clip(o.URI, 200), o.Name, skill.Main)
	}
	return o.files(m["resources"], base)
}

// files checks the list of files.
func (o *Offer) files(v any, base string) error {
	if v == "dynamic" {
		return wrong("its server generates the files, so they have no digests that could be pinned")
	}
	all, ok := v.([]any)
	if !ok {
		return wrong("its entry lists no files")
	}
	if len(all) > MaxFiles {
		return checkSize(o.Name, len(all), 0)
	}
	total, seen := int64(0), map[string]bool{}
	for _, one := range all {
		m, _ := one.(map[string]any)
		f := File{}
		f.URI, _ = m["uri"].(string)
		f.Digest, _ = m["digest"].(string)
		size, number := jcs.Number(m["size"])
		f.Size = int64(size)
		rest, below := strings.CutPrefix(f.URI, base+"/")
		path, err := unescape(rest)
		if !below || err != nil || portable.Check(path) != nil {
			return wrong("the address %q is not one of a file in the skill", fault.Clip(f.URI, 200))
		}
		digits, ok := strings.CutPrefix(f.Digest, "sha256:")
		switch {
		case !ok || len(digits) != 64 || strings.Trim(digits, "0123456789abcdef") != "":
			return wrong("the digest of %q is not sha256: and 64 hexadecimal digits", path)
		case !number || size < 0 || float64(f.Size) != size:
			return wrong("the size of %q is not a number of bytes", path)
		case seen[path]:
			return wrong("%q is listed twice", path)
		}
		if f.Size > MaxBytes || total+f.Size > MaxBytes {
			return checkSize(o.Name, 0, MaxBytes+1)
		}
		total += f.Size
		f.Path, seen[path] = path, true
		o.Files = append(o.Files, f)
	}
	if !seen[skill.Main] {
		return wrong("its entry does not list %s", skill.Main)
	}
	slices.SortFunc(o.Files, func(a, b File) int { return cmp.Compare(a.Path, b.Path) })
	return nil
}

// Check refuses bytes that aren't those of the entry.
func (f *File) Check(b []byte) error {
	if int64(len(b)) != f.Size || Digest(b) != f.Digest {
		return fault.New(fault.Integrity, "%q is not the file that the server listed", f.Path).On("file", f.Path).
			Because("listed: "+f.Digest, "received: "+Digest(b))
	}
	return nil
}

// CheckMain refuses a SKILL.md whose front matter isn't that of the entry.
func (o *Offer) CheckMain(b []byte) error {
	text, err := skill.ParseText(skill.Main, b)
	if err != nil {
		return err
	}
	fields, err := text.Fields()
	if err != nil {
		return err
	}
	front, err := jcs.Append(nil, fields)
	if err != nil {
		return err
	}
	if !bytes.Equal(front, o.front) {
		return fault.New(fault.Integrity, "the front matter of %q is not what the server listed", o.Name)
	}
	return nil
}

// Skill makes the skill of files that Check and CheckMain have accepted.
func (o *Offer) Skill(files []skill.File) (*skill.Skill, error) {
	s, err := skill.FromFiles(o.Name, files)
	if err != nil {
		return nil, err
	}
	s.Path = strings.TrimSuffix(o.URI, "/"+skill.Main)
	return s, nil
}

// split splits the address of a directory into the segments behind its scheme. The first has no meaning for networks.
func split(base string) ([]string, error) {
	scheme, rest, ok := strings.Cut(base, "://")
	if !ok || len(base) > maxURI || !portable.Spelled(scheme, portable.Letters+portable.Digits+"-", ".", 40) ||
		strings.ContainsFunc(rest, func(r rune) bool { return r <= ' ' || r > '~' || r == '@' || r == ':' }) {
		return nil, wrong("invalid address")
	}
	path, err := unescape(rest)
	if err != nil {
		return nil, err
	}
	return strings.Split(path, "/"), nil
}

// unescape returns the path that an address spells, with plain segments.
func unescape(escaped string) (string, error) {
	segments := strings.Split(escaped, "/")
	for i, s := range segments {
		plain, err := url.PathUnescape(s)
		if err != nil || plain == "" || plain == "." || plain == ".." || strings.ContainsAny(plain, "/\\\x00") ||
			!utf8.ValidString(plain) || strings.ContainsAny(s, "?#") {
			return "", wrong("invalid path")
		}
		segments[i] = plain
	}
	return strings.Join(segments, "/"), nil
}

func wrong(format string, args ...any) *fault.Error {
	return fault.New(fault.Validation, format, args...)
}
