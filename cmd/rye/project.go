package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/rye-build/rye/cas/fault"
	ryeyaml "github.com/rye-build/rye/lock/project"
	"github.com/rye-build/rye/manifest/policy/yamltree"
)

// What makes a directory a project.
const markerFile = "rye.yaml"

const markerDir = ".ai"

// A project is the directory that a command works on.
type project struct {
	root   string
	marker string // rye.yaml or .ai; empty where -C named a directory that has neither
	named  bool   // by -C
}

// errNoProject says that neither the directory nor any parent that counts is a project.
var errNoProject = errors.New("not in a project")

// project returns the project of this command; errNoProject as a cause when there is none. Its rye.yaml is good, and
// doesn't ask for a newer rye.
func (a *app) project() (project, error) {
	p, err := a.findProject()
	if err == nil && p.marker == markerFile {
		_, err = p.file(a.running())
	}
	return p, err
}

// running is the version that projects are held against. What is no release is new enough for all.
func (a *app) running() string {
	if v := thisVersion().Version; version != "" || isRelease(v) {
		return v
	}
	return "devel"
}

// isRelease reports whether a version is three numbers. What Go makes of a commit is older than any release.
func isRelease(v string) bool {
	return !strings.ContainsFunc(v, func(r rune) bool { return r != '.' && (r < '0' || r > '9') }) && strings.Count(v, ".") == 2
}

// maxProject bounds rye.yaml.
const maxProject = 4 << 20

// file reads the project's rye.yaml.
func (p project) file(running string) (*ryeyaml.Project, error) {
	path := filepath.Join(p.root, markerFile)
	broken := func(err error, message, look string) error {
		return &fault.Error{Code: fault.Config, Err: err, Text: message, Hint: []string{look + " " + fault.Quote(path)}, Details: map[string]any{"path": path}}
	}
	if leadsOut(path) {
		return nil, broken(nil, fmt.Sprintf("%q is a symbolic link that leads out of the project", path), "ls -l")
	}
	b, err := readSmall(path, maxProject)
	if err != nil {
		return nil, err
	}
	file, err := ryeyaml.Parse(b, running)
	if newer, ok := errors.AsType[*ryeyaml.NewerError](err); ok {
		return nil, &fault.Error{Code: fault.VersionMismatch, Err: err, Text: fmt.Sprintf("%q asks for rye %s or newer, and this is %s", path, newer.Want, newer.Have),
			Hint: []string{"rye version"}, Details: map[string]any{"path": path, "expected": newer.Want, "found": newer.Have}}
	}
	if err != nil {
		f := broken(err, fmt.Sprintf("%q: %s", path, strings.TrimPrefix(err.Error(), markerFile+": ")), "git diff")
		if at, ok := errors.AsType[*yamltree.Error](err); ok {
			f := f.(*fault.Error)
			f.Details["line"], f.Details["column"] = at.Line, at.Column
		}
		return nil, f
	}
	return file, nil
}

// findProject returns the project of this command, whatever its rye.yaml says.
func (a *app) findProject() (project, error) {
	base := a.userBase()
	if base.err != nil {
		base.value = "" // no home: no user space either
	}
	search := projectSearch{userBase: base.value, foreign: ownedByOther}
	if dir := a.globals.Project; dir != "" {
		s := a.absolute(setting{value: dir, origin: "--project"})
		if s.err != nil {
			return project{}, s.err
		}
		return search.named(s.value)
	}
	wd := a.absolute(setting{})
	if wd.err != nil {
		return project{}, wd.err
	}
	p, err := search.find(wd.value)
	if errors.Is(err, errNoProject) {
		return project{}, &fault.Error{Code: fault.NotFound, Err: err,
			Text: fmt.Sprintf("there is no project at %q or above it", wd.value),
			Why:  []string{"a project is a directory with rye.yaml, or with .ai"},
			Hint: []string{"cd DIR", "rye -C DIR COMMAND"},
		}
	}
	return p, err
}

// projectSearch holds the rules of which directory is the project: the nearest ancestor with rye.yaml, else
// the nearest with .ai; never the user base, whose .ai is the user space; none above the directory that
// holds .git; none that another user could have put there, such as /tmp/rye.yaml.
type projectSearch struct {
	userBase string
	foreign  func(fs.FileInfo) bool // belongs to neither this user nor root
}

// named returns the project that -C names: that very directory, whoever owns it.
func (s projectSearch) named(dir string) (project, error) {
	ok, err := isDir(dir)
	if errors.Is(err, notDirectory) {
		err = &fault.Error{Code: fault.Files, Err: err, Exit: fault.ExitMissing, Text: fmt.Sprintf("%q is no directory", dir),
			Why: []string{"-C takes the directory of a project"}, Details: map[string]any{"path": dir}}
	}
	if err == nil && !ok {
		err = &fault.Error{Code: fault.Files, Err: fs.ErrNotExist, Exit: fault.ExitMissing, Text: fmt.Sprintf("there is no directory %q", dir), Details: map[string]any{"path": dir}}
	}
	if err != nil {
		return project{}, err
	}
	if s.isUserBase(dir) {
		return project{}, &fault.Error{Code: fault.Config, Text: fmt.Sprintf("%q holds the user space and can't be a project", dir)}
	}
	p := project{root: dir, named: true}
	for _, marker := range []string{markerFile, markerDir} {
		if fi, err := markerAt(dir, marker); err != nil {
			return project{}, err
		} else if fi != nil {
			p.marker = marker
			break
		}
	}
	return p, nil
}

// find searches from dir upwards.
func (s projectSearch) find(dir string) (project, error) {
	// The directories as they lie on disk, not as links led here.
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return project{}, err
	}
	dirs, err := s.candidates(dir)
	if err != nil {
		return project{}, err
	}
	for _, marker := range []string{markerFile, markerDir} {
		for _, d := range dirs {
			switch fi, err := markerAt(d, marker); {
			case err != nil:
				return project{}, err
			case fi != nil:
				return s.own(project{root: d, marker: marker}, fi)
			}
		}
	}
	return project{}, errNoProject
}

// candidates returns dir and those of its parents that may be the project.
func (s projectSearch) candidates(dir string) ([]string, error) {
	var dirs []string
	for {
		if !s.isUserBase(dir) {
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
func (s projectSearch) isUserBase(dir string) bool {
	if s.userBase == "" {
		return false
	}
	if dir == s.userBase {
		return true
	}
	a, err := os.Stat(dir)
	if err != nil {
		return false
	}
	b, err := os.Stat(s.userBase)
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
	if isDir != (marker == markerDir) {
		return nil, nil
	}
	return fi, nil
}

// own returns p if it is this user's or root's. The marker counts too: in a directory that everybody may
// write to, root owns the directory and anybody the file.
func (s projectSearch) own(p project, marker fs.FileInfo) (project, error) {
	root, err := os.Lstat(p.root)
	if err != nil {
		return project{}, err
	}
	if !s.foreign(root) && !s.foreign(marker) {
		return p, nil
	}
	path := p.root
	if !s.foreign(root) {
		path = filepath.Join(p.root, p.marker)
	}
	return project{}, &fault.Error{Code: fault.Denied,
		Text:    fmt.Sprintf("%q belongs to another user", path),
		Why:     []string{"whoever owns a project decides what is run in it"},
		Hint:    []string{"rye -C " + fault.Quote(p.root) + " COMMAND"},
		Details: map[string]any{"path": path},
	}
}

// dotAI is the project's space.
func (p project) dotAI() string { return filepath.Join(p.root, markerDir) }
