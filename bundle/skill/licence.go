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

// maxLicence bounds a licence from above a skill.
const maxLicence = 1 << 20

var licenceName = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(?i:licen[cs]e|copying|unlicense)(?:[-._].*)?$`)
})

func isLicence(e *entry) bool { return licenceName().MatchString(path.Base(e.path)) }

// A licence is a file above skills that may be their licence.
type licence struct {
	entry   *entry
	checked bool
	err     error // set by check if no skill can carry it
}

// mayBeCarried reports whether an entry outside of skills can be a licence for those below it.
func mayBeCarried(e *entry) bool { return e.kind <= executable && e.size <= maxLicence && isLicence(e) }

// check returns the licence as a file of a skill, or the reason why it can't be one.
func (l *licence) check() (File, error) {
	f := File{Path: path.Base(l.entry.path), Bytes: l.entry.b}
	if l.checked {
		return f, l.err
	}
	l.checked = true
	if l.err = check(l.entry, f.Path); l.err == nil {
		l.err = checkText(l.entry.path, &f)
	}
	return f, l.err
}

// carry adds licences from above the skill.
func (s *Skill) carry(licences []*licence) {
	for _, l := range licences {
		f, err := l.check()
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
