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
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/portable"
)

// What a skill, and what is searched for skills, may have at most.
const (
	MaxFile    = 8 << 20
	MaxFiles   = 1000
	MaxBytes   = 64 << 20
	MaxEntries = 100_000
	MaxNames   = 16 << 20  // bytes of all their names
	MaxArchive = 64 << 20  // compressed
	MaxTotal   = 512 << 20 // unpacked
)

// An entry is a file of a directory or an archive. Directories aren't entries.
type entry struct {
	path string // as it is there, with "/"
	size int64
	kind kind
	b    []byte // once it was read
}

type kind byte

const (
	plain kind = iota
	executable
	link
	special
)

// A source has entries, and reads those that are wanted, each whole and of the size that it says.
type source interface {
	list() ([]entry, error)
	read(entries []entry, want []bool) error
}

// find reads the skills that a source has. A skill has the name of its folder, but for one that is all of the source:
// of an archive the one folder at the top is that, too, and has the name of a repository.
func find(s source, archive bool) ([]*Skill, error) {
	all, err := s.list()
	if err != nil {
		return nil, err
	}
	var near string
	dirs, above := map[string]bool{}, map[string]string{} // those of skills, and for each directory above one of them
	for i := range all {
		switch base := path.Base(all[i].path); {
		case base == Main:
			dir := path.Dir(all[i].path)
			dirs[dir] = true
			for up := dir; above[up] == "" && up != "."; up = path.Dir(up) {
				above[up] = dir
			}
		case strings.EqualFold(base, Main):
			near = all[i].path
		}
	}
	if len(dirs) == 0 {
		f := fault.New(fault.NotFound, "no skill there: no folder has a file %s", Main).Try("rye docs skills")
		if near != "" {
			f.Because("there is " + near + ", and the name is " + Main)
		}
		return nil, f
	}
	want := make([]bool, len(all))
	skills := map[string]*Skill{}
	in := make([]*Skill, len(all))
	loose, own := licences{}, map[string]bool{}
	for i := range all {
		dir, ok := outermost(all[i].path, dirs)
		if !ok {
			if below := above[all[i].path]; below != "" { // in an archive
				return nil, refused("prefix", all[i].path, "is no directory, and %s is below it",
					path.Join(below, Main))
			}
			loose.add(&all[i], i)
			continue
		}
		sk := skills[dir]
		if sk == nil {
			sk = &Skill{Path: dir}
			skills[dir] = sk
		}
		if sk.leaves(relative(dir, all[i].path)) {
			continue
		}
		if err := check(&all[i], relative(dir, all[i].path)); err != nil {
			return nil, err
		}
		want[i], in[i] = true, sk
		own[dir] = own[dir] || path.Dir(all[i].path) == dir && isLicence(&all[i])
	}
	carried := map[*Skill][]int{}
	for dir, sk := range skills {
		if !own[dir] {
			carried[sk] = loose.above(dir)
		}
		for _, i := range carried[sk] {
			want[i] = true
		}
	}
	if err := sizes(all, in, carried); err != nil {
		return nil, err
	}
	if err := s.read(all, want); err != nil {
		return nil, err
	}
	for i := range all {
		if sk := in[i]; sk != nil {
			sk.Files = append(sk.Files, File{Path: relative(sk.Path, all[i].path), Exec: all[i].kind == executable,
				Bytes: all[i].b})
		}
	}
	found, bad := make([]*Skill, 0, len(skills)), map[int]error{}
	for _, sk := range skills {
		if err := sk.finish(archive); err != nil {
			return nil, err
		}
		sk.carry(all, carried[sk], bad)
		found = append(found, sk)
	}
	slices.SortFunc(found, func(a, b *Skill) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Path, b.Path))
	})
	words := map[string]*Skill{}
	for _, b := range found {
		if a := words[word(b.Name)]; a != nil {
			return nil, refused("name", path.Join(b.Path, Main),
				"has the name %q, and %s has %q: their directives would be one", b.Name, path.Join(a.Path, Main),
				a.Name)
		}
		words[word(b.Name)] = b
	}
	return found, nil
}

// outermost returns the highest directory of dirs that a path is in.
func outermost(p string, dirs map[string]bool) (string, bool) {
	if dirs["."] {
		return ".", true
	}
	for i := range len(p) {
		if p[i] == '/' && dirs[p[:i]] {
			return p[:i], true
		}
	}
	return "", false
}

func relative(dir, p string) string {
	if dir == "." {
		return p
	}
	return p[len(dir)+1:]
}

// leaves notes a file that no tree takes in, and reports whether this is one.
func (s *Skill) leaves(rel string) bool {
	part := ""
	for seg := range strings.SplitSeq(rel, "/") {
		part = path.Join(part, seg)
		if portable.Droppings(seg) || seg == ".git" {
			if !slices.Contains(s.LeftOut, part) {
				s.LeftOut = append(s.LeftOut, part)
			}
			return true
		}
	}
	return false
}

// check refuses an entry that can't be a file of a skill.
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

// sizes refuses skills that are too large.
func sizes(all []entry, in []*Skill, carried map[*Skill][]int) error {
	files, total := map[*Skill]int{}, int64(0)
	for _, which := range carried {
		for _, i := range which {
			total += all[i].size
		}
	}
	for i := range all {
		if s := in[i]; s != nil {
			if files[s]++; files[s] > MaxFiles {
				return refused("files", s.Path, "has more than %d files", MaxFiles)
			}
			if total += all[i].size; total > MaxBytes {
				return refused("size", all[i].path, "is too much: all skills of an import have at most %d bytes",
					MaxBytes)
			}
		}
	}
	return nil
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

// File returns a file by its path, nil if there is none.
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

// checkText refuses a text with what a person doesn't see in it, or with a signature line of ours: where it counts as
// one, no signature would cover it.
func checkText(name string, f *File) error {
	if !isText(f.Bytes) {
		return nil
	}
	n := 0
	for l := range bytes.Lines(f.Bytes) {
		if n++; n == 1 && f.Path != Main {
			l = bytes.TrimPrefix(l, []byte("\ufeff"))
		}
		for _, flag := range flags.Text("", string(l)) {
			if flag.Class == flags.Hidden || flag.Class == flags.Direction || flag.Class == flags.Control &&
				f.Path == Main {
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

// isText reports whether bytes are a text that is read as one.
func isText(b []byte) bool { return utf8.Valid(b) && bytes.IndexByte(b, 0) < 0 }
