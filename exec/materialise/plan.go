package materialise

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/portable"
)

const (
	// MaxFiles bounds the files of a copy.
	MaxFiles = 1 << 18
	// MaxBytes bounds the size of a copy.
	MaxBytes = 8 << 30
)

// A Part is a file, or a directory with everything in it.
type Part struct {
	Path string   // in the copy; "" for a tree that is the whole copy
	ID   cas.ID   // of a blob or a tree
	Mode cas.Mode // of a blob
	Size int64    // of a blob
}

// A PartError is a part that can't be copied, and the reason.
type PartError struct {
	Path string
	Err  error
}

func (e *PartError) Error() string { return fmt.Sprintf("%+q: %v", e.Path, e.Err) }

// Unwrap returns the cause.
func (e *PartError) Unwrap() error { return e.Err }

// TooMany returns the error for a copy with too many files or bytes.
func TooMany(what string, limit int64) error {
	return fault.New(fault.Limit, "the files to copy exceed %d %s", limit, what)
}

// A plan is the content of a copy.
type plan struct {
	key   string
	files map[string]cas.Entry // by path; the entries' own Name is empty
	dirs  map[string][]string  // the names in each directory, sorted; "" is the copy itself
	paths []string             // of files, sorted
	order []string             // of dirs, sorted
	bytes int64
	check func(paths []string) error
}

// newPlan reads the trees of parts. check checks the sorted paths of all files.
func newPlan(ctx context.Context, src cas.Getter, parts []Part, check func(paths []string) error) (*plan, error) {
	plan := &plan{files: map[string]cas.Entry{}, dirs: map[string][]string{}, check: check}
	for i := range parts {
		if err := plan.part(ctx, src, &parts[i]); err != nil {
			return nil, err
		}
	}
	if len(plan.files) == 0 {
		return nil, errors.New("no files to copy")
	}
	plan.paths = slices.Sorted(maps.Keys(plan.files))
	if err := check(plan.paths); err != nil {
		return nil, err
	}
	hasher := cas.NewHasher()
	fmt.Fprintln(hasher, "materialise/1")
	for _, file := range plan.paths {
		e := plan.files[file]
		plan.bytes += e.Size
		fmt.Fprintln(hasher, file, e.Mode, e.Digest)
		plan.enter(file)
	}
	if plan.bytes > MaxBytes {
		return nil, TooMany("bytes", MaxBytes)
	}
	plan.order = slices.Sorted(maps.Keys(plan.dirs))
	for _, names := range plan.dirs {
		slices.Sort(names) // file order isn't name order: "a-b/…" precedes "a/…", but "a" precedes "a-b"
	}
	plan.key = strings.TrimPrefix(hasher.Digest().String(), "blake3:")
	return plan, nil
}

// checkSet requires portable paths.
func checkSet(paths []string) error { return portable.CheckSet(slices.Values(paths)) }

// Modules is the directory in which Node looks for packages. Trees never contain it; packages may.
const Modules = "node_modules"

// CheckPackages checks the paths of packages' files, in any order: they must be portable as a set, except for
// Modules.
func CheckPackages(paths []string) error {
	// Replace Modules by a name that the rules for trees accept.
	const stand = "node_modules!"
	shown := make([]string, len(paths))
	for i, path := range paths {
		segments := strings.Split(path, "/")
		for j, s := range segments {
			if s == Modules {
				segments[j] = stand
			}
		}
		shown[i] = strings.Join(segments, "/")
	}
	slices.Sort(shown)
	return checkSet(shown)
}

// enter adds the name of a file to its directory, that directory to its parent, and so on.
func (p *plan) enter(file string) {
	for at := file; at != ""; {
		dir, name := path.Split(at)
		dir = strings.TrimSuffix(dir, "/")
		_, known := p.dirs[dir]
		if names := p.dirs[dir]; len(names) == 0 || names[len(names)-1] != name {
			p.dirs[dir] = append(names, name)
		}
		if known {
			return
		}
		at = dir
	}
}

func (p *plan) part(ctx context.Context, src cas.Getter, part *Part) error {
	bad := func(err error) error { return &PartError{part.Path, err} }
	if part.Path != "" {
		if err := p.check([]string{part.Path}); err != nil {
			return bad(err)
		}
	}
	switch part.ID.Kind {
	case cas.Blob:
		if part.Mode != cas.File && part.Mode != cas.Exec || part.Size < 0 || part.Path == "" {
			return bad(errors.New("is not a file with a path, a mode and a size"))
		}
		return p.add(part.Path, cas.Entry{Mode: part.Mode, Digest: part.ID.Digest, Size: part.Size})
	case cas.TreeKind:
		err := cas.Walk(ctx, src, part.ID, func(in string, e cas.Entry) error {
			if e.Mode == cas.Dir {
				return nil
			}
			e.Name = ""
			return p.add(path.Join(part.Path, in), e)
		})
		if err != nil && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			return bad(err)
		}
		return nil
	}
	return bad(fmt.Errorf("%s is neither a file nor a directory", part.ID))
}

// add adds a file. The same file may be added again.
func (p *plan) add(file string, e cas.Entry) error {
	if was, twice := p.files[file]; twice && was != e {
		return &PartError{file, errors.New("two different files have this path")}
	}
	if p.files[file] = e; len(p.files) > MaxFiles {
		return TooMany("files", MaxFiles)
	}
	return nil
}
