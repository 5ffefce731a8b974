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
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/exec"
	"github.com/rye-build/rye/exec/session"
	"github.com/rye-build/rye/lock/items"
	"github.com/rye-build/rye/lock/workspace"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/sign"
	"github.com/rye-build/rye/manifest/trust"
)

// A Stage is a private project in which items are made and a server is asked, so that nothing is written to the real one
// before all of it is known to be good. Calls are about the real project, under its policy too.
type Stage struct {
	*session.Session
	Items *items.Items

	dir     string
	project string
	w       *workspace.Workspace
}

// NewStage makes a stage for the project of the paths; project is its root, "" outside of projects. The caller closes it.
func NewStage(ctx context.Context, paths workspace.Paths, o workspace.Options, so session.Options, project string) (_ *Stage, err error) {
	if paths.Cache.Err != nil {
		return nil, paths.Cache.Err
	}
	if err := os.MkdirAll(paths.Cache.Path, 0o700); err != nil {
		return nil, err
	}
	s := &Stage{project: project}
	if s.dir, err = os.MkdirTemp(paths.Cache.Path, "stage-*"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	s.dir = osfile.Unlinked(s.dir)
	ai := filepath.Join(s.dir, workspace.MarkerDir)
	if err := errors.Join(os.Mkdir(ai, 0o700), os.WriteFile(filepath.Join(s.dir, workspace.MarkerFile), nil, 0o600)); err != nil {
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
	paths.Dir, paths.NoDir, paths.Named, paths.Package = s.dir, nil, true, false
	if s.w, err = workspace.Open(ctx, paths, o); err != nil {
		return nil, err
	}
	if s.Items, err = items.Open(ctx, s.w, nil); err != nil {
		return nil, err
	}
	// The items of a stage are the ones that a person is looking at, and no lock can pin them yet.
	so.Mode, so.CI = session.Mode{Unlocked: true}, false
	if s.Session, err = session.Open(ctx, s.w, so); err != nil {
		return nil, err
	}
	return s, nil
}

// Close removes the stage.
func (s *Stage) Close() error {
	var err error
	if s.Session != nil {
		err = s.Session.Close()
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

// Draft returns an item of the stage with these bytes, without signature.
func (s *Stage) Draft(ref model.Ref, b []byte) (*ai.Item, error) {
	k, err := s.Items.CheckKind(ref.Kind)
	if err != nil {
		return nil, err
	}
	file, err := s.Items.PathFor(ref, ".yaml")
	if err != nil {
		return nil, err
	}
	return edit.Draft(ai.File{Ref: ref, Kind: k, Space: s.Items.Project, Path: file}, b), nil
}

// Write signs a draft and writes it to the stage.
func (s *Stage) Write(ctx context.Context, it *ai.Item, k Key) error {
	if err := s.Items.CheckSignable(ctx, it); err != nil {
		return err
	}
	return s.Items.Write(ctx, it, func(ctx context.Context, it *ai.Item) ([]byte, error) {
		about, err := s.Items.Subject(ctx, it)
		if err != nil {
			return nil, err
		}
		var known sign.Keys
		if s.Items.Trust != nil {
			known = s.Items.Trust.Exam().Find
		}
		return sign.Sign(it.Bytes, about.Signing(), about.Claim(), k.Private, k.Now().UTC().Truncate(time.Second), known)
	}, edit.Mode(false))
}

// Copy writes an item of another space to the stage as it is, with its signatures.
func (s *Stage) Copy(ctx context.Context, it *ai.Item) error {
	copied, err := s.Draft(it.Ref, it.Bytes)
	if err != nil {
		return err
	}
	return s.Items.Write(ctx, copied, nil, edit.Mode(false))
}

// Prepare decides about a call of a staged item; a dry one starts nothing.
func (s *Stage) Prepare(ctx context.Context, ref model.Ref, dry bool) (*exec.Plan, error) {
	return s.Session.Prepare(ctx, &exec.Call{Ref: ref, Dry: dry, Project: osfile.Unlinked(s.project)})
}

// A Preparer decides about a call of a server's item: a Stage, or a session of the project.
type Preparer interface {
	Prepare(ctx context.Context, ref model.Ref, dry bool) (*exec.Plan, error)
}
