package places

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/cmd/rye/classify"
	"github.com/rye-build/rye/cmd/rye/cli"
	ryeyaml "github.com/rye-build/rye/lock/project"
	"github.com/rye-build/rye/manifest/policy/yamltree"
)

// What makes a directory a project.
const MarkerFile = "rye.yaml"

// A Project is the directory that a command works on.
type Project struct {
	Root   string
	Marker string // rye.yaml or .ai; empty for a package that has neither
}

// ErrNoProject says that neither the directory nor any parent that counts is a project.
var ErrNoProject = errors.New("not in a project")

// OpenProject returns the project of this command; errNoProject as a cause when there is none. Its rye.yaml is good, and
// doesn't ask for a newer rye.
func OpenProject(a *cli.App) (Project, error) {
	p, err := FindProject(a)
	if err == nil && p.Marker == MarkerFile {
		_, err = p.File(Running(a))
	}
	return p, err
}

// Running is the version that projects are held against. What is no release is new enough for all.
func Running(a *cli.App) string {
	if v := cli.ThisVersion().Version; cli.Version != "" || IsRelease(v) {
		return v
	}
	return "devel"
}

// IsRelease reports whether a version is three numbers. What Go makes of a commit is older than any release.
func IsRelease(v string) bool {
	return !strings.ContainsFunc(v, func(r rune) bool { return r != '.' && (r < '0' || r > '9') }) && strings.Count(v, ".") == 2
}

// MaxProject bounds rye.yaml.
const MaxProject = 4 << 20

// File reads the project's rye.yaml.
func (p Project) File(running string) (*ryeyaml.Project, error) {
	path := filepath.Join(p.Root, MarkerFile)
	broken := func(err error, message, look string) error {
		return &fault.Error{Code: fault.Config, Err: err, Text: message, Hint: []string{look + " " + fault.Quote(path)}, Details: map[string]any{"path": path}}
	}
	if LeadsOut(path) {
		return nil, broken(nil, fmt.Sprintf("%q is a symbolic link that leads out of the project", path), "ls -l")
	}
	b, err := osfile.ReadSmall(path, MaxProject)
	if err != nil {
		return nil, err
	}
	file, err := ryeyaml.Parse(b, running)
	if newer, ok := errors.AsType[*ryeyaml.NewerError](err); ok {
		return nil, &fault.Error{Code: fault.VersionMismatch, Err: err, Text: fmt.Sprintf("%q asks for rye %s or newer, and this is %s", path, newer.Want, newer.Have),
			Hint: []string{"rye version"}, Details: map[string]any{"path": path, "expected": newer.Want, "found": newer.Have}}
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

// FindProject returns the project of this command, whatever its rye.yaml says.
func FindProject(a *cli.App) (Project, error) {
	base := a.UserBase()
	if base.Err != nil {
		base.Value = "" // no home: no user space either
	}
	wd := a.Absolute(cli.Setting{})
	if wd.Err != nil {
		return Project{}, wd.Err
	}
	search := ProjectSearch{UserBase: base.Value, Foreign: cli.OwnedByOther}
	if a.Package != "" {
		s := a.Absolute(cli.Setting{Value: a.Package, Origin: "--package"})
		if s.Err != nil {
			return Project{}, s.Err
		}
		return search.at(s.Value)
	}
	if a.Globals.Project != "" {
		search.Named = wd.Value
	}
	p, err := search.Find(wd.Value)
	if errors.Is(err, ErrNoProject) {
		return Project{}, &fault.Error{Code: fault.NotFound, Err: err,
			Text: fmt.Sprintf("no project in %q or any parent directory", wd.Value),
			Why:  []string{"a project is a directory with rye.yaml, or with .ai"},
			Hint: []string{"cd DIR", "rye -C DIR COMMAND"},
		}
	}
	return p, err
}

// ProjectSearch holds the rules of which directory is the project: the nearest ancestor with rye.yaml, else
// the nearest with .ai; never the user base, whose .ai is the user space; none above the directory that
// holds .git; none that another user could have put there, such as /tmp/rye.yaml.
type ProjectSearch struct {
	UserBase string
	Named    string                 // the directory of -C: if it is the project itself, it may belong to anybody
	Foreign  func(fs.FileInfo) bool // belongs to neither this user nor root
}

// at returns dir as a project, whatever it has.
func (s ProjectSearch) at(dir string) (Project, error) {
	if err := cli.NeedDir(dir); err != nil {
		return Project{}, err
	}
	if s.IsUserBase(dir) {
		return Project{}, fault.New(fault.Config, "%q holds the user space and can't be a project", dir)
	}
	p := Project{Root: dir}
	for _, marker := range []string{MarkerFile, classify.MarkerDir} {
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
func (s ProjectSearch) Find(dir string) (Project, error) {
	// The directories as they lie on disk, not as links led here.
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return Project{}, err
	}
	dirs, err := s.candidates(dir)
	if err != nil {
		return Project{}, err
	}
	for _, marker := range []string{MarkerFile, classify.MarkerDir} {
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

// candidates returns dir and those of its parents that may be the project.
func (s ProjectSearch) candidates(dir string) ([]string, error) {
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
func (s ProjectSearch) IsUserBase(dir string) bool { return sameDir(dir, s.UserBase) }

func (s ProjectSearch) isNamed(dir string) bool { return sameDir(dir, s.Named) }

// sameDir compares directories, not their names; "" is none.
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

// markerAt returns what is known of a marker in dir, nil if it isn't there. A .ai that is a file marks
// nothing, and neither does a directory called rye.yaml.
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
	if isDir != (marker == classify.MarkerDir) {
		return nil, nil
	}
	return fi, nil
}

// own returns p if it is this user's or root's. The marker counts too: in a directory that everybody may
// write to, root owns the directory and anybody the file.
func (s ProjectSearch) own(p Project, marker fs.FileInfo) (Project, error) {
	root, err := os.Lstat(p.Root)
	if err != nil {
		return Project{}, err
	}
	if !s.Foreign(root) && !s.Foreign(marker) {
		return p, nil
	}
	path := p.Root
	if !s.Foreign(root) {
		path = filepath.Join(p.Root, p.Marker)
	}
	return Project{}, &fault.Error{Code: fault.Denied,
		Text:    fmt.Sprintf("%q belongs to another user", path),
		Why:     []string{"whoever owns a project decides what is run in it"},
		Hint:    []string{"rye -C " + fault.Quote(p.Root) + " COMMAND"},
		Details: map[string]any{"path": path},
	}
}

// DotAI is the project's space.
func (p Project) DotAI() string { return filepath.Join(p.Root, classify.MarkerDir) }

// ProjectSetting is the project, or why there is none.
func ProjectSetting(a *cli.App) cli.Setting {
	p, err := OpenProject(a)
	switch {
	case errors.Is(err, ErrNoProject):
		return cli.Setting{Origin: "none here or above"}
	case err != nil:
		return cli.Setting{Err: err}
	}
	return cli.Setting{Value: p.Root, Origin: p.Marker}
}
