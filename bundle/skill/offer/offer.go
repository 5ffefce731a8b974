// Package offer is what the MCP extension io.modelcontextprotocol/skills says of a skill: its address, its front
// matter, and each file with its digest and size. A server makes an entry, and a client checks one.
//
//	{"uri": "skill://skills/pdf-forms/SKILL.md",
//	 "frontmatter": {"name": "pdf-forms", "description": "Fills in PDF forms"},
//	 "resources": [{"uri": "skill://skills/pdf-forms/SKILL.md", "digest": "sha256:…", "size": 312}]}
//
// The text is specification/stable/skills.mdx of modelcontextprotocol/ext-skills. The last segment before SKILL.md is
// the skill's name, and every other file's address begins with the same directory.
package offer

import (
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"strings"

	"github.com/rye-build/rye/bundle/skill"
	"github.com/rye-build/rye/cas/fault"
)

// Extension is the identifier of the extension.
const Extension = "io.modelcontextprotocol/skills"

// The limits of a skill that every client has to accept.
const (
	MaxFiles = 512
	MaxBytes = 16 << 20
)

// Scheme begins the addresses of a server's own skills.
const Scheme = "skill://"

// An Entry describes a skill.
type Entry struct {
	URI         string         `json:"uri"` // of SKILL.md
	Frontmatter map[string]any `json:"frontmatter"`
	Resources   []Resource     `json:"resources"`
}

// A Resource is a file of a skill.
type Resource struct {
	URI    string `json:"uri"`
	Digest string `json:"digest"` // "sha256:" and 64 hexadecimal digits
	Size   int64  `json:"size"`
}

// New returns the entry of a skill below a path such as "skills/pdf-forms". Skills beyond the limits of the extension
// are an error: clients need not accept them.
func New(at string, text *skill.Text, files []skill.File) (*Entry, error) {
	fields, err := text.Fields()
	if err != nil {
		return nil, err
	}
	e := &Entry{URI: URI(at, skill.Main), Frontmatter: fields, Resources: make([]Resource, len(files))}
	total := int64(0)
	for i := range files {
		f := &files[i]
		e.Resources[i] = Resource{URI(at, f.Path), Digest(f.Bytes), int64(len(f.Bytes))}
		total += int64(len(f.Bytes))
	}
	return e, checkSize(text.Name, len(files), total)
}

func checkSize(name string, files int, total int64) error {
	if files > MaxFiles {
		return fault.New(fault.Limit, "the skill %q has more than %d files", name, MaxFiles)
	}
	if total > MaxBytes {
		return fault.New(fault.Limit, "the skill %q has more than %d bytes", name, MaxBytes)
	}
	return nil
}

// URI returns the address of a skill's file.
func URI(at, file string) string {
	segments := strings.Split(at+"/"+file, "/")
	for i, s := range segments {
		segments[i] = url.PathEscape(s)
	}
	return Scheme + strings.Join(segments, "/")
}

// Digest returns the digest of a file in the form of the extension.
func Digest(b []byte) string {
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:])
}
