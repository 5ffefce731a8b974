package locks

import (
	"context"
	"strings"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
	lockfile "github.com/rye-build/rye/lock/file"
	"github.com/rye-build/rye/lock/restore"
	"github.com/rye-build/rye/manifest/policy/glob"
)

type restoreRun struct {
	Items  []string `arg:"" name:"item" complete:"pinned" help:"Refs or globs of locked items."`
	DryRun bool     `name:"dry-run" help:"Show what would change; write nothing."`
}

type restoreAnswer struct {
	*restore.RestoreResult
	failed bool
}

// mostRestored is how many files are printed one by one without --verbose.
const mostRestored = 100

func (r restoreAnswer) Text(term *cli.Terminal) {
	verb := cli.DryVerb(r.DryRun, "restored", "would restore")
	for i, restoredFile := range r.Files {
		if i == mostRestored && !term.Verbose {
			term.Printf("%s  and %s more; -v shows all\n", verb, fault.Count(int64(len(r.Files)-i), "file"))
			break
		}
		if restoredFile.Only != "" {
			term.Printf("%s  %s  %s  only %s\n", verb, restoredFile.File, restoredFile.Ref, restoredFile.Only)
			continue
		}
		term.Printf("%s  %s  %s\n", verb, restoredFile.File, restoredFile.Ref)
		if restoredFile.Before != "" && !r.DryRun {
			term.Note("previous content: %s", restoredFile.Before)
		}
	}
	if len(r.Files) == 0 && r.Items > 0 && !r.failed {
		term.Note("%s as locked", fault.Count(int64(r.Items), "item"))
	}
	for _, l := range r.Left {
		term.Warn("%s stays: it is not in the lock: %s", l.File, l.Ref)
	}
}

func (c *restoreRun) Run(ctx context.Context, a *cli.App) (cli.Answer, error) {
	if !c.DryRun {
		unlock, err := paths.Alone(ctx, a, false)
		if err != nil {
			return nil, err
		}
		defer unlock()
	}
	l, err := openLocked(a, false)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	pins, err := c.pins(ctx, l)
	if err != nil {
		return nil, err
	}
	result, err := restore.Restore(ctx, l.Lock, pins, c.DryRun)
	if result == nil {
		return nil, err
	}
	return restoreAnswer{result, err != nil}, err
}

// pins returns the pins of the project that the arguments match, each once.
func (c *restoreRun) pins(ctx context.Context, lock *paths.Lock) (pins []lockfile.Pin, err error) {
	selected := make([]bool, len(lock.Old.Pins))
	for _, text := range c.Items {
		found := false
		g, globErr := glob.Parse(text)
		kind, id, _ := strings.Cut(text, ":")
		for i := range lock.Old.Pins {
			p := &lock.Old.Pins[i]
			exact := p.Ref.Kind == kind && p.Ref.ID == id || p.Ref.ID == text
			if !exact && (globErr != nil || !g.Match(glob.Name{Kind: p.Ref.Kind, ID: p.Ref.ID})) {
				continue
			}
			found = true
			selected[i] = selected[i] || p.From == lockfile.FromProject
			if exact && p.From != lockfile.FromProject {
				lock.App.Term.Note("%s is from %s: no file of the project has it", text, p.From)
			}
		}
		if !found {
			return nil, paths.NotLocked(ctx, lock, text)
		}
	}
	n := 0
	for _, use := range selected {
		if use {
			n++
		}
	}
	pins = make([]lockfile.Pin, 0, n)
	for i, use := range selected {
		if use {
			pins = append(pins, lock.Old.Pins[i])
		}
	}
	return pins, nil
}
