package wasm

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	experimentalsys "github.com/tetratelabs/wazero/experimental/sys"
	"github.com/tetratelabs/wazero/sys"
)

// A mode is the access that a rule allows to a path and everything below it.
type mode uint8

const (
	denied mode = iota
	readable
	writable
)

// A rule is a granted or denied path, by its name below the root.
type rule struct {
	mode mode
	path string      // on the machine
	info fs.FileInfo // nil: it was missing
	root *os.Root    // of a granted directory
}

// A view is a module's view of the machine's files.
type view struct {
	experimentalsys.UnimplementedFS
	rules map[string]*rule
}

// newView opens the granted paths. It treats paths that it can't open as not granted.
func newView(plan *plan) *view {
	view := &view{rules: map[string]*rule{}}
	if plan.Root == "" {
		return view
	}
	var above *rule // the nearest rule for a directory that contains the root
	length := 0
	for _, l := range []struct {
		mode  mode
		paths []string
	}{{readable, plan.Read}, {writable, plan.Write}, {readable, plan.Keep}, {denied, plan.Deny}} {
		for _, at := range l.paths {
			if rel, err := filepath.Rel(plan.Root, at); err == nil && filepath.IsLocal(rel) {
				view.rules[filepath.ToSlash(rel)] = &rule{mode: l.mode, path: at}
			} else if rel, err := filepath.Rel(at, plan.Root); err == nil && filepath.IsLocal(rel) &&
				len(at) >= length {
				above, length = &rule{mode: l.mode, path: plan.Root}, len(at)
			}
		}
	}
	if view.rules["."] == nil && above != nil {
		view.rules["."] = above
	}
	for _, r := range view.rules {
		r.open()
	}
	return view
}

func (r *rule) open() {
	info, err := os.Lstat(r.path)
	if err != nil {
		return
	}
	if r.info = info; r.mode == denied || !info.IsDir() {
		return
	}
	if root, err := os.OpenRoot(r.path); err == nil {
		if now, err := root.Stat("."); err != nil || !os.SameFile(info, now) {
			root.Close()
			return
		}
		r.root = root
	}
}

func (v *view) close() {
	for _, r := range v.rules {
		if r.root != nil {
			r.root.Close()
		}
	}
}

// rule returns the rule for a valid name, from the nearest path above it, and the name relative to that path.
func (v *view) rule(name string) (r *rule, rest string) {
	for at := name; ; at = path.Dir(at) {
		if r := v.rules[at]; r != nil {
			return r, strings.TrimPrefix(strings.TrimPrefix(name, at), "/")
		}
		if at == "." {
			return &rule{}, ""
		}
	}
}

// leads reports whether a rule exists below a name.
func (v *view) leads(name string) bool {
	for at := range v.rules {
		if at != name && (name == "." || strings.HasPrefix(at, name+"/")) {
			return true
		}
	}
	return false
}

// ruled reports whether a file has a rule of its own under any of its names: a file has several names on file systems
// that ignore case.
func (v *view) ruled(info fs.FileInfo) bool {
	for _, r := range v.rules {
		if r.info != nil && os.SameFile(r.info, info) {
			return true
		}
	}
	return false
}

// A place is the resolved position of a name: an entry in an open directory, or a granted file.
type place struct {
	dir  *os.Root
	name string // "." is the directory itself
	rule *rule
	done func()
}

func nothing() {}

var errLink = errors.New("a symbolic link")

// find opens the directories above a name one by one. It refuses symbolic links, and directories with a rule of their
// own.
func (v *view) find(name string) (place, experimentalsys.Errno) {
	foreign := filepath.Separator != '/' && strings.ContainsAny(name, `\:`)
	if foreign || !fs.ValidPath(name) || !filepath.IsLocal(filepath.FromSlash(name)) {
		return place{}, experimentalsys.EPERM
	}
	rule, rest := v.rule(name)
	switch {
	case rule.mode == denied && rule.path == "":
		return place{}, experimentalsys.ENOENT
	case rule.mode == denied:
		return place{}, experimentalsys.EACCES
	case rule.info == nil:
		return place{}, experimentalsys.ENOENT
	case rule.root == nil && rest == "" && rule.info.Mode().IsRegular():
		return place{name: ".", rule: rule, done: nothing}, 0
	case rule.root == nil:
		return place{}, experimentalsys.EACCES
	}
	at := place{dir: rule.root, name: cmp.Or(path.Base(rest), "."), rule: rule, done: nothing}
	for _, step := range strings.Split(path.Dir(cmp.Or(rest, ".")), "/") {
		if step == "." {
			break
		}
		next, err := v.enter(at.dir, step)
		at.done()
		if err != nil {
			return place{}, errno(err)
		}
		at.dir, at.done = next, func() { next.Close() }
	}
	return at, 0
}

// enter opens a directory in another one.
func (v *view) enter(dir *os.Root, name string) (*os.Root, error) {
	info, err := dir.Lstat(name)
	switch {
	case err != nil:
		return nil, err
	case info.Mode()&fs.ModeSymlink != 0:
		return nil, errLink
	case !info.IsDir():
		return nil, experimentalsys.ENOTDIR
	case v.ruled(info):
		return nil, fs.ErrPermission
	}
	next, err := dir.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	now, err := next.Stat(".")
	if err == nil && !os.SameFile(info, now) {
		err = errLink
	}
	if err != nil {
		next.Close()
		return nil, err
	}
	return next, nil
}

// errno returns the WASI error number of an error.
func errno(err error) experimentalsys.Errno {
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errLink):
		return experimentalsys.ELOOP
	case errors.Is(err, fs.ErrPermission):
		return experimentalsys.EACCES
	case errors.Is(err, fs.ErrNotExist):
		return experimentalsys.ENOENT
	case errors.Is(err, fs.ErrExist):
		return experimentalsys.EEXIST
	}
	if no, ok := errors.AsType[experimentalsys.Errno](err); ok {
		return no
	}
	if no := experimentalsys.UnwrapOSError(err); no != 0 {
		return no
	}
	return experimentalsys.EIO
}

// look returns the facts about a place.
func (v *view) look(at place) (fs.FileInfo, error) {
	if at.dir == nil {
		info, err := os.Lstat(at.rule.path)
		if err == nil && !os.SameFile(info, at.rule.info) {
			err = fs.ErrNotExist
		}
		return info, err
	}
	info, err := at.dir.Lstat(at.name)
	if err == nil && at.name != "." && v.ruled(info) {
		err = fs.ErrPermission
	}
	return info, err
}

// Lstat implements experimentalsys.FS.
func (v *view) Lstat(name string) (sys.Stat_t, experimentalsys.Errno) {
	at, no := v.find(name)
	if no != 0 {
		if v.above(name) {
			return sys.NewStat_t(leading{path.Base(name), fs.ModeDir}), 0
		}
		return sys.Stat_t{}, no
	}
	defer at.done()
	info, err := v.look(at)
	if err != nil {
		return sys.Stat_t{}, errno(err)
	}
	return sys.NewStat_t(info), 0
}

// above reports whether a name is a virtual directory above granted paths.
func (v *view) above(name string) bool {
	if !fs.ValidPath(name) {
		return false
	}
	r, _ := v.rule(name)
	return r.mode == denied && r.path == "" && len(v.below(name)) > 0
}

// below returns the names in a directory that lead to granted paths.
func (v *view) below(name string) map[string]fs.FileMode {
	names := map[string]fs.FileMode{}
	for at, r := range v.rules {
		if name != "." {
			var ok bool
			if at, ok = strings.CutPrefix(at, name+"/"); !ok {
				continue
			}
		}
		if first, _, deeper := strings.Cut(at, "/"); at != "." && r.mode != denied && r.info != nil {
			if names[first] = r.info.Mode().Type(); deeper {
				names[first] = fs.ModeDir
			}
		}
	}
	return names
}

// Stat implements experimentalsys.FS.
func (v *view) Stat(name string) (sys.Stat_t, experimentalsys.Errno) {
	st, no := v.Lstat(name)
	if no == 0 && st.Mode&fs.ModeSymlink != 0 {
		no = experimentalsys.ELOOP
	}
	return st, no
}

// change finds a name in a writable directory.
func (v *view) change(name string) (place, experimentalsys.Errno) {
	at, no := v.find(name)
	switch {
	case no != 0:
		return at, no
	case at.rule.mode != writable || at.name == "." || v.leads(name):
		at.done()
		return at, experimentalsys.EACCES
	}
	if _, err := v.look(at); err != nil && !errors.Is(err, fs.ErrNotExist) {
		at.done()
		return at, errno(err)
	}
	return at, 0
}

// Mkdir implements experimentalsys.FS.
func (v *view) Mkdir(name string, perm fs.FileMode) experimentalsys.Errno {
	at, no := v.change(name)
	if no != 0 {
		return no
	}
	defer at.done()
	return errno(at.dir.Mkdir(at.name, perm.Perm()))
}

// Rename implements experimentalsys.FS.
func (v *view) Rename(from, to string) experimentalsys.Errno {
	at, no := v.change(from)
	if no != 0 {
		return no
	}
	defer at.done()
	other, no := v.change(to)
	if no != 0 {
		return no
	}
	defer other.done()
	if path.Dir(from) != path.Dir(to) {
		return experimentalsys.ENOTSUP
	}
	return errno(at.dir.Rename(at.name, other.name))
}

// Rmdir implements experimentalsys.FS.
func (v *view) Rmdir(name string) experimentalsys.Errno { return v.remove(name, true) }

// Unlink implements experimentalsys.FS.
func (v *view) Unlink(name string) experimentalsys.Errno { return v.remove(name, false) }

func (v *view) remove(name string, dir bool) experimentalsys.Errno {
	at, no := v.change(name)
	if no != 0 {
		return no
	}
	defer at.done()
	info, err := v.look(at)
	switch {
	case err != nil:
		return errno(err)
	case dir && !info.IsDir():
		return experimentalsys.ENOTDIR
	case !dir && info.IsDir():
		return experimentalsys.EISDIR
	}
	return errno(at.dir.Remove(at.name))
}

// OpenFile implements experimentalsys.FS.
func (v *view) OpenFile(name string, flag experimentalsys.Oflag, perm fs.FileMode) (experimentalsys.File,
	experimentalsys.Errno) {
	const changing = experimentalsys.O_RDWR | experimentalsys.O_WRONLY | experimentalsys.O_CREAT |
		experimentalsys.O_TRUNC |
		experimentalsys.O_APPEND
	const making = experimentalsys.O_CREAT | experimentalsys.O_DIRECTORY
	writes := flag&changing != 0
	at, no := v.find(name)
	if no != 0 && v.above(name) {
		if writes {
			return nil, experimentalsys.EISDIR
		}
		return v.folder(name)
	}
	if no != 0 {
		return nil, no
	}
	defer at.done()
	info, err := v.look(at)
	absent := errors.Is(err, fs.ErrNotExist)
	switch {
	case absent && flag&making == experimentalsys.O_CREAT && at.rule.mode == writable && at.dir != nil:
		return opened(at.dir.OpenFile(at.name, access(flag)|os.O_CREATE|os.O_EXCL, perm.Perm()))
	case absent && flag&experimentalsys.O_CREAT != 0:
		return nil, experimentalsys.EACCES
	case err != nil:
		return nil, errno(err)
	case flag&experimentalsys.O_EXCL != 0 && flag&experimentalsys.O_CREAT != 0:
		return nil, experimentalsys.EEXIST
	case info.Mode()&fs.ModeSymlink != 0:
		return nil, experimentalsys.ELOOP
	case info.IsDir() && flag&(experimentalsys.O_RDWR|experimentalsys.O_WRONLY|experimentalsys.O_TRUNC) != 0:
		return nil, experimentalsys.EISDIR
	case info.IsDir():
		return v.folder(name)
	case !info.Mode().IsRegular():
		return nil, experimentalsys.EACCES // opening a pipe may block for ever
	case flag&experimentalsys.O_DIRECTORY != 0:
		return nil, experimentalsys.ENOTDIR
	case writes && at.rule.mode != writable:
		return nil, experimentalsys.EACCES
	}
	var file *os.File
	if at.dir == nil {
		file, err = os.OpenFile(at.rule.path, access(flag), 0)
	} else {
		file, err = at.dir.OpenFile(at.name, access(flag), 0)
	}
	if err != nil {
		return nil, errno(err)
	}
	// A link may have led to another file. Compare before truncating.
	now, err := file.Stat()
	if err == nil && !os.SameFile(info, now) {
		err = errLink
	}
	if err == nil && flag&experimentalsys.O_TRUNC != 0 {
		err = file.Truncate(0)
	}
	if err != nil {
		file.Close()
		return nil, errno(err)
	}
	return opened(file, nil)
}

// access returns the system's flags for an access mode. They have no side effect of their own.
func access(flag experimentalsys.Oflag) int {
	var n int
	switch {
	case flag&experimentalsys.O_RDWR != 0:
		n = os.O_RDWR
	case flag&experimentalsys.O_WRONLY != 0:
		n = os.O_WRONLY
	}
	if flag&experimentalsys.O_APPEND != 0 {
		n |= os.O_APPEND
	}
	return n
}
