package skill

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"github.com/rye-build/rye/cas/fault"
)

// find reads the skills of a source. A skill is named after its folder. The exception is a source that is one skill:
// then SKILL.md's name counts, because an archive's top folder is named after the repository. An invalid skill is an
// error only if no other is valid.
func find(source source, archive bool) ([]*Skill, error) {
	entries, err := source.list()
	if err != nil {
		return nil, err
	}
	found := &findings{folders: map[string]*folder{}}
	if err := found.findFolders(entries); err != nil {
		return nil, err
	}
	if err := found.assign(entries); err != nil {
		return nil, err
	}
	for _, c := range found.skills {
		found.takeLicences(c)
	}
	if err := found.checkSizes(); err != nil {
		return nil, err
	}
	if err := source.read(entries); err != nil {
		return nil, err
	}
	return found.finish(archive)
}

// findings are the folders and skills of a source.
type findings struct {
	folders map[string]*folder // by path
	skills  []*candidate       // in the order of their first entries
}

// A folder is a directory that is a skill or contains one.
type folder struct {
	below    string     // the first skill found at or below this folder
	main     bool       // it has a SKILL.md
	skill    *candidate // nil if it only contains skills, or is inside of one
	licences []*licence // in it and outside of skills
}

// A candidate is a skill before its files are read.
type candidate struct {
	*Skill
	files    []*entry
	licensed bool // it has its own licence
	carried  []*licence
}

// at returns the folder at a path, and adds it if missing.
func (f *findings) at(dir string) *folder {
	at := f.folders[dir]
	if at == nil {
		at = &folder{}
		f.folders[dir] = at
	}
	return at
}

// findFolders finds the folders that have a SKILL.md.
func (f *findings) findFolders(entries []entry) error {
	near := ""
	for i := range entries {
		switch base := path.Base(entries[i].path); {
		case base == Main:
			dir := path.Dir(entries[i].path)
			f.at(dir).main = true
			for up := dir; f.at(up).below == ""; up = path.Dir(up) {
				f.at(up).below = dir
			}
		case strings.EqualFold(base, Main):
			near = entries[i].path
		}
	}
	if len(f.folders) > 0 {
		return nil
	}
	none := fault.New(fault.NotFound, "no skill found: no folder contains %s", Main).Try("rye docs skills")
	if near != "" {
		none.Because("found " + near + ": rename it to " + Main)
	}
	return none
}

// assign gives each entry to the skill whose folder it is in, and licences outside of skills to their folders.
func (f *findings) assign(entries []entry) error {
	for i := range entries {
		entry := &entries[i]
		dir, ok := f.outermost(entry.path)
		if !ok {
			if above := f.folders[entry.path]; above != nil { // in an archive, a file and a folder can share a path
				return refused("prefix", entry.path, "is no directory, and %s is below it",
					path.Join(above.below, Main))
			}
			if at := f.folders[path.Dir(entry.path)]; at != nil && mayBeCarried(entry) {
				at.licences = append(at.licences, &licence{entry: entry})
			}
			continue
		}
		at := f.folders[dir]
		if at.skill == nil {
			at.skill = &candidate{Skill: &Skill{Path: dir}}
			f.skills = append(f.skills, at.skill)
		}
		if err := at.skill.add(entry); err != nil && at.skill.Err == nil {
			at.skill.Err = err
		}
	}
	return nil
}

// add adds an entry from the skill's folder, unless it is left out.
func (c *candidate) add(e *entry) error {
	rel := relative(c.Path, e.path)
	if c.leaves(rel) {
		return nil
	}
	if err := check(e, rel); err != nil {
		return err
	}
	e.wanted = true
	c.files = append(c.files, e)
	c.licensed = c.licensed || path.Dir(e.path) == c.Path && isLicence(e)
	return nil
}

// outermost returns the highest skill folder that contains a path.
func (f *findings) outermost(p string) (string, bool) {
	if f.isMain(".") {
		return ".", true
	}
	for i := range len(p) {
		if p[i] == '/' && f.isMain(p[:i]) {
			return p[:i], true
		}
	}
	return "", false
}

func (f *findings) isMain(dir string) bool {
	at := f.folders[dir]
	return at != nil && at.main
}

// takeLicences gives a skill without a licence those of the nearest folder above that has some.
func (f *findings) takeLicences(c *candidate) {
	for dir := c.Path; !c.licensed && len(c.carried) == 0 && dir != "."; {
		dir = path.Dir(dir)
		c.carried = f.folders[dir].licences
	}
	for _, l := range c.carried {
		l.entry.wanted = true
	}
}

// checkSizes refuses skills that are too large. A licence from above counts for each skill that carries it.
func (f *findings) checkSizes() error {
	total := int64(0)
	f.skipInvalid()
	for _, c := range f.skills {
		for _, l := range c.carried {
			total += l.entry.size
		}
	}
	for _, c := range f.skills {
		if len(c.files) > MaxFiles {
			return refused("files", c.Path, "has more than %d files", MaxFiles)
		}
		for _, e := range c.files {
			if total += e.size; total > MaxBytes {
				return refused("size", e.path, "is too much: all skills of an import have at most %d bytes", MaxBytes)
			}
		}
	}
	return nil
}

// skipInvalid leaves the files of invalid skills unread.
func (f *findings) skipInvalid() {
	for _, c := range f.skills {
		if c.Err == nil {
			continue
		}
		for _, e := range c.files {
			e.wanted = false
		}
		c.files, c.carried = nil, nil
	}
}

// finish makes skills of the files read, sorted by name.
func (f *findings) finish(archive bool) ([]*Skill, error) {
	skills, valid := make([]*Skill, 0, len(f.skills)), 0
	for _, c := range f.skills {
		for _, e := range c.files {
			c.Files = append(c.Files, File{Path: relative(c.Path, e.path), Exec: e.kind == executable, Bytes: e.b})
		}
		if c.Err == nil {
			c.Err = c.Skill.finish(archive)
		}
		if c.Err != nil {
			c.Name = path.Base(c.Path)
		} else {
			valid++
		}
		c.carry(c.carried)
		skills = append(skills, c.Skill)
	}
	if valid == 0 {
		return nil, skills[0].Err
	}
	slices.SortFunc(skills, func(a, b *Skill) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Path, b.Path))
	})
	return skills, checkNames(skills)
}

// checkNames refuses two skills whose directives would have the same id.
func checkNames(skills []*Skill) error {
	words := map[string]*Skill{}
	for _, s := range skills {
		if s.Err != nil {
			continue
		}
		if other := words[word(s.Name)]; other != nil {
			return refused("name", path.Join(s.Path, Main),
				"has the name %q, and %s has %q: their directives would be one",
				s.Name, path.Join(other.Path, Main), other.Name)
		}
		words[word(s.Name)] = s
	}
	return nil
}
