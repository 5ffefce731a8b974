package items

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
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/cas/portable"
	"github.com/rye-build/rye/cmd/rye/classify"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/places"
	"github.com/rye-build/rye/cmd/rye/spaces"
	"github.com/rye-build/rye/lock/workspace"
	"github.com/rye-build/rye/manifest/policy"
)

func LoadCommand() cli.Command {
	return cli.Command{
		Path: "load", Quiet: true, Group: "items", Help: "Copy an item and its signatures to another space.",
		More: "Not a byte changes, and the id stays: a signature is about both, and not about the place. A tool comes with the files of its " +
			"tree. What policy doesn't let be shown is not copied, and what is there with other bytes stays as it is. To change the id, rye mv " +
			"afterwards.\n\nExamples:\n\n    rye load tool:acme/fetch --to project\n    rye load directive:acme/review --to user",
		Aka: []string{"copy", "cp"},
		New: func() cli.Runner { return new(loadRun) }, Schema: "load/1", Output: loadAnswer{},
	}
}

type loadRun struct {
	Ref    string `arg:"" complete:"ref" help:"Ref, or file below .ai."`
	To     string `required:"" enum:"project,user" placeholder:"SPACE" help:"Space: ${enum}."`
	DryRun bool   `help:"Show what would be written; write nothing."`
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

func (l loadAnswer) Text(t *cli.Terminal) {
	if len(l.Files) == 0 {
		return
	}
	verb := "wrote"
	if l.DryRun {
		verb = "would write"
	}
	t.Printf("%s %s  %s of %s", verb, l.File, l.Ref, l.From)
	if more := len(l.Files) - 1; more > 0 {
		t.Printf(", and %s of its tree", fault.Count(int64(more), "file"))
	}
	t.Printf("\n")
}

func (c *loadRun) Run(ctx context.Context, a *cli.App) (cli.Answer, error) {
	v, err := spaces.OpenItems(ctx, a)
	if err != nil {
		return nil, err
	}
	defer v.Close()
	it, err := v.FindNamed(ctx, c.Ref)
	if err != nil {
		return nil, err
	}
	to, done, err := target(v, c.To)
	if err != nil {
		return nil, err
	}
	defer done()
	if it.Space.Label == to.Label {
		return nil, &fault.Error{Code: fault.Validation, Text: fmt.Sprintf("%q is in the space %q already", it.Ref, to.Label),
			Why: []string{v.Place(it.Space, it.Path)}, Details: map[string]any{"ref": it.Ref.String(), "space": to.Label}}
	}
	// Who vouches for it is asked before it gets where more is trusted.
	found, err := v.Admit.Admit(ctx, it, policy.ToShow)
	if err != nil {
		return nil, notToLoad(v, it, err)
	}
	if !found.Decision.Allowed {
		if v.Trust == nil {
			_, err := places.OpenTrust(a)
			return nil, err
		}
		return nil, ai.NotAdmitted(it.Ref, v.Place(it.Space, it.Path), found.Decision)
	}
	if err := v.CheckProtected(it.Ref); err != nil {
		return nil, err
	}
	ans, err := copy(ctx, v, it, found.Tree, to, c.DryRun)
	if err != nil {
		return nil, err
	}
	switch {
	case len(ans.Files) == 0:
		a.Term.Note("%q is there already, with the same bytes", ans.File)
	case !c.DryRun:
		if err := stillGood(ctx, v, it, c.To); err != nil {
			return ans, err
		}
	}
	if to.Level == ai.User && v.Root.Marker == workspace.MarkerFile {
		a.Term.Note("in a project with %s the user space doesn't count", workspace.MarkerFile)
	}
	return ans, nil
}

// notToLoad names the file of an item that isn't as it was signed, and what to do about it.
func notToLoad(v *spaces.Items, it *ai.Item, err error) error {
	f := classify.Classify(err)
	if f.Code != fault.Integrity && f.Code != fault.SignatureInvalid {
		return err
	}
	f.Text = fmt.Sprintf("%q: %s", v.Place(it.Space, it.Path), f.Text)
	ref := fault.Quote(it.Ref.String())
	f.Hint = append(f.Hint, "rye verify "+ref, "rye show --source "+ref)
	if it.Space.Dir != "" {
		f.Hint = append(f.Hint, "rye sign "+ref)
	}
	return f
}

// stillGood says what the copy is worth, if that is less than what the item is: the library's have no signatures, and
// what is beside the copy may get into its tree.
func stillGood(ctx context.Context, v *spaces.Items, it *ai.Item, to string) error {
	s, done, err := target(v, to)
	if err != nil {
		return err
	}
	defer done()
	e, err := v.Admit.Admit(ctx, places.Draft(it.Kind, it.Ref, s, it.Path, it.Bytes), policy.ToShow)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		v.App.Term.Warn("the copy may not be used: %s", classify.Classify(err).Text)
	case !e.Decision.Allowed:
		v.App.Term.Warn("the copy may not be used as it is: %q %s: rye sign %s", it.Ref, e.Decision.Reason(), fault.Quote(v.Place(s, it.Path)))
	}
	return nil
}

// target opens the space to write to. One that isn't there yet has no files.
func target(v *spaces.Items, name string) (*ai.Space, func() error, error) {
	none := func() error { return nil }
	level, open := ai.Project, v.Project
	var dir string
	if name == ai.Project.String() {
		p, err := places.OpenProject(v.App)
		if err != nil {
			return nil, none, orInit(v.App, err)
		}
		dir = p.DotAI()
	} else {
		s := cli.UserSpace(v.App.UserBase())
		if s.Err != nil {
			return nil, none, s.Err
		}
		level, open, dir = ai.User, v.User, s.Value
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
func copy(ctx context.Context, v *spaces.Items, it *ai.Item, t *tree.Tree, to *ai.Space, dryRun bool) (loadAnswer, error) {
	ans := loadAnswer{Ref: it.Ref.String(), From: it.Space.Label, To: to.Label, File: v.Place(to, it.Path), Files: []string{},
		Raw: it.Raw.String(), DryRun: dryRun}
	if err := checkRoom(ctx, v, it, to); err != nil {
		return ans, err
	}
	pieces, err := pieces(ctx, v, it, t)
	if err != nil {
		return ans, err
	}
	missing, err := missing(v, pieces, to)
	if err != nil {
		return ans, err
	}
	if err := checkTree(v, it, pieces, to); err != nil {
		return ans, err
	}
	for _, p := range missing {
		ans.Files = append(ans.Files, v.Place(to, p.path))
	}
	slices.Sort(ans.Files)
	if dryRun || len(missing) == 0 {
		return ans, nil
	}
	d, err := places.OpenAI(to.Dir, to.Level)
	if err != nil {
		return ans, err
	}
	defer d.Close()
	osfile.Sweep(d.Where(path.Dir(it.Path)), v.App.Now())
	for _, p := range missing {
		if err := ctx.Err(); err != nil {
			return ans, err
		}
		b, err := p.raw()
		if err == nil {
			err = d.Write(p.path, p.mode, true, b)
		}
		if err != nil {
			return ans, err
		}
	}
	v.WarnTrees(ctx, to, it.Path, it.Ref)
	return ans, nil
}

// checkRoom refuses a space that has the id in another file, or in other letters.
func checkRoom(ctx context.Context, v *spaces.Items, it *ai.Item, to *ai.Space) error {
	dir := path.Dir(it.Path)
	if err := v.CheckFolders(to, dir); err != nil {
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
				Why: []string{v.Place(to, p)}, Hint: []string{rmIn(v, to, p)},
				Details: map[string]any{"reason": "exists", "ref": ref.String(), "file": v.Place(to, p)}}
		}
	}
	return nil
}

// rmIn is the command that removes a file of a space. In a project with rye.yaml the user space is out of reach.
func rmIn(v *spaces.Items, s *ai.Space, p string) string {
	if s.Level == ai.User && v.User == nil && v.Root.Root != "" {
		return "rye -C / rm " + fault.Quote(filepath.Join(s.Dir, filepath.FromSlash(p)))
	}
	return "rye rm " + fault.Quote(v.Place(s, p))
}

// pieces are the files of an item, itself last. Their bytes are those that were hashed.
func pieces(ctx context.Context, v *spaces.Items, it *ai.Item, t *tree.Tree) ([]piece, error) {
	var all []piece
	if t != nil {
		anchor, err := v.Admit.Anchor(ctx, it)
		if err != nil {
			return nil, err
		}
		for _, f := range t.Files {
			name := path.Join(anchor.Dir, f.Path)
			all = append(all, piece{name, func() ([]byte, error) { return places.TreeFile(it.Space, name, f.Raw) }, places.FileMode(f.Mode.String() == "exec")})
		}
	}
	fi, err := fs.Lstat(it.Space.FS, it.Path)
	if err != nil {
		return nil, err
	}
	executable := fi.Mode().Perm()&0o100 != 0 // in the library nothing is
	return append(all, piece{it.Path, func() ([]byte, error) { return it.Bytes, nil }, places.FileMode(executable)}), nil
}

// missing returns the pieces that aren't in a space; one that is there with other bytes is an error.
func missing(v *spaces.Items, pieces []piece, to *ai.Space) ([]piece, error) {
	var missing []piece
	d, err := osfile.OpenDir(to.Dir, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return pieces, nil
	}
	if err != nil {
		return nil, err
	}
	defer d.Close()
	for _, p := range pieces {
		b, err := p.raw()
		if err != nil {
			return nil, err
		}
		same, err := places.SameBytes(d, p.path, b)
		if f, ok := errors.AsType[*fault.Error](err); ok && errors.Is(f.Err, fs.ErrExist) {
			// What can be removed is an item: the files of its tree go with it.
			own := pieces[len(pieces)-1].path
			if _, gone := fs.Lstat(to.FS, own); gone == nil {
				f.Hint = []string{rmIn(v, to, own)}
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
func checkTree(v *spaces.Items, it *ai.Item, pieces []piece, to *ai.Space) error {
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
				Text:    fmt.Sprintf("%q would get into the tree of %q, whose signature would no longer hold", v.Place(to, name), it.Ref),
				Details: map[string]any{"reason": "tree", "ref": it.Ref.String(), "file": v.Place(to, name)}}
		}
		return nil
	})
}
