package exchange

import (
	"context"
	"fmt"
	"os"
	"path"
	"strings"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/bundle/skill"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/cmd/rye/spaces"
	"github.com/rye-build/rye/lock/adopt"
)

// A Writer writes a plan to the project, and asks before it replaces files that differ. The caller must call Close.
type Writer struct {
	*adopt.Plan
	view  *spaces.Items
	space *ai.Space
	dry   bool
}

// OpenWriter opens the project for writing. Unless dry, the caller has the project alone.
func OpenWriter(ctx context.Context, app *cli.App, dry bool) (*Writer, error) {
	root, err := paths.Paths(app).OpenProject()
	if err != nil {
		return nil, err
	}
	view, err := spaces.OpenItems(ctx, app)
	if err != nil {
		return nil, err
	}
	space := view.Project
	if space == nil {
		space = &ai.Space{Label: ai.Project.String(), Level: ai.Project, Dir: root.DotAI(),
			FS: os.DirFS(root.DotAI())}
	}
	return &Writer{adopt.New(view.Items, space, view.CheckDraft), view, space, dry}, nil
}

// openAlone is OpenWriter that also has the project alone until done, unless dry.
func openAlone(ctx context.Context, app *cli.App, dry bool) (w *Writer, done func(), err error) {
	unlock := func() {}
	if !dry {
		if _, err := paths.Paths(app).OpenProject(); err != nil {
			return nil, nil, err
		}
		if unlock, err = paths.Alone(ctx, app, false); err != nil {
			return nil, nil, err
		}
	}
	if w, err = OpenWriter(ctx, app, dry); err != nil {
		unlock()
		return nil, nil, err
	}
	return w, func() { w.Close(); unlock() }, nil
}

// Close closes the project.
func (w *Writer) Close() { w.view.Close() }

// Skills plans the items of skills.
func (w *Writer) Skills(ctx context.Context, category string, all []*skill.Skill,
	origin skill.Origin) ([]adopt.Skill, error) {
	planned := []adopt.Skill{}
	for _, s := range all {
		made, err := w.Skill(ctx, category, s, origin)
		if err != nil {
			return nil, err
		}
		for _, warning := range s.Warnings {
			w.view.App.Term.Warn("%s: %s", path.Join(s.Path, skill.Main), warning)
		}
		planned = append(planned, made)
	}
	return planned, nil
}

// Confirm prints the files that would be replaced or removed, and asks. It asks nothing in a dry run or without such
// files.
func (w *Writer) Confirm(ctx context.Context) error {
	app := w.view.App
	var names []string
	for _, group := range w.Groups {
		if len(group.Differs) == 0 {
			continue
		}
		if names = append(names, group.Name); group.From != "" {
			app.Term.Note("%s, which was imported from %q, differs:", group.Name, group.From)
		} else {
			app.Term.Note("%s differs:", group.Name)
		}
		for i, line := range group.Differs {
			if i == fault.MaxLines {
				app.Term.Note("    and %d more", len(group.Differs)-i)
				break
			}
			app.Term.Note("    %s", line)
		}
	}
	if len(names) == 0 || w.dry {
		return nil
	}
	return app.Confirm(ctx, fmt.Sprintf("replace %s?", strings.Join(names, ", ")))
}

// Write writes the plan, and warns of items whose signatures are no longer valid.
func (w *Writer) Write(ctx context.Context) (undo func() error, err error) {
	if undo, err = w.Plan.Write(ctx); err != nil {
		return nil, err
	}
	for _, it := range w.Items() {
		w.view.WarnTrees(ctx, w.space, it.Path, it.Ref)
	}
	return undo, nil
}
