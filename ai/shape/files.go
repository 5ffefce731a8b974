package shape

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rye-build/rye/cas/portable"
)

// whole is the path of everything in a project.
const whole = "."

// Writable reports whether an item may ask to write a path of a project. No tool may write the files of rye and git:
// .ai except its outputs, .git, rye.lock and rye.yaml, in any case. "." is writable and means all other paths.
func Writable(path string) bool {
	first, rest, _ := strings.Cut(path, "/")
	switch portable.Fold(first) {
	case ".ai":
		below, found := strings.CutPrefix(rest, "outputs")
		return first == ".ai" && found && (below == "" || below[0] == '/')
	case ".git", "rye.lock", "rye.yaml":
		return false
	}
	return true
}

// Outermost returns the paths without those below another of them, sorted and without duplicates.
func Outermost(paths []string) []string {
	all := sorted(paths)
	return slices.DeleteFunc(slices.Clone(all), func(p string) bool {
		if i := strings.LastIndexByte(p, '/'); i >= 0 {
			return within(all, p[:i])
		}
		return p != whole && within(all, whole)
	})
}

// within reports whether one of the sorted paths is the path or a directory above it.
func within(paths []string, path string) bool {
	for {
		if _, found := slices.BinarySearch(paths, path); found {
			return true
		}
		if path == whole {
			return false
		}
		path = cmp.Or(path[:max(0, strings.LastIndexByte(path, '/'))], whole)
	}
}

// files are the paths of a project that an item may read and write; each list has only the outermost ones.
type files struct{ read, write []string }

func filesOf(v any) (files files, err error) {
	lists, ok := v.(map[string]any)
	if v != nil && !ok {
		return files, badGrants("files", "expected an object")
	}
	for _, name := range slices.Sorted(maps.Keys(lists)) {
		var paths []string
		if paths, ok = texts(lists[name]); !ok {
			return files, badGrants("files", "expected lists of paths")
		}
		for _, p := range paths {
			if err := portable.Check(p); p != whole && err != nil {
				return files, badGrants("files", err.Error())
			}
		}
		switch name {
		case "read":
			files.read = Outermost(paths)
		case "write":
			if i := slices.IndexFunc(paths, func(p string) bool { return !Writable(p) }); i >= 0 {
				return files, badGrants("files", fmt.Sprintf("%q is not to be written", paths[i]))
			}
			files.write = Outermost(paths)
		default:
			return files, badGrants("files", "expected read and write alone")
		}
	}
	return files, nil
}

// value returns the files as JSON, nil for none.
func (f files) value() any {
	lists := map[string]any{}
	if len(f.read) > 0 {
		lists["read"] = values(f.read)
	}
	if len(f.write) > 0 {
		lists["write"] = values(f.write)
	}
	if len(lists) == 0 {
		return nil
	}
	return lists
}

// covers reports whether f reads everything that o reads, and writes everything that o writes. Written paths are
// readable too. It compares paths as they are spelled.
func (f files) covers(o files) bool {
	for _, p := range o.write {
		if !within(f.write, p) {
			return false
		}
	}
	for _, p := range o.read {
		written := p != whole && Writable(p) && within(f.write, p)
		if !written && !within(f.read, p) {
			return false
		}
	}
	return true
}

func diffFiles(before, after any) []Item {
	const path = "/grants/files"
	old, err := filesOf(before)
	if err != nil {
		return undecided(path, before, after)
	}
	now, err := filesOf(after)
	if err != nil {
		return undecided(path, before, after)
	}
	i := Item{Path: path, From: raw(old.value()), To: raw(now.value())}
	switch {
	case !old.covers(now):
		i.Kind, i.Class = "files_widened", Breaking
	case !now.covers(old):
		i.Kind, i.Class = "files_narrowed", Compatible
	default:
		return nil
	}
	return []Item{i}
}
