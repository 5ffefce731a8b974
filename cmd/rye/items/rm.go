package items

import (
	"context"
	"fmt"
	"strings"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/edit"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/spaces"
)

type rmRun struct {
	Items  []string `arg:"" name:"item" complete:"own|path" help:"Refs, globs or files."`
	DryRun bool     `help:"Show what would be removed; remove nothing."`
}

type rmAnswer struct {
	Removed  []removedLine  `json:"removed"` // items that were removed, or would be
	Mentions []edit.Mention `json:"mentioned_by"`
	DryRun   bool           `json:"dry_run"`
}

type removedLine struct {
	Ref   string   `json:"ref"`
	File  string   `json:"file"`
	Files []string `json:"files"` // other files of its tree that are removed with it
	Next  string   `json:"next"`  // the space whose item has this id afterwards; empty if none
}

func (r rmAnswer) Text(t *cli.Terminal) {
	verb := cli.DryVerb(r.DryRun, "removed", "would remove")
	for _, l := range r.Removed {
		t.Printf("%s %s\n", verb, l.words())
	}
}

func (l *removedLine) words() string {
	if len(l.Files) == 0 {
		return l.Ref + "  " + l.File
	}
	return fmt.Sprintf("%s  %s, and %s of its tree", l.Ref, l.File, fault.Count(int64(len(l.Files)), "file"))
}

// A removal is an item to remove, and the files that are removed with it.
type removal struct {
	it   *ai.Item
	with edit.Following
}

func (c *rmRun) Run(ctx context.Context, app *cli.App) (cli.Answer, error) {
	view, err := spaces.OpenItems(ctx, app)
	if err != nil {
		return nil, err
	}
	defer view.Close()
	removals, err := c.selected(ctx, view)
	if err != nil {
		return nil, err
	}
	ans := rmAnswer{Removed: []removedLine{}, Mentions: []edit.Mention{}, DryRun: c.DryRun}
	var refs []model.Ref
	for _, removal := range removals {
		refs = append(refs, removal.it.Ref)
		l := removedLine{Ref: removal.it.Ref.String(), File: view.Name(removal.it.Space, removal.it.Path),
			Files: []string{}}
		for _, p := range removal.with.Paths() {
			l.Files = append(l.Files, view.Name(removal.it.Space, p))
		}
		if all, err := view.All(ctx, removal.it.Ref); err == nil && len(all) > 1 && all[0].Space == removal.it.Space {
			l.Next = all[1].Space.Label
		}
		ans.Removed = append(ans.Removed, l)
		if removal.with.Stays != "" {
			app.Term.Note("the other files of %q stay: %s", removal.it.Ref, removal.with.Stays)
		}
	}
	if ans.Mentions, err = mentions(ctx, view, refs); err != nil {
		return nil, err
	}
	warnMentions(app, ans.Mentions)
	if c.DryRun {
		return ans, nil
	}
	if !app.Globals.Yes {
		for i := range ans.Removed {
			app.Term.Say("  ", "%s", []any{ans.Removed[i].words()})
		}
	}
	if err := app.Confirm(ctx, fmt.Sprintf("remove %s?", fault.Count(int64(len(removals)), "item"))); err != nil {
		return nil, err
	}
	for i, r := range removals {
		if err := view.Remove(ctx, r.it, r.with); err != nil {
			// The answer lists the items that were removed before the error.
			ans.Removed = ans.Removed[:i]
			return ans, err
		}
		view.WarnTrees(ctx, r.it.Space, r.it.Path, refs...)
		if next := ans.Removed[i].Next; next != "" {
			app.Term.Note("%q is now that of the space %q", r.it.Ref, next)
		}
	}
	return ans, nil
}

// selected returns the items to remove. It fails if one of them can't be removed, so that nothing is removed then.
func (c *rmRun) selected(ctx context.Context, view *spaces.Items) ([]removal, error) {
	var all []removal
	seen := map[string]bool{}
	add := func(it *ai.Item) error {
		if err := edit.CheckWritable(it); err != nil {
			return err
		}
		if place := view.Name(it.Space, it.Path); seen[place] {
			return nil
		} else {
			seen[place] = true
		}
		with, err := view.Following(ctx, it)
		if err == nil {
			all = append(all, removal{it, with})
		}
		return err
	}
	for _, text := range c.Items {
		if !strings.Contains(text, "*") {
			it, err := shown(ctx, view, text)
			if err == nil {
				err = add(it)
			}
			if err != nil {
				return nil, err
			}
			continue
		}
		sel, err := view.Selected(ctx, view.Own(), text)
		if err != nil {
			return nil, err
		}
		before := len(all)
		for _, f := range sel.Files {
			it, err := view.Load(ctx, f.File)
			if err != nil {
				continue // an asset or an invalid item
			}
			if err := add(it); err != nil {
				return nil, err
			}
		}
		if len(all) == before {
			return nil, fault.New(fault.NotFound, "%q matches no item that can be removed", text).
				Try("rye ls "+fault.Quote(text)).On("ref", text)
		}
	}
	return all, nil
}
