package skill

import (
	"io/fs"
	"path"
)

// FromFiles makes a skill of files that were read elsewhere. They are checked as those of a directory that has only
// the folder name.
func FromFiles(name string, files []File) (*Skill, error) {
	all := make(fileSource, len(files))
	for i, f := range files {
		if !fs.ValidPath(f.Path) || f.Path == "." {
			return nil, refused("path", f.Path, "leads out of the skill, or is not a plain path")
		}
		all[i] = entry{path: path.Join(name, f.Path), size: int64(len(f.Bytes)), b: f.Bytes}
		if f.Exec {
			all[i].kind = executable
		}
	}
	found, err := find(all, false)
	if err != nil {
		return nil, err
	}
	if len(found) != 1 || found[0].Path != name {
		return nil, refused("name", name, "has no %s of its own", Main)
	}
	return found[0], found[0].Err
}

// A fileSource has its entries read already.
type fileSource []entry

func (s fileSource) list() ([]entry, error) { return s, nil }

func (s fileSource) read([]entry) error { return nil }
