package skill

import (
	"cmp"
	"fmt"
	"path"
	"regexp"
	"slices"
	"sync"

	"github.com/rye-build/rye/cas/portable"
)

// maxLicence bounds a file that is carried along.
const maxLicence = 1 << 20

var licenceName = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(?i:licen[cs]e|copying|unlicense)(?:[-._].*)?$`)
})

func isLicence(e *entry) bool { return licenceName().MatchString(path.Base(e.path)) }

// licences are the files above skills that may say what these are licensed under, by their directories.
type licences map[string][]int

func (l licences) add(e *entry, i int) {
	if dir := path.Dir(e.path); e.kind <= executable && e.size <= maxLicence && isLicence(e) {
		l[dir] = append(l[dir], i)
	}
}

// above returns those of the nearest directory above one that has some.
func (l licences) above(dir string) []int {
	for dir != "." {
		if dir = path.Dir(dir); l[dir] != nil {
			return l[dir]
		}
	}
	return nil
}

// carry takes licences along that stood above the skill. bad has those that were looked at before, for another skill.
func (s *Skill) carry(all []entry, which []int, bad map[int]error) {
	for _, i := range which {
		f := File{Path: path.Base(all[i].path), Bytes: all[i].b}
		err, known := bad[i]
		if !known {
			if err = check(&all[i], f.Path); err == nil {
				err = checkText(all[i].path, &f)
			}
			bad[i] = err
		}
		if err != nil {
			s.Warnings = append(s.Warnings, "a licence is not carried along: "+err.Error())
			continue
		}
		s.Licences = append(s.Licences, f)
	}
	slices.SortFunc(s.Licences, func(a, b File) int { return cmp.Compare(a.Path, b.Path) })
	seen := map[string]bool{}
	s.Licences = slices.DeleteFunc(s.Licences, func(f File) bool {
		name := portable.Fold(f.Path)
		if seen[name] {
			s.Warnings = append(s.Warnings,
				fmt.Sprintf(
					"a licence is not carried along: %q is the name of another one where upper and lower case are the same",
					f.Path))
			return true
		}
		seen[name] = true
		return false
	})
}
