package threads

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/exec/thread"
	"github.com/rye-build/rye/exec/thread/roster"
	"github.com/rye-build/rye/exec/thread/transcript"
)

// This file describes threads without a transcript: pruned, lost, or never begun.

// pruned is the state that rye thread list takes for threads whose directories were removed.
const pruned = "pruned"

// unread returns the threads of the project that have no transcript, by id. With an id it looks only for that
// thread.
func unread(a *cli.App, id string) (map[string]*roster.Thread, error) {
	state := a.Dir(cli.StatePlace)
	p, err := paths.Paths(a).FindProject()
	if err != nil || state.Err != nil {
		return nil, nil // an argument that is a file needs no project
	}
	rows, money := thread.Local(state.Value, a.Now)
	defer money.Shut()
	defer rows.Close()
	all, err := rows.Threads(context.Background(), roster.Filter{ID: id, Root: p.Root})
	missing := map[string]*roster.Thread{}
	for _, row := range all {
		if row.Pruned != nil || !transcript.Exists(row.Dir()) {
			missing[row.ID] = row
		}
	}
	return missing, err
}

// noTranscript returns the error for a thread without a transcript, with the reason.
func noTranscript(row *roster.Thread) error {
	if err := row.Gone(); err != nil {
		return err
	}
	failure := fault.New(fault.NotFound, "the thread %s has no transcript", row.ID).On("thread", row.ID).On("state",
		string(row.State))
	switch {
	case row.State == roster.Failed:
		failure.Because("it could not be started, or its transcript was removed")
	case row.State.Ended():
		failure.Because("it was removed")
	default:
		return failure.Because("the thread has not begun, or its transcript was removed").
			Try("rye thread wait " + fault.Quote(row.ID))
	}
	return failure.Try(fault.Command("rye run", row.Directive))
}

// wasPruned returns the row of a thread that was not found because it was pruned.
func wasPruned(a *cli.App, notFound error) (*roster.Thread, error) {
	f, ok := fault.Find(notFound)
	if !ok || f.Details["reason"] != pruned {
		return nil, nil
	}
	id, _ := f.Details["thread"].(string)
	all, err := unread(a, id)
	return all[id], err
}

// isRemoved reports whether a directory is a rest of a thread whose prune was interrupted.
func isRemoved(e fs.DirEntry) bool {
	return e.IsDir() && strings.HasPrefix(e.Name(), osfile.Unfinished)
}

// usesOf returns the usage of the model calls of a pruned thread.
func usesOf(row *roster.Thread) (all []transcript.SpendRow) {
	for _, u := range row.Pruned.Uses {
		all = append(all, transcript.SpendRow{Model: u.Model, Day: u.Day, Calls: u.Calls, Input: u.Input,
			Output: u.Output, Spend: u.Spend})
	}
	return all
}

// pruned returns the answer for a thread whose transcript was removed. It shows what remains and verifies nothing.
func (c *verifyRun) pruned(row *roster.Thread, err error) (cli.Answer, error) {
	if err != nil {
		return nil, err
	}
	pruned := row.Pruned
	report := &transcript.Report{Format: transcript.Format, Thread: row.ID, Status: string(row.State),
		Lines: pruned.Lines,
		Began: row.Created, Ended: row.Updated,
		Signed: transcript.Position{Seq: pruned.Line, Digest: pruned.Digest}, Machines: []transcript.Machine{},
		Models: []transcript.ModelUse{}, Tools: []transcript.ToolUse{}}
	f := fault.Of(row.Gone()).Asked()
	f.Hint = nil
	if pruned.Line > 0 {
		f.Because("an earlier export can be verified against the last signed line")
		f.Try("rye thread verify FILE --seen " + positionOf(pruned))
	}
	return &verified{Source: c.Thread, Report: report, Pruned: pruned, Signed: pruned.Line > 0 &&
		pruned.Line == pruned.Lines}, f
}

func positionOf(p *roster.Pruned) string { return fmt.Sprintf("%d/%s", p.Line, p.Digest) }

// shownPruned returns what remains of a pruned thread.
func shownPruned(row *roster.Thread) shown {
	if row == nil {
		return shown{}
	}
	s := shown{overview: overview{Thread: row.ID, Directive: strings.TrimPrefix(row.Directive, "directive:"),
		Status:  string(row.State),
		Created: row.Created.Format(timeForm), Spend: row.Pruned.Spend}, Events: []step{}, Pruned: row.Pruned}
	for _, u := range row.Pruned.Uses {
		s.Model = cmp.Or(s.Model, u.Model)
		s.Input, s.Output = s.Input+u.Input, s.Output+u.Output
	}
	return s
}

// prunedText prints what remains of a pruned thread.
func prunedText(term *cli.Terminal, id, status string, removed *roster.Pruned) {
	term.Printf("%s  %s\n", pruned, id)
	rows := [][]string{{"  status", status}, {"  pruned", removed.At.Format(time.RFC3339)},
		{"  cost", dollars(removed.Spend)}}
	if removed.Below > 0 {
		rows = append(rows, []string{"  children", dollars(removed.Below)})
	}
	for _, u := range removed.Uses {
		rows = append(rows, []string{"  model", fmt.Sprintf("%s  %s on %s, %d tokens in, %d out, %s", u.Model,
			fault.Count(u.Calls, "call"), u.Day, u.Input, u.Output, dollars(u.Spend))})
	}
	if rows = append(rows, []string{"  lines", strconv.FormatInt(removed.Lines, 10)}); removed.Line > 0 {
		rows = append(rows, []string{"  last signed", positionOf(removed)},
			[]string{"  signed by", "machine " + paths.Short(removed.Signer)})
	}
	term.Rows(rows)
}
