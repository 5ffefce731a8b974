package catalog

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/edit"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/exec"
	"github.com/rye-build/rye/exec/session"
	"github.com/rye-build/rye/lock/items"
	"github.com/rye-build/rye/lock/packages"
	"github.com/rye-build/rye/lock/project"
	"github.com/rye-build/rye/lock/update"
	"github.com/rye-build/rye/lock/workspace"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/sign"
	"github.com/rye-build/rye/manifest/trust"
)

// A Stage is a private project in which items are made and a server is asked, so that nothing is written to the real
// one before all of it is known to be good. Calls are about the real project, under its policy too.
type Stage struct {
	Items *items.Items

	dir      string
	project  string
	w        *workspace.Workspace
	o        session.Options
	packages bool             // an item has some: they must be locked
	session  *session.Session // opened when it is needed, after all items are there
}

// NewStage makes a stage for the project of the paths; project is its root, "" outside of projects. The caller closes
// it.
func NewStage(ctx context.Context, paths workspace.Paths, options workspace.Options, sessions session.Options,
	project string) (_ *Stage, err error) {
	if paths.Cache.Err != nil {
		return nil, paths.Cache.Err
	}
	if err := os.MkdirAll(paths.Cache.Path, 0o700); err != nil {
		return nil, err
	}
	sweep(paths.Cache.Path, time.Now())
	stage := &Stage{o: sessions}
	if project != "" {
		stage.project = osfile.Unlinked(project)
	}
	if stage.dir, err = os.MkdirTemp(paths.Cache.Path, stages); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			stage.Close()
		}
	}()
	stage.dir = osfile.Unlinked(stage.dir)
	ai := filepath.Join(stage.dir, workspace.MarkerDir)
	yaml, err := stage.yaml(paths.Version)
	if err == nil {
		err = errors.Join(os.Mkdir(ai, 0o700),
			os.WriteFile(filepath.Join(stage.dir, workspace.MarkerFile), yaml, 0o600))
	}
	if err != nil {
		return nil, err
	}
	if project != "" { // the policy of the real project narrows what its servers may do
		b, err := os.ReadFile(filepath.Join(project, workspace.MarkerDir, trust.File))
		if err == nil {
			err = os.WriteFile(filepath.Join(ai, trust.File), b, 0o600)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	paths.Dir, paths.NoDir, paths.Named, paths.Package = stage.dir, nil, true, false
	if stage.w, err = workspace.Open(ctx, paths, options); err != nil {
		return nil, err
	}
	if stage.Items, err = items.Open(ctx, stage.w, nil); err != nil {
		return nil, err
	}
	return stage, nil
}

// stages are the directories of stages in the cache, and maxStage is how old one is that a killed process has left.
const (
	stages   = "stage-*"
	maxStage = 24 * time.Hour
)

// sweep removes what killed processes have left.
func sweep(cache string, now time.Time) {
	left, _ := filepath.Glob(filepath.Join(cache, stages)) // the pattern is good
	for _, dir := range left {
		if info, err := os.Lstat(dir); err == nil && info.IsDir() && now.Sub(info.ModTime()) > maxStage {
			_ = os.RemoveAll(dir)
		}
	}
}

// yaml is the stage's rye.yaml: the registries are those of the real project.
func (s *Stage) yaml(version string) ([]byte, error) {
	if s.project == "" {
		return nil, nil
	}
	if _, err := os.Lstat(filepath.Join(s.project, workspace.MarkerFile)); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	file, err := workspace.Project{Root: s.project, Marker: workspace.MarkerFile}.File(version)
	if err != nil {
		return nil, err
	}
	registries := map[string]any{}
	of := map[string]project.Source{packages.NPM: file.Packages.NPM, packages.PyPI: file.Packages.PyPI}
	for name, at := range of {
		where := at.Where
		if where == "" {
			continue
		}
		if !at.Remote() {
			if where, err = filepath.Rel(s.dir, filepath.Join(s.project, filepath.FromSlash(where))); err != nil {
				return nil, err
			}
			where = filepath.ToSlash(where)
		}
		registries[name] = where
	}
	if len(registries) == 0 {
		return nil, nil
	}
	return appendField(nil, "packages", registries), nil
}

// Registry is the registry of an ecosystem in the project; "" for the public one. Neither npm nor pip can ask a
// directory.
func (s *Stage) Registry(ecosystem string) (string, error) {
	file, err := s.w.Root.File(s.w.Version)
	if err != nil {
		return "", err
	}
	at := file.Packages.NPM
	if ecosystem == packages.PyPI {
		at = file.Packages.PyPI
	}
	if at.Where == "" || at.Remote() {
		return at.Where, nil
	}
	if ecosystem == packages.PyPI {
		return "", fault.New(fault.Validation, "rye.yaml has a directory as pypi registry, which pip can't ask").
			Because("an address can be asked").Try("rye docs packages")
	}
	return "", fault.New(fault.Validation, "rye.yaml has a directory as npm registry, which npm can't ask").
		Try("rye help mcp add").Because("make the list elsewhere, and give it with --package-lock")
}

// open opens the session of the stage. Its items are the ones that a person is looking at, and no lock has them yet;
// packages need a lock, which is made here.
func (s *Stage) open(ctx context.Context) (err error) {
	if s.session != nil {
		return nil
	}
	s.o.Mode, s.o.CI = session.Mode{Unlocked: true}, false
	if s.packages {
		l, err := s.w.OpenLock(false)
		if err != nil {
			return err
		}
		if err = l.Open(); err == nil {
			_, err = update.Make(ctx, l, update.Options{Toolchain: session.Toolchain(l, s.o.Host)})
		}
		l.Close()
		if err != nil {
			return err
		}
		s.o.Mode = session.Mode{}
	}
	s.session, err = session.Open(ctx, s.w, s.o)
	return err
}

// Close removes the stage.
func (s *Stage) Close() error {
	var err error
	if s.session != nil {
		err = s.session.Close()
	}
	if s.Items != nil {
		s.Items.Close()
	}
	if s.w != nil {
		s.w.Close()
	}
	return errors.Join(err, os.RemoveAll(s.dir))
}

// A Key signs items.
type Key struct {
	Private key.Private
	Now     func() time.Time
}

// Draft returns an item of the stage with these bytes; ext is the extension of its file.
func (s *Stage) Draft(ref model.Ref, ext string, b []byte) (*ai.Item, error) {
	k, err := s.Items.CheckKind(ref.Kind)
	if err != nil {
		return nil, err
	}
	file, err := s.Items.PathFor(ref, ext)
	if err != nil {
		return nil, err
	}
	return edit.Draft(ai.File{Ref: ref, Kind: k, Space: s.Items.Project, Path: file}, b), nil
}

// Write signs a draft and writes it to the stage.
func (s *Stage) Write(ctx context.Context, it *ai.Item, key Key) error {
	s.packages = s.packages || it.Model.Tool != nil && it.Model.Tool.Packages != ""
	if err := s.Items.CheckSignable(ctx, it); err != nil {
		return err
	}
	about, err := s.Items.Subject(ctx, it)
	if err != nil {
		return err
	}
	var known sign.Keys
	if s.Items.Trust != nil {
		known = s.Items.Trust.Exam().Find
	}
	b, err := sign.Sign(it.Bytes, about.Signing(), about.Claim(), key.Private, key.Now().UTC().Truncate(time.Second),
		known)
	if err != nil {
		return err
	}
	*it = *edit.Draft(it.File, b)
	if _, err := os.Lstat(s.at(it.Path)); err == nil {
		return fault.New(fault.Validation, "%q exists already", it.Path).On("reason", "exists").
			On("ref", it.Ref.String()).On("file", it.Path)
	}
	return s.Put(it.Path, it.Bytes, edit.Mode(false)) // not durable: a stage ends with its process
}

// Put writes a file next to the items, before the item whose signature covers it.
func (s *Stage) Put(name string, b []byte, perm fs.FileMode) error {
	at := s.at(name)
	return errors.Join(os.MkdirAll(filepath.Dir(at), 0o700), os.WriteFile(at, b, perm))
}

func (s *Stage) at(name string) string {
	return filepath.Join(s.dir, workspace.MarkerDir, filepath.FromSlash(name))
}

// Copy copies an item of another space to the stage as it is, with its signatures and the files that they cover.
func (s *Stage) Copy(ctx context.Context, editor *edit.Editor, it *ai.Item) error {
	t, err := editor.Admit.Tree(ctx, it)
	if err != nil {
		return err
	}
	c, err := editor.PlanCopy(ctx, it, t, s.Items.Project, func(string) string { return "" })
	if err != nil {
		return err
	}
	s.packages = s.packages || it.Model.Tool != nil && it.Model.Tool.Packages != ""
	return editor.Copy(ctx, c)
}

// Prepare decides about a call of a staged item, for the real project; a dry one starts nothing.
func (s *Stage) Prepare(ctx context.Context, ref model.Ref, dry bool) (*exec.Plan, error) {
	return s.PrepareIn(ctx, ref, s.project, dry)
}

// PrepareIn decides about a call for another directory than the project.
func (s *Stage) PrepareIn(ctx context.Context, ref model.Ref, dir string, dry bool) (*exec.Plan, error) {
	if err := s.open(ctx); err != nil {
		return nil, err
	}
	return s.session.Prepare(ctx, &exec.Call{Ref: ref, Dry: dry, Project: dir})
}

// A Preparer decides about a call of a server's item: a Stage, or a session of the project.
type Preparer interface {
	Prepare(ctx context.Context, ref model.Ref, dry bool) (*exec.Plan, error)
}
