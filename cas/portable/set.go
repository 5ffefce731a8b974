package portable

import (
	"iter"
	"strings"
	"unicode/utf8"
)

// CheckSet returns nil if one tree can hold the paths, sorted by bytes, on every system; else an *Error about one
// of the others, not always the first. It remembers only the names in the directories of the current path. It may
// keep references to the strings until it returns.
//
// The names of one directory are such a set, too.
func CheckSet(paths iter.Seq[string]) error {
	s := set{open: []dir{{}}}
	for path := range paths {
		if err := s.add(path); err != nil {
			return err
		}
	}
	return s.closeTo(0)
}

// A set is a walk over sorted paths. Sorting puts everything below a directory together, so that when a path
// leaves a directory, all its names are known and can be compared.
type set struct {
	prev  string
	open  []dir             // the directories of prev, outermost first
	names []string          // their names so far: those of open[i] begin at open[i].first
	folds map[string]string // for sameFold: from a fold to the one name with it that is not its own fold
}

type dir struct {
	end    int  // length of the directory's path, "/" included
	first  int  // its first name in names
	folded bool // one of its names is not its own folding
}

func (s *set) add(path string) error {
	if err := checkWhole(path); err != nil {
		return err
	}
	switch {
	case path == s.prev:
		return &Error{Path: path, Rule: ruleDuplicate, Detail: "is a duplicate"}
	case path < s.prev:
		return &Error{Path: path, Rule: ruleOrder, Detail: "is out of order: it comes after " + quote(s.prev)}
	}
	keep := len(s.open) - 1
	for ; keep > 0; keep-- {
		if end := s.open[keep].end; len(path) > end && path[:end] == s.prev[:end] {
			break
		}
	}
	// The directories that stay open were checked when they were opened.
	if err := checkFrom(path, s.open[keep].end); err != nil {
		return err
	}
	if err := s.closeTo(keep + 1); err != nil {
		return err
	}
	s.prev = path
	for start := s.open[keep].end; ; {
		n := strings.IndexByte(path[start:], '/')
		if n < 0 {
			s.name(path[start:])
			return nil
		}
		end := start + n
		if s.isFile(path[start:end]) {
			return &Error{Path: path[:end], Rule: rulePrefix,
				Detail: "is a file, and a directory in path " + quote(path)}
		}
		s.name(path[start:end])
		start = end + 1
		s.open = append(s.open, dir{end: start, first: len(s.names)})
	}
}

// name adds a name to the innermost open directory.
func (s *set) name(name string) {
	if d := &s.open[len(s.open)-1]; !d.folded {
		i := unfolded(name)
		d.folded = i < len(name) && (name[i] < utf8.RuneSelf || Fold(name) != name)
	}
	s.names = append(s.names, name)
}

// isFile reports whether the innermost directory has a file with this name: a directory of this name would still be
// open. Only names that begin with it, such as a-b after a, can come between the two.
func (s *set) isFile(name string) bool {
	for i := len(s.names) - 1; i >= s.open[len(s.open)-1].first && strings.HasPrefix(s.names[i], name); i-- {
		if len(s.names[i]) == len(name) {
			return true
		}
	}
	return false
}

// closeTo closes the innermost directories until n are left.
func (s *set) closeTo(n int) error {
	for len(s.open) > n {
		d := s.open[len(s.open)-1]
		if d.folded {
			if err := s.sameFold(s.prev[:d.end], s.names[d.first:]); err != nil {
				return err
			}
		}
		s.names = s.names[:d.first]
		s.open = s.open[:len(s.open)-1]
	}
	return nil
}

// sameFold returns an error if two of a directory's names, which are all different, have the same fold. At most one
// of two such names is its own fold, so sameFold remembers only the other names.
func (s *set) sameFold(dir string, names []string) error {
	if s.folds == nil {
		s.folds = make(map[string]string)
	}
	clear(s.folds)
	for _, name := range names {
		fold := Fold(name)
		if fold == name {
			continue
		}
		if other, twice := s.folds[fold]; twice {
			return duplicate(dir, other, name)
		}
		s.folds[fold] = name
	}
	for _, name := range names {
		if other, twice := s.folds[name]; twice {
			return duplicate(dir, other, name)
		}
	}
	return nil
}

func duplicate(dir, a, b string) error {
	if b < a {
		a, b = b, a
	}
	return &Error{Path: dir + b, Segment: b, Rule: ruleDuplicate,
		Detail: "is " + quote(a) + " where upper and lower case are the same"}
}
