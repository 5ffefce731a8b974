package items

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/edit"
	"github.com/rye-build/rye/ai/tree"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/cmd/rye/spaces"
	"github.com/rye-build/rye/lock/workspace"
	"github.com/rye-build/rye/manifest/policy"
)

type loadRun struct {
	Ref    string `arg:"" complete:"ref|path" help:"Ref, or file below .ai."`
	To     string `required:"" enum:"project,user" placeholder:"SPACE" help:"Space: ${enum}."`
	DryRun bool   `help:"Show what would be written; write nothing."`
}

type loadAnswer struct {
	Ref    string   `json:"ref"`
	From   string   `json:"from"` // the space
	To     string   `json:"to"`
	File   string   `json:"file"`
	Files  []string `json:"files"` // written, or would be; empty if all exist already
	Raw    string   `json:"raw"`
	DryRun bool     `json:"dry_run"`
}

func (l loadAnswer) Text(t *cli.Terminal) {
	if len(l.Files) == 0 {
		return
	}
	verb := cli.DryVerb(l.DryRun, "wrote", "would write")
	t.Printf("%s %s  %s of %s", verb, l.File, l.Ref, l.From)
	if more := len(l.Files) - 1; more > 0 {
		t.Printf(", and %s of its tree", fault.Count(int64(more), "file"))
	}
	t.Printf("\n")
}

func (c *loadRun) Run(ctx context.Context, app *cli.App) (cli.Answer, error) {
	view, err := spaces.OpenItems(ctx, app)
	if err != nil {
		return nil, err
	}
	defer view.Close()
	it, err := view.FindNamed(ctx, c.Ref)
	if err != nil {
		return nil, err
	}
	to, done, err := target(view, c.To)
	if err != nil {
		return nil, err
	}
	defer done()
	if it.Space.Label == to.Label {
		return nil, fault.New(fault.Validation, "%q is already in the space %q", it.Ref, to.Label).
			Because(view.Name(it.Space, it.Path)).On("ref", it.Ref.String()).On("space", to.Label)
	}
	// Check the signatures first: the copy may get into a space that is trusted more.
	found, err := view.Admit.Admit(ctx, it, policy.ToShow)
	if err != nil {
		return nil, notToLoad(view, it, err)
	}
	if !found.Decision.Allowed {
		if view.Trust == nil {
			_, err := paths.OpenTrust(app)
			return nil, err
		}
		return nil, ai.NotAdmitted(it.Ref, view.Name(it.Space, it.Path), found.Decision)
	}
	if err := view.CheckProtected(it.Ref); err != nil {
		return nil, err
	}
	ans, err := c.copy(ctx, view, it, found.Tree, to)
	if err != nil {
		return nil, err
	}
	switch {
	case len(ans.Files) == 0:
		app.Term.Note("%q already exists with the same bytes", ans.File)
	case !c.DryRun:
		if err := stillGood(ctx, view, it, c.To); err != nil {
			return ans, err
		}
	}
	if to.Level == ai.User && view.Root.Marker == workspace.MarkerFile {
		app.Term.Note("a project with %s doesn't use the user space", workspace.MarkerFile)
	}
	return ans, nil
}

// notToLoad adds the file and hints to the error of an item that differs from what was signed.
func notToLoad(v *spaces.Items, it *ai.Item, err error) error {
	f := fault.Of(err)
	if f.Code != fault.Integrity && f.Code != fault.SignatureInvalid {
		return err
	}
	f.Text = fmt.Sprintf("%q: %s", v.Name(it.Space, it.Path), f.Text)
	ref := fault.Quote(it.Ref.String())
	f.Hint = append(f.Hint, "rye verify "+ref, "rye show --source "+ref)
	if it.Space.Dir != "" {
		f.Hint = append(f.Hint, "rye sign "+ref)
	}
	return f
}

// stillGood warns if the copy may not be used although the item may: items of the library have no signatures, and
// files next to the copy may become part of its tree.
func stillGood(ctx context.Context, view *spaces.Items, it *ai.Item, to string) error {
	space, done, err := target(view, to)
	if err != nil {
		return err
	}
	defer done()
	e, err := view.Admit.Admit(ctx, edit.Draft(ai.File{Ref: it.Ref, Kind: it.Kind, Space: space, Path: it.Path},
		it.Bytes),
		policy.ToShow)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		view.App.Term.Warn("the copy may not be used: %s", fault.Of(err).Text)
	case !e.Decision.Allowed:
		view.App.Term.Warn("the copy may not be used as it is: %q %s: rye sign %s", it.Ref, e.Decision.Reason(),
			fault.Quote(view.Name(space, it.Path)))
	}
	return nil
}

// target opens the space to write to; a missing one is empty. The caller calls the returned function at the end.
func target(view *spaces.Items, name string) (*ai.Space, func() error, error) {
	none := func() error { return nil }
	level, open := ai.Project, view.Project
	var dir string
	if name == ai.Project.String() {
		p, err := paths.Paths(view.App).OpenProject()
		if err != nil {
			return nil, none, orInit(view.App, err)
		}
		dir = p.DotAI()
	} else {
		s := cli.UserSpace(view.App.UserBase())
		if s.Err != nil {
			return nil, none, s.Err
		}
		level, open, dir = ai.User, view.User, s.Value
	}
	if open != nil {
		return open, none, nil
	}
	s, err := ai.OpenDir(dir, level.String(), level)
	if errors.Is(err, fs.ErrNotExist) {
		return &ai.Space{Label: level.String(), Level: level, Dir: dir, FS: noFiles{}}, none, nil
	}
	if err != nil {
		return nil, none, err
	}
	return s, s.Close, nil
}

// noFiles is an empty file system.
type noFiles struct{}

// Open implements fs.FS.
func (noFiles) Open(name string) (fs.File, error) {
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
}

// copy writes an item and the other files of its tree to a space.
func (c *loadRun) copy(ctx context.Context, view *spaces.Items, it *ai.Item, t *tree.Tree, to *ai.Space) (loadAnswer,
	error) {
	ans := loadAnswer{Ref: it.Ref.String(), From: it.Space.Label, To: to.Label, File: view.Name(to, it.Path),
		Files: []string{},
		Raw:   it.Raw.String(), DryRun: c.DryRun}
	plan, err := view.PlanCopy(ctx, it, t, to, func(p string) string { return rmIn(view, to, p) })
	if err != nil {
		return ans, err
	}
	for _, p := range plan.Files() {
		ans.Files = append(ans.Files, view.Name(to, p))
	}
	slices.Sort(ans.Files)
	if c.DryRun || len(ans.Files) == 0 {
		return ans, nil
	}
	if err := view.Copy(ctx, plan); err != nil {
		return ans, err
	}
	view.WarnTrees(ctx, to, it.Path, it.Ref)
	return ans, nil
}

// rmIn returns the command that removes a file of a space. It leaves the project for a file of the user space, which
// rye.yaml hides.
func rmIn(v *spaces.Items, s *ai.Space, p string) string {
	if s.Level == ai.User && v.User == nil && v.Root.Root != "" {
		return "rye -C / rm " + fault.Quote(filepath.Join(s.Dir, filepath.FromSlash(p)))
	}
	return "rye rm " + fault.Quote(v.Name(s, p))
}
