package items

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/edit"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/cmd/rye/spaces"
	"github.com/rye-build/rye/cmd/rye/trusts"
	"github.com/rye-build/rye/lock/items"
	"github.com/rye-build/rye/lock/workspace"
	"github.com/rye-build/rye/manifest/policy"
	"github.com/rye-build/rye/manifest/sign"
)

type newRun struct {
	Kind        string `arg:"" complete:"kind" help:"Kind of item."`
	ID          string `arg:"" name:"id" help:"Id, such as acme/fetch."`
	From        string `placeholder:"FILE" complete:"file" xor:"words,template" help:"Use this file instead of a template."`
	Ext         string `placeholder:"EXT" complete:"ext" xor:"template" help:"Template's language, by extension: py, yaml, sh, js, star."`
	Description string `placeholder:"TEXT" xor:"words" help:"One-line description for the template."`
	NoSign      bool   `help:"Leave it unsigned."`
	DryRun      bool   `help:"Show what would be written; write nothing."`
	trusts.KeyFlag
	lock func(context.Context, *cli.App) (bool, error)
	// made replaces the template or file by the output of a directive; approve must then allow the write.
	made    *Made
	approve func(context.Context, *ai.Item, newAnswer) error
}

type newAnswer struct {
	Ref    string `json:"ref"`
	File   string `json:"file"`
	From   string `json:"from"`   // the file, or the template's path in the library
	Signed bool   `json:"signed"` // or would be
	Key    string `json:"key"`    // its fingerprint
	Raw    string `json:"raw"`    // digest of the file; empty with dry_run
	Locked bool   `json:"locked"` // rye.lock has its pin
	DryRun bool   `json:"dry_run"`
}

func (n newAnswer) Text(t *cli.Terminal) {
	verb := cli.DryVerb(n.DryRun, "wrote", "would write")
	how := "unsigned"
	if n.Signed {
		how = "signed with " + paths.Short(n.Key)
	}
	if n.Locked {
		how += ", locked"
	}
	t.Printf("%s %s  %s, %s\n", verb, n.File, n.Ref, how)
}

func (c *newRun) Run(ctx context.Context, app *cli.App) (cli.Answer, error) {
	if _, err := paths.Paths(app).OpenProject(); err != nil {
		return nil, orInit(app, err)
	}
	view, err := spaces.OpenItems(ctx, app)
	if err != nil {
		return nil, err
	}
	defer view.Close()
	it, ans, mode, err := c.draft(ctx, view)
	if err != nil {
		return nil, err
	}
	var userKey trusts.Signer
	if !c.NoSign {
		if userKey, err = trusts.SigningKey(ctx, app, c.Key); err == nil {
			err = view.CheckSignable(ctx, it)
		}
		if err != nil {
			f := fault.Of(err)
			f.Hint = append(f.Hint, fault.Command("rye new", c.Kind, c.ID, "--no-sign"))
			return nil, f
		}
		ans.Signed, ans.Key = true, userKey.Public().Fingerprint().String()
	}
	if c.DryRun {
		return ans, nil
	}
	if c.approve != nil {
		if err := c.approve(ctx, it, ans); err != nil {
			return nil, err
		}
	}
	unlock, err := aloneWith(ctx, app, it)
	if err != nil {
		return nil, err
	}
	err = view.Write(ctx, it, signer(view, userKey), mode)
	if unlock(); err != nil {
		return nil, err
	}
	ans.Raw = it.Raw.String()
	afterwards(ctx, view, it)
	if ans.Signed && it.Space.Level == ai.Project {
		if ans.Locked, err = c.lock(ctx, app); err != nil { // not an error: the item is written and signed
			app.Term.Warn("not locked: %s", fault.Of(err).Text)
			app.Term.Note("next: rye lock")
		}
	}
	return ans, nil
}

// aloneWith locks an item's space until unlock is called, and checks again that its id is free.
func aloneWith(ctx context.Context, a *cli.App, it *ai.Item) (unlock func(), err error) {
	ofUser := it.Space.Level == ai.User
	if unlock, err = paths.Alone(ctx, a, ofUser); err != nil {
		return nil, err
	}
	now, err := spaces.OpenItems(ctx, a)
	if err == nil {
		space := now.Project
		if ofUser {
			space = now.User
		}
		if space != nil {
			err = now.CheckFree(ctx, it.Ref, space)
		}
		now.Close()
	}
	if err != nil {
		unlock()
		return nil, err
	}
	return unlock, nil
}

// orInit adds the hint "rye init DIR" to the error of a directory of -C that is not a project.
func orInit(a *cli.App, err error) error {
	dir := a.Globals.Project
	if !errors.Is(err, workspace.ErrNoProject) || dir == "" {
		return err
	}
	f := fault.Of(err)
	f.Hint = []string{fault.Command("rye init", dir)}
	return f
}

// draft returns the item to write, without signature, and the mode of its file. It refuses an id that is in use and
// a file that isn't a valid item of the kind.
func (c *newRun) draft(ctx context.Context, view *spaces.Items) (*ai.Item, newAnswer, fs.FileMode, error) {
	none := func(err error) (*ai.Item, newAnswer, fs.FileMode, error) { return nil, newAnswer{}, 0, err }
	kind, err := view.CheckKind(c.Kind)
	if err != nil {
		return none(err)
	}
	id := strings.TrimPrefix(c.ID, c.Kind+":")
	ref, err := model.ParseRef(c.Kind + ":" + id)
	if err != nil {
		return none(items.BadRef(c.Kind+":"+id, err))
	}
	if ext := path.Ext(id); ext != "" && slices.Contains(kind.Extensions, strings.ToLower(ext)) {
		return none(c.extended(strings.TrimSuffix(id, ext), ext))
	}
	space := view.Project
	if space == nil { // the project has no .ai yet
		dir := view.Root.DotAI()
		space = &ai.Space{Label: ai.Project.String(), Level: ai.Project, Dir: dir, FS: os.DirFS(dir)}
	}
	text, err := c.content(kind, ref)
	if err != nil {
		return none(err)
	}
	from := text.From
	file, err := view.PathFor(ref, text.Ext)
	if err != nil {
		return none(fault.New(fault.Validation, "%s", err).From(err).On("ref", ref.String()))
	}
	if err := view.CheckFree(ctx, ref, space); err != nil {
		return none(err)
	}
	it := edit.Draft(ai.File{Ref: ref, Kind: kind, Space: space, Path: file}, text.Bytes)
	switch {
	case !it.Model.Marked:
		return none(fault.New(fault.Validation, "%q is not a %s: it lacks the mark of one", from, kind.Name).
			Because(markOf(kind)).Try("rye docs items").On("ref", ref.String()).On("file", from))
	case it.Model.Invalid():
		f := view.Invalid(it, from)
		if c.From == "" && c.made == nil { // templates are valid, so the id or description is at fault
			f.Text = fmt.Sprintf("%q would not be a valid %s", ref, kind.Name)
		}
		return none(f)
	}
	if err := view.CheckDraft(ctx, it); err != nil {
		return none(err)
	}
	return it, newAnswer{Ref: ref.String(), File: view.Name(space, file), From: from, DryRun: c.DryRun}, text.Mode, nil
}

// extended returns the error of an id that ends in a file extension: the file's name would have it twice.
func (c *newRun) extended(id, ext string) *fault.Error {
	args := []string{c.Kind, id}
	if c.From != "" {
		args = append(args, "--from", c.From)
	} else if c.Kind == "tool" {
		args = append(args, "--ext", ext[1:])
	}
	return fault.New(fault.Validation, "an id has no file extension: write %q, not %q", id, id+ext).On("ref",
		c.Kind+":"+id).
		Try(fault.Command("rye new", args...))
}

// markOf describes what makes a file an item of a kind.
func markOf(k *model.Kind) string {
	switch k.Name {
	case "tool":
		return "a tool names its executor: executor_id (in Python __executor_id__)"
	case "directive":
		return "a directive has an element <directive"
	}
	return "an item of this kind has metadata"
}

// content returns the text of the item: a directive's output, the file of --from, or a template.
func (c *newRun) content(kind *model.Kind, ref model.Ref) (edit.Text, error) {
	if c.made != nil {
		return edit.TextFrom(c.made.From, c.made.Extension, []byte(c.made.Content), kind, ref)
	}
	if c.From != "" {
		return edit.TextOf(c.From, kind, ref)
	}
	ext, have := "."+strings.TrimPrefix(c.Ext, "."), edit.Templates(kind)
	switch {
	case len(have) == 0:
		return edit.Text{}, fault.New(fault.Validation, "no template for a %s", kind.Name).
			Try("rye help new").On("kind", kind.Name)
	case c.Ext == "":
		ext = have[0]
	case !slices.Contains(have, ext):
		return edit.Text{}, items.Unknown("template for the kind "+kind.Name+" with the extension", ext, have)
	}
	return edit.Template(kind, ref, ext, c.Description)
}

// afterwards warns if a new item can't run, isn't trusted, hides another item, or gets into another tool's tree.
func afterwards(ctx context.Context, view *spaces.Items, it *ai.Item) {
	if t := it.Model.Tool; t != nil && t.Type != "extractor" { // extractors don't run
		if _, err := ai.WalkFrom(ctx, view, it); err != nil {
			view.App.Term.Warn("it can't run as it is: %s", fault.Of(err).Text)
		}
	}
	if it.Signed.Format != sign.None {
		switch e, err := view.Admit.Admit(ctx, it, policy.ToUse); {
		case err != nil:
			view.App.Term.Warn("the signature is not enough: %s", fault.Of(err).Text)
		case !e.Decision.Allowed:
			view.App.Term.Warn("the signature is not enough: %q %s", it.Ref, e.Decision.Reason())
		}
	}
	if all, err := view.All(ctx, it.Ref); err == nil && len(all) > 1 && all[0].Space == it.Space {
		does := "hides"
		if items.IsMerged(it.Ref.String()) {
			does = "is merged over"
		}
		view.App.Term.Note("it %s %q of the space %q", does, it.Ref, all[1].Space.Label)
	}
	view.WarnTrees(ctx, it.Space, it.Path, it.Ref)
}
