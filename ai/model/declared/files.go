package declared

import (
	"fmt"

	"github.com/rye-build/rye/ai/model/fields"
	"github.com/rye-build/rye/ai/shape"
	"github.com/rye-build/rye/ai/value"
	"github.com/rye-build/rye/cas/portable"
)

// Files are the files of the project that a tool uses, by paths below the project's root: a directory covers
// everything in it, "." the whole project. Written files may be read, too. Each list is sorted, and no path in it is
// below another. "." in Write leaves out the paths that shape.Writable refuses.
type Files struct{ Read, Write []string }

// maxPaths bounds a list: running the tool makes a sandbox rule of each path.
const maxPaths = 64

// files reads the paths of the project that the tool reads and writes.
func (d *reader) files() Files {
	v := d.Object("files")
	if v == nil {
		return Files{}
	}
	d.Unknown("files", v, "read", "write")
	return Files{Read: d.paths("files.read", v.Get("read"), false),
		Write: d.paths("files.write", v.Get("write"), true)}
}

// paths returns the valid paths of a list.
func (d *reader) paths(name string, val *value.Value, write bool) []string {
	switch {
	case val.IsNull():
		return nil
	case val.Kind != value.List:
		d.Once(val, name, "Field '%s' must be an array, got %s", name, fields.TypeName(val))
		return nil
	case len(val.Items) > maxPaths:
		d.Once(val, name, "Field '%s' must have at most %d entries, got %d", name, maxPaths, len(val.Items))
		return nil
	}
	var list []string
	for i, item := range val.Items {
		path := fmt.Sprintf("%s[%d]", name, i)
		err := portable.Check(item.Text)
		switch {
		case item.Kind != value.Text:
			d.Bad(item, path, "Field '%s' must be a string, got %s", path, fields.TypeName(item))
		case err != nil && item.Text != ".":
			d.Bad(item, path,
				"Field '%s' is no path below the root of the project, as in docs, docs/api.md or \".\": %v", path, err)
		case write && !shape.Writable(item.Text):
			d.Bad(item, path,
				"Field '%s' is %s, and tools write nothing in .ai but .ai/outputs, nor .git, rye.lock and rye.yaml",
				path, fields.Single(item.Text))
		default:
			list = append(list, item.Text)
		}
	}
	return shape.Outermost(list)
}

// writes checks a tool's written files against its other declarations.
func (d *reader) writes(t *Tool) {
	v := d.Fields.Get("files").Get("write")
	switch {
	case len(t.Files.Write) == 0:
	case t.Pure:
		d.Bad(v, "pure", "a tool that is pure writes no files")
	case t.Risk == Read:
		d.Warn(v, "risk", "the risk is read, and files are written")
	}
}

// grant returns the files as package shape has them.
func (f Files) grant() any {
	lists := map[string]any{}
	for name, paths := range map[string][]string{"read": f.Read, "write": f.Write} {
		if len(paths) > 0 {
			list := make([]any, len(paths))
			for i, p := range paths {
				list[i] = p
			}
			lists[name] = list
		}
	}
	if len(lists) == 0 {
		return nil
	}
	return lists
}
