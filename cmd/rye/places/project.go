package places

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/classify"
	"github.com/rye-build/rye/cmd/rye/cli"
	ryeyaml "github.com/rye-build/rye/lock/project"
	"github.com/rye-build/rye/manifest/policy/yamltree"
)

// What makes a directory a project.
const MarkerFile = "rye.yaml"

// A project is the directory that a command works on.
type Project struct {
	Root   string
	Marker string // rye.yaml or .ai; empty where -C named a directory that has neither
	named  bool   // by -C
}

// errNoProject says that neither the directory nor any parent that counts is a project.
var ErrNoProject = errors.New("not in a project")

// project returns the project of this command; errNoProject as a cause when there is none. Its rye.yaml is good, and
// doesn't ask for a newer rye.
func OpenProject(a *cli.App) (Project, error) {
	p, err := FindProject(a)
	if err == nil && p.Marker == MarkerFile {
		_, err = p.File(Running(a))
	}
	return p, err
}

// running is the version that projects are held against. What is no release is new enough for all.
func Running(a *cli.App) string {
	if v := cli.ThisVersion().Version; cli.Version != "" || IsRelease(v) {
		return v
	}
	return "devel"
}

// isRelease reports whether a version is three numbers. What Go makes of a commit is older than any release.
func IsRelease(v string) bool {
	return !strings.ContainsFunc(v, func(r rune) bool { return r != '.' && (r < '0' || r > '9') }) && strings.Count(v, ".") == 2
}

// maxProject bounds rye.yaml.
const MaxProject = 4 << 20

// file reads the project's rye.yaml.
func (p Project) File(running string) (*ryeyaml.Project, error) {
	path := filepath.Join(p.Root, MarkerFile)
	broken := func(err error, message, look string) error {
		return &fault.Error{Code: fault.Config, Err: err, Text: message, Hint: []string{look + " " + fault.Quote(path)}, Details: map[string]any{"path": path}}
	}
	if LeadsOut(path) {
		return nil, broken(nil, fmt.Sprintf("%q is a symbolic link that leads out of the project", path), "ls -l")
	}
	b, err := ReadSmall(path, MaxProject)
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

// findProject returns the project of this command, whatever its rye.yaml says.
func FindProject(a *cli.App) (Project, error) {
	base := a.UserBase()
	if base.Err != nil {
		base.Value = "" // no home: no user space either
	}
	search := ProjectSearch{UserBase: base.Value, Foreign: cli.OwnedByOther}
	if dir := a.Globals.Project; dir != "" {
		s := a.Absolute(cli.Setting{Value: dir, Origin: "--project"})
		if s.Err != nil {
			return Project{}, s.Err
		}
		return search.Named(s.Value)
	}
	wd := a.Absolute(cli.Setting{})
	if wd.Err != nil {
		return Project{}, wd.Err
	}
	p, err := search.Find(wd.Value)
	if errors.Is(err, ErrNoProject) {
		return Project{}, &fault.Error{Code: fault.NotFound, Err: err,
			Text: fmt.Sprintf("there is no project at %q or above it", wd.Value),
			Why:  []string{"a project is a directory with rye.yaml, or with .ai"},
			Hint: []string{"cd DIR", "rye -C DIR COMMAND"},
		}
	}
	return p, err
}

// projectSearch holds the rules of which directory is the project: the nearest ancestor with rye.yaml, else
// the nearest with .ai; never the user base, whose .ai is the user space; none above the directory that
// holds .git; none that another user could have put there, such as /tmp/rye.yaml.
type ProjectSearch struct {
	UserBase string
	Foreign  func(fs.FileInfo) bool // belongs to neither this user nor root
}

// named returns the project that -C names: that very directory, whoever owns it.
func (s ProjectSearch) Named(dir string) (Project, error) {
	ok, err := classify.IsDir(dir)
	if errors.Is(err, classify.NotDirectory) {
		err = &fault.Error{Code: fault.Files, Err: err, Exit: fault.ExitMissing, Text: fmt.Sprintf("%q is no directory", dir),
			Why: []string{"-C takes the directory of a project"}, Details: map[string]any{"path": dir}}
	}
	if err == nil && !ok {
		err = &fault.Error{Code: fault.Files, Err: fs.ErrNotExist, Exit: fault.ExitMissing, Text: fmt.Sprintf("there is no directory %q", dir), Details: map[string]any{"path": dir}}
	}
	if err != nil {
		return Project{}, err
	}
	if s.IsUserBase(dir) {
		return Project{}, &fault.Error{Code: fault.Config, Text: fmt.Sprintf("%q holds the user space and can't be a project", dir)}
	}
	p := Project{Root: dir, named: true}
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

// find searches from dir upwards.
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

// isUserBase compares the directories, not their names.
func (s ProjectSearch) IsUserBase(dir string) bool {
	if s.UserBase == "" {
		return false
	}
	if dir == s.UserBase {
		return true
	}
	a, err := os.Stat(dir)
	if err != nil {
		return false
	}
	b, err := os.Stat(s.UserBase)
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

// dotAI is the project's space.
func (p Project) DotAI() string { return filepath.Join(p.Root, classify.MarkerDir) }

// projectSetting is the project, or why there is none.
func ProjectSetting(a *cli.App) cli.Setting {
	p, err := OpenProject(a)
	switch {
	case errors.Is(err, ErrNoProject):
		return cli.Setting{Origin: "none here or above"}
	case err != nil:
		return cli.Setting{Err: err}
	case p.named:
		return cli.Setting{Value: p.Root, Origin: "--project"}
	}
	return cli.Setting{Value: p.Root, Origin: p.Marker}
}
