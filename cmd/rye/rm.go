package main

import (
	"context"
	"fmt"
	"path"
	"strings"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas/fault"
)

func rmCommand() command {
	return command{
		path: "rm", group: "items", help: "Remove items of the project.",
		more: "An argument is a ref (tool:acme/fetch), a glob over refs ('tool:acme/**'), or a file below .ai. Globs mean items of the project, " +
			"or of the user outside of projects. The other files of a tool go with it if no other item is in its directory. It shows what would " +
			"go, and asks; items that name what is removed are told.\n\nExamples:\n\n    rye rm tool:acme/fetch\n    rye rm --dry-run 'tool:acme/**'\n" +
			"    rye --yes rm directive:acme/old",
		aka: []string{"delete"},
		new: func() runner { return new(rmRun) }, schema: "rm/1", output: rmAnswer{},
	}
}

type rmRun struct {
	Items  []string `arg:"" name:"item" complete:"own" help:"Refs, globs and files."`
	DryRun bool     `help:"Say what would be removed, and remove nothing."`
}

type rmAnswer struct {
	Removed  []removedLine `json:"removed"` // or would be
	Mentions []mention     `json:"mentioned_by"`
	DryRun   bool          `json:"dry_run"`
}

type removedLine struct {
	Ref   string   `json:"ref"`
	File  string   `json:"file"`
	Files []string `json:"files"` // the rest of its tree that goes with it
	Next  string   `json:"next"`  // the space whose item of this id counts then
}

func (r rmAnswer) text(t *terminal) {
	verb := "removed"
	if r.DryRun {
		verb = "would remove"
	}
	for _, l := range r.Removed {
		t.printf("%s %s\n", verb, l.words())
	}
}

func (l *removedLine) words() string {
	if len(l.Files) == 0 {
		return l.Ref + "  " + l.File
	}
	return fmt.Sprintf("%s  %s, and %s of its tree", l.Ref, l.File, fault.Count(int64(len(l.Files)), "file"))
}

// A removal is an item, with what follows it.
type removal struct {
	it   *ai.Item
	with following
}

func (c *rmRun) run(ctx context.Context, a *app) (answer, error) {
	v, err := a.items(ctx)
	if err != nil {
		return nil, err
	}
	defer v.close()
	what, err := c.chosen(ctx, v)
	if err != nil {
		return nil, err
	}
	ans := rmAnswer{Removed: []removedLine{}, Mentions: []mention{}, DryRun: c.DryRun}
	var refs []model.Ref
	for _, r := range what {
		refs = append(refs, r.it.Ref)
		l := removedLine{Ref: r.it.Ref.String(), File: v.place(r.it.Space, r.it.Path), Files: []string{}}
		for _, f := range r.with.files {
			l.Files = append(l.Files, v.place(r.it.Space, path.Join(r.with.dir, f.Path)))
		}
		if all, err := v.All(ctx, r.it.Ref); err == nil && len(all) > 1 && all[0].Space == r.it.Space {
			l.Next = all[1].Space.Label
		}
		ans.Removed = append(ans.Removed, l)
		if r.with.stays != "" {
			a.term.note("the other files of %q stay: %s", r.it.Ref, r.with.stays)
		}
	}
	if ans.Mentions, err = v.mentions(ctx, refs); err != nil {
		return nil, err
	}
	a.warnMentions(ans.Mentions)
	if c.DryRun {
		return ans, nil
	}
	if !a.globals.Yes {
		for i := range ans.Removed {
			a.term.say("  ", "%s", []any{ans.Removed[i].words()})
		}
	}
	if err := a.confirm(ctx, fmt.Sprintf("remove %s?", fault.Count(int64(len(what)), "item"))); err != nil {
		return nil, err
	}
	for i, r := range what {
		if err := v.remove(ctx, r); err != nil {
			// What is gone is gone: the answer says so beside the error.
			ans.Removed = ans.Removed[:i]
			return ans, err
		}
		v.warnTrees(ctx, r.it.Space, r.it.Path, refs...)
		if next := ans.Removed[i].Next; next != "" {
			a.term.note("%q is now that of the space %q", r.it.Ref, next)
		}
	}
	return ans, nil
}

// chosen finds what is to be removed. What can't be is told before anything is.
func (c *rmRun) chosen(ctx context.Context, v *items) ([]removal, error) {
	var all []removal
	has := map[string]bool{}
	add := func(it *ai.Item) error {
		if err := v.checkWritable(it); err != nil {
			return err
		}
		if place := v.place(it.Space, it.Path); has[place] {
			return nil
		} else {
			has[place] = true
		}
		with, err := v.following(ctx, it)
		if err == nil {
			all = append(all, removal{it, with})
		}
		return err
	}
	for _, text := range c.Items {
		if !strings.Contains(text, "*") {
			it, err := v.shown(ctx, text)
			if err == nil {
				err = add(it)
			}
			if err != nil {
				return nil, err
			}
			continue
		}
		sel, err := v.selected(ctx, v.own(), text)
		if err != nil {
			return nil, err
		}
		before := len(all)
		for _, f := range sel.files {
			it, err := v.Load(ctx, f.File)
			if err != nil {
				continue // an asset, or what is no item for another reason
			}
			if err := add(it); err != nil {
				return nil, err
			}
		}
		if len(all) == before {
			return nil, &fault.Error{Code: fault.NotFound, Text: fmt.Sprintf("%q covers no item that can be removed", text), Hint: []string{"rye ls " + fault.Quote(text)},
				Details: map[string]any{"ref": text}}
		}
	}
	return all, nil
}

// remove removes an item, and then what follows it: never is there an item that lacks a part of itself.
func (v *items) remove(ctx context.Context, r removal) error {
	d, err := openAI(r.it.Space.Dir, r.it.Space.Level)
	if err != nil {
		return err
	}
	defer d.close()
	if err := d.remove(r.it.Path); err != nil {
		return err
	}
	for _, f := range r.with.files {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := d.remove(path.Join(r.with.dir, f.Path)); err != nil {
			return err
		}
	}
	return nil
}
