package exchange

import (
	"context"
	"errors"
	"path"
	"path/filepath"
	"strings"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/bundle/skill"
	"github.com/rye-build/rye/bundle/skill/client"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/cmd/rye/spaces"
	"github.com/rye-build/rye/lock"
	"github.com/rye-build/rye/lock/clients"
	"github.com/rye-build/rye/lock/items"
	"github.com/rye-build/rye/manifest/policy"
)

type toFlags struct {
	To     string `placeholder:"CLIENT" help:"Client: agents, claude, codex, copilot, cursor, gemini, opencode."`
	Remove bool   `help:"Remove what was written for the client."`
	DryRun bool   `help:"Show what would be written; write nothing."`
}

type exportRun struct {
	Ref string `arg:"" complete:"skill|path" help:"Ref of a skill's tool or of a directive."`
	Dir string `arg:"" optional:"" complete:"dir" help:"Directory for the skill's folder."`
	toFlags
}

type exportDirectiveRun struct {
	Ref string `arg:"" complete:"directive" help:"Ref of the directive."`
	toFlags
}

type exportAnswer struct {
	Ref     string   `json:"ref"`
	Client  string   `json:"client"` // empty for a directory
	Files   []string `json:"files"`  // written or removed, or would be
	Removed bool     `json:"removed"`
	DryRun  bool     `json:"dry_run"`
}

// Text implements cli.Answer.
func (e *exportAnswer) Text(t *cli.Terminal) {
	verb := cli.DryVerb(e.DryRun, "wrote", "would write")
	if e.Removed {
		verb = cli.DryVerb(e.DryRun, "removed", "would remove")
	}
	for _, f := range e.Files {
		t.Printf("%s %s\n", verb, f)
	}
}

// Run implements cli.Runner.
func (c *exportDirectiveRun) Run(ctx context.Context, app *cli.App) (cli.Answer, error) {
	text := c.Ref
	if !strings.Contains(text, ":") {
		text = "directive:" + text
	}
	ref, err := model.ParseRef(text)
	if err != nil {
		return nil, items.BadRef(c.Ref, err)
	}
	if ref.Kind != "directive" {
		return nil, fault.New(fault.Validation, "%s is not a directive", ref).On("ref",
			ref.String()).Try("rye help export skill")
	}
	if c.To == "" {
		return nil, fault.New(fault.Validation, "missing --to: name a client").
			Try("rye export directive "+fault.Quote(c.Ref)+" --to claude",
				"rye export skill "+fault.Quote(c.Ref)+" DIR")
	}
	return c.toClient(ctx, app, text)
}

// Run implements cli.Runner.
func (c *exportRun) Run(ctx context.Context, app *cli.App) (cli.Answer, error) {
	switch {
	case c.To != "" && c.Dir != "":
		return nil, fault.New(fault.Validation, "DIR and --to can't be combined").Try("rye help export skill")
	case c.To == "" && (c.Dir == "" || c.Remove):
		return nil, fault.New(fault.Validation, "give DIR, or a client with --to").
			Try("rye export skill "+fault.Quote(c.Ref)+" --to claude", "rye export skill "+fault.Quote(c.Ref)+" DIR")
	}
	if c.To != "" {
		return c.toClient(ctx, app, c.Ref)
	}
	v, err := spaces.OpenItems(ctx, app)
	if err != nil {
		return nil, err
	}
	defer v.Close()
	it, err := v.FindNamed(ctx, c.Ref)
	if err != nil {
		return nil, err
	}
	name, files, err := clients.Skill(ctx, v.Admit, it, policy.ToShow)
	if err != nil {
		return nil, err
	}
	dir := app.Absolute(cli.Setting{Value: filepath.Join(c.Dir, name)})
	if dir.Err != nil {
		return nil, dir.Err
	}
	if err := paths.RefuseLinks(app, dir.Value); err != nil {
		return nil, err
	}
	ans := &exportAnswer{Ref: it.Ref.String(), Files: []string{}, DryRun: c.DryRun}
	for _, f := range files {
		ans.Files = append(ans.Files, filepath.Join(c.Dir, name, filepath.FromSlash(f.Path)))
	}
	if c.DryRun {
		return ans, nil
	}
	if err := skill.WriteDir(dir.Value, files); err != nil {
		return nil, err
	}
	return ans, nil
}

// toClient writes the files of a locked item to the folders of a client, or with --remove removes them. Some clients
// read another client's folder; if the item is already there, the list of that client is used.
func (c *toFlags) toClient(ctx context.Context, app *cli.App, text string) (cli.Answer, error) {
	to, err := client.ByName(c.To)
	if err != nil {
		return nil, err
	}
	if !c.DryRun {
		unlock, err := paths.Alone(ctx, app, false)
		if err != nil {
			return nil, err
		}
		defer unlock()
	}
	locked, err := paths.OpenLock(app, false)
	if err != nil {
		return nil, err
	}
	defer locked.Close()
	ref, err := lockedRef(ctx, locked, text)
	if err != nil {
		return nil, err
	}
	place, err := client.Open(locked.Dir)
	if err != nil {
		return nil, err
	}
	defer place.Close()
	if owner := place.Owner(ref.String(), to); owner.Name != to.Name {
		app.Term.Note("%s reads the folder of %s, where it is installed already", to.Name, owner.Name)
		to = owner
	}
	pair := client.Pair{Ref: ref.String(), Client: to.Name}
	ans := &exportAnswer{Ref: pair.Ref, Client: pair.Client, Removed: c.Remove, DryRun: c.DryRun}
	if c.Remove {
		ans.Files, err = place.Remove(pair, c.DryRun)
	} else {
		ans.Files, err = write(ctx, app, locked, place, pair, ref, to, c.DryRun)
	}
	if err != nil {
		return nil, err
	}
	if len(ans.Files) == 0 {
		ans.Files = []string{}
		app.Term.Note("%s is up to date with the lock", ref)
	}
	return ans, nil
}

// lockedRef returns the ref that an argument names: a ref, or the id of a locked item.
func lockedRef(ctx context.Context, lock *paths.Lock, text string) (model.Ref, error) {
	if lock.Old != nil {
		if ref, ok := lock.Old.Named(text); ok {
			return ref, nil
		}
	}
	ref, err := model.ParseRef(text)
	switch {
	case err == nil:
		return ref, nil
	case lock.Old != nil:
		return ref, paths.NotLocked(ctx, lock, text)
	}
	return ref, items.BadRef(text, err)
}

// exists returns an error if no space has an item.
func exists(ctx context.Context, app *cli.App, ref model.Ref) error {
	view, err := spaces.OpenItems(ctx, app)
	if err != nil {
		return nil
	}
	defer view.Close()
	_, err = view.Find(ctx, ref)
	if _, missing := errors.AsType[*ai.NotFoundError](err); missing {
		return err
	}
	return nil
}

// write writes the pinned files of an item to a client's folders. It warns about commands in the text that the
// client may run on its own, and about tools that it may allow.
func write(ctx context.Context, app *cli.App, l *paths.Lock, place *client.Place, pair client.Pair, ref model.Ref,
	to client.Client, dry bool) ([]string, error) {
	pins, err := clients.Open(ctx, l.Lock)
	if err != nil {
		return nil, err
	}
	files, err := pins.Files(ctx, ref, to)
	if no, ok := errors.AsType[*lock.NotLockedError](err); ok && no.Ref == ref {
		if missing := exists(ctx, app, ref); missing != nil {
			return nil, missing
		}
	}
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		if base := path.Base(f.Path); base == skill.Main || path.Dir(f.Path) == to.Commands {
			for _, command := range skill.Runs(f.Bytes) {
				app.Term.Warn("%s: the client may run this on its own: %s", f.Path, command)
			}
		}
		if text, err := skill.ParseText(f.Path, f.Bytes); path.Base(f.Path) == skill.Main && err == nil &&
			len(text.AllowedTools) > 0 {
			app.Term.Warn("%s: the client may allow these tools without asking: %s", f.Path,
				strings.Join(text.AllowedTools, ", "))
		}
	}
	return place.Install(pair, files, dry)
}
