package threads

import (
	"context"
	"encoding/csv"
	"errors"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/exec/thread/roster"
	"github.com/rye-build/rye/exec/thread/transcript"
)

type costRun struct {
	Threads []string `arg:"" optional:"" name:"thread" complete:"thread" help:"Threads; default: all of the project."`
	By      []string `placeholder:"COLUMN" default:"model" help:"Group by model, day or directive; several with commas."`
	Csv     bool     `help:"Write comma-separated values."`
}

// costs is the answer of rye thread cost.
type costs struct {
	By    []string              `json:"by"`
	Rows  []transcript.SpendRow `json:"rows"`
	Total transcript.SpendRow   `json:"total"`
	// Partial lists the threads that could not be read to their end: some of their calls may be missing.
	Partial []string `json:"partial,omitempty"`
	csv     bool
}

func (c *costRun) Run(ctx context.Context, app *cli.App) (cli.Answer, error) {
	table, err := transcript.NewSpendTable(c.By)
	if err != nil {
		return nil, err
	}
	total, err := transcript.NewSpendTable(nil)
	if err != nil {
		return nil, err
	}
	removed, err := unread(app, "")
	if err != nil {
		return nil, err
	}
	maps.DeleteFunc(removed, func(_ string, row *roster.Thread) bool { return row.Pruned == nil })
	threads := c.Threads
	if len(threads) == 0 {
		if threads, err = allThreads(app); err != nil {
			return nil, err
		}
		for id := range removed { // an interrupted prune may have left the directory
			threads = append(slices.DeleteFunc(threads, func(dir string) bool {
				return strings.HasSuffix(filepath.ToSlash(dir), "/threads/"+id)
			}), id)
		}
	}
	ans := &costs{By: c.By, csv: c.Csv}
	seen := map[string]bool{}
	for _, name := range threads {
		if row := removed[name]; row != nil {
			if seen[name] {
				continue
			}
			seen[name] = true
			for _, t := range []*transcript.SpendTable{table, total} {
				t.Add(strings.TrimPrefix(row.Directive, "directive:"), usesOf(row))
			}
			continue
		}
		why, err := addUp(ctx, app, name, seen, table, total)
		if err != nil && len(c.Threads) == 0 && ctx.Err() == nil { // an unreadable thread doesn't hide the others
			why = "not counted: " + err.Error()
		} else if err != nil {
			return nil, err
		}
		if why != "" {
			app.Term.Warn("%s: %s", name, why)
			ans.Partial = append(ans.Partial, name)
		}
	}
	ans.Rows = table.Rows()
	for _, r := range total.Rows() {
		ans.Total = r
	}
	if len(ans.Rows) == 0 {
		app.Term.Note("no model calls")
	}
	return ans, nil
}

// allThreads returns the directories of the project's threads.
func allThreads(a *cli.App) (dirs []string, err error) {
	all, err := threadsDir(a)
	if err != nil {
		return nil, err
	}
	err = filepath.WalkDir(all, func(path string, e fs.DirEntry, err error) error {
		if err == nil && isRemoved(e) {
			return fs.SkipDir
		}
		if err == nil && !e.IsDir() && e.Name() == transcript.LinesFile {
			dirs = append(dirs, filepath.Dir(path))
		}
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		err = nil // no thread yet
	}
	return dirs, err
}

// errSeen ends the reading of a thread that was counted before: it was named twice, or a copy of it exists.
var errSeen = errors.New("counted already")

// addUp counts the usage of a thread, unless seen has it. If the transcript is damaged, it counts the lines before
// the damage and returns why.
func addUp(ctx context.Context, app *cli.App, name string, seen map[string]bool,
	tables ...*transcript.SpendTable) (why string, err error) {
	source, done, err := find(app, name)
	if err != nil {
		return "", err
	}
	defer done()
	if err := source.unpack(ctx); err != nil {
		return "", err
	}
	var to []*transcript.SpendThread
	err = source.follow(ctx, nil, func(step step) error {
		at, err := time.Parse(timeForm, step.Time)
		if to == nil {
			if seen[step.thread] {
				return errSeen
			}
			seen[step.thread] = true
			for _, t := range tables {
				to = append(to, t.Thread(epoch().ReplaceAllString(step.thread, ""), source.v1))
			}
		}
		for _, t := range to {
			t.Take(at, step.Payload)
		}
		return err
	})
	if errors.Is(err, errSeen) {
		app.Term.Warn("%s: counted once, because it was found twice", name)
		return "", nil
	}
	if f, ok := fault.Find(err); ok && f.Details["reason"] == "transcript" {
		return "counted up to " + f.Text, nil
	}
	return "", err
}

// columns returns the columns that group the calls, in the order of the rows.
func (c *costs) columns() (names []string) {
	for _, name := range []string{"day", "model", "directive"} {
		if slices.Contains(c.By, name) {
			names = append(names, name)
		}
	}
	return names
}

// cells returns a row as text, with money in dollars.
func (c *costs) cells(r *transcript.SpendRow) (cells []string) {
	for _, name := range c.columns() {
		cells = append(cells, r.Value(name))
	}
	return append(cells, number(r.Threads), number(r.Calls), number(r.Input), number(r.Output), decimal(r.Spend))
}

func (c *costs) table() [][]string {
	rows := [][]string{append(c.columns(), "threads", "calls", "input_tokens", "output_tokens", "dollars")}
	for i := range c.Rows {
		rows = append(rows, c.cells(&c.Rows[i]))
	}
	return rows
}

// Text prints a table with its total, or comma-separated values.
func (c *costs) Text(term *cli.Terminal) {
	rows := c.table()
	if c.csv {
		io.WriteString(term.Data, commas(rows))
		return
	}
	if names := c.columns(); len(c.Rows) > 1 && len(names) > 0 {
		total := c.cells(&c.Total)
		total[0] = "total"
		rows = append(rows, total)
	}
	term.Rows(rows)
}

// commas returns rows as comma-separated values.
func commas(rows [][]string) string {
	var b strings.Builder
	w := csv.NewWriter(&b)
	w.WriteAll(rows) // a Builder returns no errors
	return b.String()
}

// decimal returns an amount of money in dollars, exactly.
func decimal(nano int64) string {
	whole, rest := number(nano/1e9), number(1e9 + nano%1e9)[1:]
	for len(rest) > 2 && strings.HasSuffix(rest, "0") {
		rest = rest[:len(rest)-1]
	}
	return whole + "." + rest
}
