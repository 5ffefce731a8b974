package locks

import (
	"path/filepath"
	"strings"

	"github.com/rye-build/rye/ai/check"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/cmd/rye/sarif"
	lockfile "github.com/rye-build/rye/lock/file"
	"github.com/rye-build/rye/lock/update"
	"github.com/rye-build/rye/lock/workspace"
)

// Extent counts the pins.
func (c *LockAnswer) Extent() string { return fault.Count(int64(c.Pins), "pin") }

// Findings returns the problems, and the changes if the lock is out of date.
func (c *LockAnswer) Findings() []sarif.Finding {
	all := problemFindings(c.old, c.Problems)
	if c.old == nil || !c.Changed {
		return all
	}
	level := func(lockfile.Change) sarif.Level { return sarif.Error }
	return append(all, sarif.OfChanges(c.Changes, level, update.ChangeText, c.old.LockPath(), c.old.Text())...)
}

// Extent names the two sides of the comparison.
func (d *lockDiff) Extent() string { return filepath.Base(d.From) + " and the " + filepath.Base(d.To) }

// Findings returns the differences. Those that weaken the lock are warnings.
func (d *lockDiff) Findings() []sarif.Finding {
	all := problemFindings(d.project, d.Problems)
	for _, l := range d.Drift {
		f := sarif.Finding{Code: fault.LockMismatch, Level: sarif.Note, Name: l.Ref, Message: l.Kind + " " + l.File,
			File: placeOf(d.project, l.File)}
		if l.Only != "" {
			f.Message += ", only " + strings.ReplaceAll(l.Only, "-", " ")
		}
		if l.File == "" { // an extractor from outside the project
			f.File, f.Message = d.project.LockPath(), l.Kind+" "+l.Ref
		}
		all = append(all, f)
	}
	level := func(c lockfile.Change) sarif.Level {
		if c.Weakens() {
			return sarif.Warning
		}
		return sarif.Note
	}
	return append(all, sarif.OfChanges(d.Changes, level, update.ChangeText, d.From, d.text())...)
}

// problemFindings places problems in files. A problem in a bundle's file is at the bundle's entry in the lock.
func problemFindings(l *paths.Lock, problems []check.Problem) []sarif.Finding {
	return sarif.OfProblems(problems, func(p check.Problem) (string, int) {
		if id, ok := strings.CutPrefix(p.Space, lockfile.System); ok && l != nil && !l.Id().IsZero() {
			return l.LockPath(), lockfile.LineOf(l.Text(), "bundles", id)
		}
		if l == nil || filepath.IsAbs(p.File) {
			return p.File, p.Line
		}
		return placeOf(l, p.File), p.Line
	})
}

// placeOf returns the full path of a file that is relative to the directory above .ai.
func placeOf(l *paths.Lock, file string) string {
	if l.User {
		return filepath.Join(l.DotAI, strings.TrimPrefix(file, workspace.MarkerDir+"/"))
	}
	return filepath.Join(l.Dir, filepath.FromSlash(file))
}
