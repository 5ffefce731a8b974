package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/tree"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/portable"
	"github.com/rye-build/rye/manifest/policy"
)

func loadCommand() command {
	return command{
		path: "load", group: "items", help: "Copy an item to another space, with its signatures.",
		more: "Not a byte changes, and the id stays: a signature is about both, and not about the place. A tool comes with the files of its " +
			"tree. What policy doesn't let be shown is not copied, and what is there with other bytes stays as it is. To change the id, rye mv " +
			"afterwards.\n\nExamples:\n\n    rye load tool:acme/fetch --to project\n    rye load directive:acme/review --to user",
		aka: []string{"copy", "cp"},
		new: func() runner { return new(loadRun) }, schema: "load/1", output: loadAnswer{},
	}
}

type loadRun struct {
	Ref    string `arg:"" complete:"ref" help:"A ref, or a file below .ai."`
	To     string `required:"" enum:"project,user" placeholder:"SPACE" help:"The space: ${enum}."`
	DryRun bool   `help:"Say what would be written, and write nothing."`
}

type loadAnswer struct {
	Ref    string   `json:"ref"`
	From   string   `json:"from"` // the space
	To     string   `json:"to"`
	File   string   `json:"file"`
	Files  []string `json:"files"` // written, or would be; empty if all was there
	Raw    string   `json:"raw"`
	DryRun bool     `json:"dry_run"`
}

func (l loadAnswer) text(t *terminal) {
	if len(l.Files) == 0 {
		return
	}
	verb := "wrote"
	if l.DryRun {
		verb = "would write"
	}
	t.printf("%s %s  %s of %s", verb, l.File, l.Ref, l.From)
	if more := len(l.Files) - 1; more > 0 {
		t.printf(", and %s of its tree", fault.Count(int64(more), "file"))
	}
	t.printf("\n")
}

func (c *loadRun) run(ctx context.Context, a *app) (answer, error) {
	v, err := a.items(ctx)
	if err != nil {
		return nil, err
	}
	defer v.close()
	it, err := v.find(ctx, c.Ref)
	if err != nil {
		return nil, err
	}
	to, done, err := v.target(c.To)
	if err != nil {
		return nil, err
	}
	defer done()
	if it.Space.Label == to.Label {
		return nil, &fault.Error{Code: fault.Validation, Text: fmt.Sprintf("%q is in the space %q already", it.Ref, to.Label),
			Why: []string{v.place(it.Space, it.Path)}, Details: map[string]any{"ref": it.Ref.String(), "space": to.Label}}
	}
	// Who vouches for it is asked before it gets where more is trusted.
	found, err := v.admit.Admit(ctx, it, policy.ToShow)
	if err != nil {
		return nil, v.notToLoad(it, err)
	}
	if !found.Decision.Allowed {
		if v.trust == nil {
			_, err := a.trust()
			return nil, err
		}
		return nil, &ai.NotAdmittedError{Ref: it.Ref, Place: v.place(it.Space, it.Path), Decision: found.Decision}
	}
	if err := v.checkProtected(it.Ref); err != nil {
		return nil, err
	}
	ans, err := v.copy(ctx, it, found.Tree, to, c.DryRun)
	if err != nil {
		return nil, err
	}
	switch {
	case len(ans.Files) == 0:
		a.term.note("%q is there already, with the same bytes", ans.File)
	case !c.DryRun:
		if err := v.stillGood(ctx, it, c.To); err != nil {
			return ans, err
		}
	}
	if to.Level == ai.User && v.root.marker == markerFile {
		a.term.note("in a project with %s the user space doesn't count", markerFile)
	}
	return ans, nil
}

// notToLoad names the file of an item that isn't as it was signed, and what to do about it.
func (v *items) notToLoad(it *ai.Item, err error) error {
	f := classify(err)
	if f.Code != fault.Integrity && f.Code != fault.SignatureInvalid {
		return err
	}
	f.Text = fmt.Sprintf("%q: %s", v.place(it.Space, it.Path), f.Text)
	ref := fault.Quote(it.Ref.String())
	f.Hint = append(f.Hint, "rye verify "+ref, "rye show --source "+ref)
	if it.Space.Dir != "" {
		f.Hint = append(f.Hint, "rye sign "+ref)
	}
	return f
}

// stillGood says what the copy is worth, if that is less than what the item is: the library's have no signatures, and
// what is beside the copy may get into its tree.
func (v *items) stillGood(ctx context.Context, it *ai.Item, to string) error {
	s, done, err := v.target(to)
	if err != nil {
		return err
	}
	defer done()
	e, err := v.admit.Admit(ctx, draft(it.Kind, it.Ref, s, it.Path, it.Bytes), policy.ToShow)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		v.app.term.warn("the copy may not be used: %s", classify(err).Text)
	case !e.Decision.Allowed:
		v.app.term.warn("the copy may not be used as it is: %q %s: rye sign %s", it.Ref, e.Decision.Reason(), fault.Quote(v.place(s, it.Path)))
	}
	return nil
}

// target opens the space to write to. One that isn't there yet has no files.
func (v *items) target(name string) (*ai.Space, func() error, error) {
	none := func() error { return nil }
	level, open := ai.Project, v.project
	var dir string
	if name == ai.Project.String() {
		p, err := v.app.project()
		if err == nil && p.marker == "" {
			err = &fault.Error{Code: fault.NotFound, Err: errNoProject, Text: fmt.Sprintf("%q is no project", p.root)}
		}
		if err != nil {
			return nil, none, orInit(err)
		}
		dir = p.dotAI()
	} else {
		s := userSpace(v.app.userBase())
		if s.err != nil {
			return nil, none, s.err
		}
		level, open, dir = ai.User, v.user, s.value
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

// noFiles is a file system without any.
type noFiles struct{}

// Open implements fs.FS.
func (noFiles) Open(name string) (fs.File, error) {
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
}

// A piece is one file that is copied.
type piece struct {
	path string // in either space
	raw  func() ([]byte, error)
	mode fs.FileMode
}

// copy writes an item and its tree into a space: the item last, so that it is never there without a part of itself.
func (v *items) copy(ctx context.Context, it *ai.Item, t *tree.Tree, to *ai.Space, dryRun bool) (loadAnswer, error) {
	ans := loadAnswer{Ref: it.Ref.String(), From: it.Space.Label, To: to.Label, File: v.place(to, it.Path), Files: []string{},
		Raw: it.Raw.String(), DryRun: dryRun}
	if err := v.checkRoom(ctx, it, to); err != nil {
		return ans, err
	}
	pieces, err := v.pieces(ctx, it, t)
	if err != nil {
		return ans, err
	}
	missing, err := v.missing(pieces, to)
	if err != nil {
		return ans, err
	}
	if err := v.checkTree(it, pieces, to); err != nil {
		return ans, err
	}
	for _, p := range missing {
		ans.Files = append(ans.Files, v.place(to, p.path))
	}
	slices.Sort(ans.Files)
	if dryRun || len(missing) == 0 {
		return ans, nil
	}
	d, err := openAI(to.Dir, to.Level)
	if err != nil {
		return ans, err
	}
	defer d.close()
	sweep(d.where(path.Dir(it.Path)), v.app.now())
	for _, p := range missing {
		if err := ctx.Err(); err != nil {
			return ans, err
		}
		b, err := p.raw()
		if err == nil {
			err = d.write(p.path, p.mode, true, b)
		}
		if err != nil {
			return ans, err
		}
	}
	v.warnTrees(ctx, to, it.Path, it.Ref)
	return ans, nil
}

// checkRoom refuses a space that has the id in another file, or in other letters.
func (v *items) checkRoom(ctx context.Context, it *ai.Item, to *ai.Space) error {
	dir := path.Dir(it.Path)
	if err := v.checkFolders(to, dir); err != nil {
		return err
	}
	entries, err := fs.ReadDir(to.FS, dir)
	if err != nil {
		return nil // there is nothing, or what writes there says why it can't
	}
	for _, e := range entries {
		p := path.Join(dir, e.Name())
		ref, err := it.Kind.RefOf(p)
		if err != nil || p == it.Path || portable.Fold(ref.ID) != portable.Fold(it.ID) {
			continue
		}
		f := ai.File{Ref: ref, Kind: it.Kind, Space: to, Path: p}
		if _, err := v.Load(ctx, f); err == nil {
			return &fault.Error{Code: fault.Validation, Err: fs.ErrExist, Text: fmt.Sprintf("there is a %q already, in another file", ref),
				Why: []string{v.place(to, p)}, Hint: []string{v.rmIn(to, p)},
				Details: map[string]any{"reason": "exists", "ref": ref.String(), "file": v.place(to, p)}}
		}
	}
	return nil
}

// rmIn is the command that removes a file of a space. In a project with rye.yaml the user space is out of reach.
func (v *items) rmIn(s *ai.Space, p string) string {
	if s.Level == ai.User && v.user == nil && v.root.root != "" {
		return "rye -C / rm " + fault.Quote(filepath.Join(s.Dir, filepath.FromSlash(p)))
	}
	return "rye rm " + fault.Quote(v.place(s, p))
}

// pieces are the files of an item, itself last. Their bytes are those that were hashed.
func (v *items) pieces(ctx context.Context, it *ai.Item, t *tree.Tree) ([]piece, error) {
	var all []piece
	if t != nil {
		anchor, err := v.admit.Anchor(ctx, it)
		if err != nil {
			return nil, err
		}
		for _, f := range t.Files {
			name := path.Join(anchor.Dir, f.Path)
			all = append(all, piece{name, func() ([]byte, error) { return treeFile(it.Space, name, f.Raw) }, fileMode(f.Mode.String() == "exec")})
		}
	}
	fi, err := fs.Lstat(it.Space.FS, it.Path)
	if err != nil {
		return nil, err
	}
	executable := fi.Mode().Perm()&0o100 != 0 // in the library nothing is
	return append(all, piece{it.Path, func() ([]byte, error) { return it.Bytes, nil }, fileMode(executable)}), nil
}

// missing returns the pieces that aren't in a space; one that is there with other bytes is an error.
func (v *items) missing(pieces []piece, to *ai.Space) ([]piece, error) {
	var missing []piece
	d, err := confine(to.Dir, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return pieces, nil
	}
	if err != nil {
		return nil, err
	}
	defer d.close()
	for _, p := range pieces {
		b, err := p.raw()
		if err != nil {
			return nil, err
		}
		same, err := sameBytes(d, p.path, b)
		if f, ok := errors.AsType[*fault.Error](err); ok && errors.Is(f.Err, fs.ErrExist) {
			// What can be removed is an item: the files of its tree go with it.
			own := pieces[len(pieces)-1].path
			if _, gone := fs.Lstat(to.FS, own); gone == nil {
				f.Hint = []string{v.rmIn(to, own)}
			}
		}
		if err != nil {
			return nil, err
		}
		if !same {
			missing = append(missing, p)
		}
	}
	return missing, nil
}

// checkTree refuses a place where other files would get into the item's tree: its signature would no longer hold.
func (v *items) checkTree(it *ai.Item, pieces []piece, to *ai.Space) error {
	dir := path.Dir(it.Path)
	known := map[string]bool{}
	for _, p := range pieces {
		known[p.path] = true
	}
	if len(pieces) == 1 {
		return nil // warned about where it happens
	}
	return fs.WalkDir(to.FS, dir, func(name string, e fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case !e.IsDir() && !known[name]:
			return &fault.Error{Code: fault.Validation,
				Text:    fmt.Sprintf("%q would get into the tree of %q, whose signature would no longer hold", v.place(to, name), it.Ref),
				Details: map[string]any{"reason": "tree", "ref": it.Ref.String(), "file": v.place(to, name)}}
		}
		return nil
	})
}
