package workspace

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
	ryeyaml "github.com/rye-build/rye/lock/project"
	"github.com/rye-build/rye/manifest/policy/yamltree"
)

// The names that mark a directory as a project.
const (
	MarkerFile = "rye.yaml"
	MarkerDir  = ".ai"
)

// A Project is the directory that commands work on.
type Project struct {
	Root   string
	Marker string // rye.yaml or .ai; empty for a package that has neither
}

// ErrNoProject means that neither the directory nor a parent that counts is a project.
var ErrNoProject = errors.New("not in a project")

// MaxProject bounds rye.yaml.
const MaxProject = 4 << 20

// File reads the project's rye.yaml.
func (p Project) File(running string) (*ryeyaml.Project, error) {
	path := filepath.Join(p.Root, MarkerFile)
	broken := func(err error, message, look string) error {
		return fault.New(fault.Config, "%s", message).From(err).Try(look+" "+fault.Quote(path)).On("path", path)
	}
	if ai.Inside(path) != nil {
		return nil, broken(nil, fmt.Sprintf("%q is a symbolic link that leads out of the project", path), "ls -l")
	}
	b, err := osfile.ReadSmall(path, MaxProject)
	if err != nil {
		return nil, err
	}
	file, err := ryeyaml.Parse(b, running)
	if newer, ok := errors.AsType[*ryeyaml.NewerError](err); ok {
		return nil, fault.New(fault.VersionMismatch, "%q requires rye %s or newer; this is %s", path, newer.Want,
			newer.Have).
			From(err).Try("rye version").On("path", path).On("expected", newer.Want).On("found", newer.Have)
	}
	if err != nil {
		f := broken(err, fmt.Sprintf("%q: %s", path, strings.TrimPrefix(err.Error(), MarkerFile+": ")), "git diff")
		if at, ok := errors.AsType[*yamltree.Error](err); ok {
			f := f.(*fault.Error)
			f.Details["line"], f.Details["column"] = at.Line, at.Column
		}
		return nil, f
	}
	return file, nil
}

// OpenProject finds the project and reads its rye.yaml, which may require a newer rye than the running one. Without a
// project, the error wraps ErrNoProject.
func (p *Paths) OpenProject() (Project, error) {
	found, err := p.FindProject()
	if err == nil && found.Marker == MarkerFile {
		_, err = found.File(p.Version)
	}
	return found, err
}

// FindProject finds the project without reading its rye.yaml.
func (p *Paths) FindProject() (Project, error) {
	if p.NoDir != nil {
		return Project{}, p.NoDir
	}
	var s Search
	if p.User.Err == nil {
		s.UserBase = p.User.Path
	}
	if p.Package {
		return s.At(p.Dir)
	}
	if p.Named {
		s.Named = p.Dir
	}
	found, err := s.Find(p.Dir)
	if errors.Is(err, ErrNoProject) {
		return Project{}, p.NoProject()
	}
	return found, err
}

// NoProject is the error of a command that needs a project outside of any: it runs in the wrong directory.
func (p *Paths) NoProject() *fault.Error {
	return fault.New(fault.Config, "no project here: %q and its parent directories have no %s or %s", p.Dir,
		MarkerFile, MarkerDir).From(ErrNoProject).
		Because("change to the project's directory, or name it with -C DIR").Try("rye init")
}

// OrNoProject replaces the error of an id that doesn't exist: outside of projects, the likely cause is the wrong
// directory. The library's items are the same everywhere.
func (w *Workspace) OrNoProject(err error, id string) error {
	if w.Root.Root != "" || !errors.Is(err, fs.ErrNotExist) || strings.HasPrefix(id, "rye/") {
		return err
	}
	f := w.NoProject()
	f.Why = append([]string{fault.Of(err).Text}, f.Why...)
	return f
}

// A Search finds the project: the nearest ancestor with rye.yaml, else the nearest with .ai. It never takes the user
// base, passes the directory that holds .git, or takes files that another user could have planted, such as
// /tmp/rye.yaml.
type Search struct {
	UserBase string
	// the directory that the user named: if it is the project itself, any user may own it
	Named    string
	AnyOwner bool                   // projects of other users count
	foreign  func(fs.FileInfo) bool // osfile.OwnedByOther, except in tests
}

// At returns dir as a project, even without a marker.
func (s Search) At(dir string) (Project, error) {
	if err := osfile.NeedDir(dir); err != nil {
		return Project{}, err
	}
	if s.IsUserBase(dir) {
		return Project{}, fault.New(fault.Config, "%q holds the user space and cannot be a project", dir)
	}
	p := Project{Root: dir}
	for _, marker := range []string{MarkerFile, MarkerDir} {
		if fi, err := markerAt(dir, marker); err != nil {
			return Project{}, err
		} else if fi != nil {
			p.Marker = marker
			break
		}
	}
	return p, nil
}

// Find searches from dir upwards.
func (s Search) Find(dir string) (Project, error) {
	// Compare real directories, not the links that led here.
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return Project{}, err
	}
	dirs, err := s.candidates(dir)
	if err != nil {
		return Project{}, err
	}
	for _, marker := range []string{MarkerFile, MarkerDir} {
		for _, d := range dirs {
			switch fi, err := markerAt(d, marker); {
			case err != nil:
				return Project{}, err
			case fi != nil && s.isNamed(d):
				return Project{Root: d, Marker: marker}, nil
			case fi != nil:
				return s.own(Project{Root: d, Marker: marker}, fi)
			}
		}
	}
	return Project{}, ErrNoProject
}

// candidates returns dir and its parents, as far as they may be the project.
func (s Search) candidates(dir string) ([]string, error) {
	var dirs []string
	for {
		if !s.IsUserBase(dir) {
			dirs = append(dirs, dir)
		}
		_, err := os.Lstat(filepath.Join(dir, ".git"))
		parent := filepath.Dir(dir)
		if err == nil || parent == dir {
			return dirs, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		dir = parent
	}
}

// IsUserBase reports whether dir is the user base.
func (s Search) IsUserBase(dir string) bool { return sameDir(dir, s.UserBase) }

func (s Search) isNamed(dir string) bool { return sameDir(dir, s.Named) }

// sameDir compares directories, not their names; "" equals no directory.
func sameDir(dir, other string) bool {
	if other == "" {
		return false
	}
	if dir == other {
		return true
	}
	a, err := os.Stat(dir)
	if err != nil {
		return false
	}
	b, err := os.Stat(other)
	return err == nil && os.SameFile(a, b)
}

// markerAt returns the file info of a marker in dir, or nil if it is missing. A .ai that is a file marks nothing, and
// neither does a directory called rye.yaml.
func markerAt(dir, marker string) (fs.FileInfo, error) {
	fi, err := os.Lstat(filepath.Join(dir, marker))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	isDir := fi.IsDir()
	if fi.Mode()&fs.ModeSymlink != 0 {
		to, err := os.Stat(filepath.Join(dir, marker))
		isDir = err == nil && to.IsDir()
	}
	if isDir != (marker == MarkerDir) {
		return nil, nil
	}
	return fi, nil
}

// own returns project if this user or root owns both it and its marker. Any user can write a marker into a shared
// directory of root's, such as /tmp.
func (s Search) own(project Project, marker fs.FileInfo) (Project, error) {
	root, err := os.Lstat(project.Root)
	if err != nil {
		return Project{}, err
	}
	foreign := s.foreign
	if foreign == nil {
		foreign = osfile.OwnedByOther
	}
	if s.AnyOwner || !foreign(root) && !foreign(marker) {
		return project, nil
	}
	path := project.Root
	if !foreign(root) {
		path = filepath.Join(project.Root, project.Marker)
	}
	return Project{}, fault.New(fault.Denied, "%q belongs to another user", path).On("path", path).
		Because("the owner of a project decides what runs in it").Try("rye -C " + fault.Quote(project.Root) +
		" COMMAND")
}

// DotAI returns the project's space.
func (p Project) DotAI() string { return filepath.Join(p.Root, MarkerDir) }
