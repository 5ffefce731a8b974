package skill

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"iter"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/rye-build/rye/ai/flags"
	"github.com/rye-build/rye/bundle/foreign"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/portable"
)

// The limits of a skill and of a source.
const (
	MaxFile    = 16 << 20 // what every client of the skills extension accepts
	MaxFiles   = 1000
	MaxBytes   = 64 << 20
	MaxEntries = foreign.MaxEntries
	MaxArchive = foreign.MaxArchive
)

// An entry is a file of a directory or an archive.
type entry struct {
	path   string // as in the source, with "/"
	size   int64
	kind   kind
	wanted bool   // to be read
	b      []byte // set after reading
}

type kind byte

const (
	plain kind = iota
	executable
	link
	special
)

// A source lists entries and reads the wanted ones, each whole and with exactly its size.
type source interface {
	list() ([]entry, error)
	read(entries []entry) error
}

func relative(dir, p string) string {
	if dir == "." {
		return p
	}
	return p[len(dir)+1:]
}

// leaves reports whether trees leave a file out, and records it as left out.
func (s *Skill) leaves(rel string) bool {
	below := ""
	for seg := range strings.SplitSeq(rel, "/") {
		below = path.Join(below, seg)
		if portable.Droppings(seg) || seg == ".git" {
			if !slices.Contains(s.LeftOut, below) {
				s.LeftOut = append(s.LeftOut, below)
			}
			return true
		}
	}
	return false
}

// check refuses an entry that can't be a skill's file.
func check(e *entry, rel string) error {
	switch {
	case e.kind == link:
		return refused("link", e.path, "is a link")
	case e.kind == special:
		return refused("special", e.path, "is neither a file nor a directory")
	case e.size > MaxFile:
		return tooLarge(e.path, e.size, MaxFile)
	}
	if err := portable.Check(rel); err != nil {
		return BadPath(e.path, err)
	}
	return nil
}

func BadPath(p string, err error) *fault.Error {
	rule := "path"
	if e, ok := errors.AsType[*portable.Error](err); ok {
		rule = e.Rule
	}
	return refused(rule, p, "can't be a path of a skill").Because(err.Error())
}

// finish checks the files of a skill as a set, and reads SKILL.md.
func (s *Skill) finish(archive bool) error {
	slices.SortStableFunc(s.Files, func(a, b File) int { return cmp.Compare(a.Path, b.Path) })
	if err := portable.CheckSet(s.paths()); err != nil {
		return BadPath(s.Path, err)
	}
	for i := range s.Files {
		f := &s.Files[i]
		if err := checkText(path.Join(s.Path, f.Path), f); err != nil {
			return err
		}
	}
	t, err := ParseText(path.Join(s.Path, Main), s.File(Main).Bytes)
	if err != nil {
		return err
	}
	s.Text = *t
	if name := path.Base(s.Path); name != s.Name && s.Path != "." && (!archive || strings.Contains(s.Path, "/")) {
		return refused("name", path.Join(s.Path, Main), "has the name %q, and its folder is %q", s.Name, name)
	}
	return nil
}

// File returns the file at a path, or nil.
func (s *Skill) File(p string) *File {
	for i := range s.Files {
		if s.Files[i].Path == p {
			return &s.Files[i]
		}
	}
	return nil
}

func (s *Skill) paths() iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := range s.Files {
			if !yield(s.Files[i].Path) {
				return
			}
		}
	}
}

// checkText refuses a text with invisible characters, or with a signature line of rye: no signature would cover such
// a line.
func checkText(name string, file *File) error {
	if !isText(file.Bytes) {
		return nil
	}
	n := 0
	for l := range bytes.Lines(file.Bytes) {
		if n++; n == 1 && file.Path != Main {
			l = bytes.TrimPrefix(l, []byte("\ufeff"))
		}
		for _, flag := range flags.Text("", string(l)) {
			if flag.Class == flags.Hidden || flag.Class == flags.Direction || flag.Class == flags.Control &&
				file.Path == Main {
				return refused("hidden", name, "%s", flag.Why).On("line", n).Because(fmt.Sprint("it is in line ", n))
			}
		}
		if i := bytes.Index(l, []byte("rye:signed:")); i >= 0 && len(bytes.Trim(l[:i], "#/*-<!; \t")) == 0 {
			return refused("signature", name, "has a signature line of rye").On("line",
				n).Because(fmt.Sprint("it is in line ", n))
		}
	}
	return nil
}

// isText reports whether bytes are valid UTF-8 without NUL.
func isText(b []byte) bool { return utf8.Valid(b) && bytes.IndexByte(b, 0) < 0 }
