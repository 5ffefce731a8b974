package sarif

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/rye-build/rye/ai/check"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
	lockfile "github.com/rye-build/rye/lock/file"
	"github.com/rye-build/rye/lock/workspace"
)

// This file collects the findings of a command and renders them in the format of --format.

// A Level is the severity of a finding, named as in SARIF.
type Level string

// The levels. An Error makes the exit status 1.
const (
	Error   Level = "error"
	Warning Level = "warning"
	Note    Level = "note"
)

// A Finding is a problem or a difference that a check reports.
type Finding struct {
	Code    fault.Code
	Level   Level
	File    string // relative to the working directory, or absolute
	Line    int    // 0: the whole file
	Column  int    // in characters; 0: unknown
	Name    string // of the item or bundle; may be empty
	Message string
	Hint    []string // commands to paste
}

// A Source is an answer that has findings.
type Source interface {
	cli.Answer
	Findings() []Finding
	Extent() string // what was checked: "3 items"
}

// A tabler is a Source that has a table in addition to its findings. Only Markdown shows it. Its cells are Markdown.
type tabler interface {
	Table() (head []string, rows [][]string)
}

// A Report has the findings of one command.
type Report struct {
	Command  string // "lock --check"
	Version  string // of rye
	Checked  string // what was checked; empty if the command failed before
	Findings []Finding
	Fault    *fault.Error // the command's error; nil if it succeeded
	head     []string     // of the tabler's table
	rows     [][]string
}

// A Flag is the flag --format of a command with findings.
type Flag struct {
	Format string `enum:"text,sarif,markdown" default:"text" help:"Format: ${enum}."`
}

// Render runs a command and turns its answer into a document of the requested format. Text returns the answer
// itself.
func (f Flag) Render(app *cli.App, command string, run func() (cli.Answer, error)) (cli.Answer, error) {
	if f.Format == "text" || f.Format == "" {
		return run()
	}
	if app.Globals.JSON {
		return nil, fault.New(fault.Validation, "--json and --format can't be combined").Try("rye "+command+" --json",
			"rye "+command+" --format "+f.Format)
	}
	ans, err := run()
	report := &Report{Command: command, Version: cli.ThisVersion().Version}
	if err != nil {
		if report.Fault = fault.Of(err); report.Fault.Line().Exit == fault.ExitInterrupted {
			return nil, err
		}
	}
	if from, ok := ans.(Source); ok {
		report.Findings, report.Checked = from.Findings(), from.Extent()
	}
	if from, ok := ans.(tabler); ok {
		report.head, report.rows = from.Table()
	}
	root, base := projectOf(app)
	report.explain(root)
	for i := range report.Findings {
		f := &report.Findings[i]
		f.File, f.Message = relative(app, base, f.File), shorten(base, f.Message)
	}
	if report.Fault != nil {
		report.Fault.Text = shorten(base, report.Fault.Text)
		for i := range report.Fault.Why {
			report.Fault.Why[i] = shorten(base, report.Fault.Why[i])
		}
	}
	report.sort()
	write := report.SARIF
	if f.Format == "markdown" {
		write = func() ([]byte, error) { return report.Markdown(), nil }
	}
	doc, failed := write()
	if failed != nil {
		return nil, failed
	}
	return document(doc), err
}

// A document is a rendered report, used as an answer.
type document []byte

// Text writes the document. Neither format contains control characters.
func (d document) Text(t *cli.Terminal) { t.Printf("%s", cli.Styled(d)) }

// explain adds the command's error as a finding if no finding is an error.
func (r *Report) explain(root string) {
	if r.Fault == nil || slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Level == Error }) {
		return
	}
	file, _ := r.Fault.Details["file"].(string)
	if path, ok := r.Fault.Details["path"].(string); ok && file == "" {
		file = path
	}
	line, _ := r.Fault.Details["line"].(int)
	column, _ := r.Fault.Details["column"].(int)
	if file == "" { // without a file, a line means nothing
		file, line, column = filepath.Join(root, workspace.MarkerFile), 0, 0
	}
	r.Findings = append(r.Findings, Finding{Code: r.Fault.Line().Code, Level: Error, File: file, Line: line,
		Column:  column,
		Message: strings.Join(append([]string{r.Fault.Text}, r.Fault.Why...), "; "), Hint: r.Fault.Hint})
}

func (r *Report) sort() {
	slices.SortStableFunc(r.Findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column),
			cmp.Compare(a.Code, b.Code), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Message, b.Message))
	})
}

// count returns how many findings have a level.
func (r *Report) count(level Level) (n int) {
	for _, f := range r.Findings {
		if f.Level == level {
			n++
		}
	}
	return n
}

// OfProblems turns problems of items into findings. place returns the file and line of a problem; nil: the
// problem's own.
func OfProblems(problems []check.Problem, place func(check.Problem) (file string, line int)) (all []Finding) {
	for _, p := range problems {
		f := Finding{Code: p.Code, Level: Level(p.Severity), File: p.File, Line: p.Line, Column: p.Column, Name: p.Ref,
			Message: p.Message}
		if place != nil {
			if f.File, f.Line = place(p); f.Line != p.Line {
				f.Column = 0
			}
		}
		all = append(all, f)
	}
	return all
}

// OfChanges turns changes between locks into findings, each at its entry in the older lock.
func OfChanges(changes []lockfile.Change, level func(lockfile.Change) Level, text func(lockfile.Change) string,
	file string, content []byte) (all []Finding) {
	for _, c := range changes {
		all = append(all, Finding{Code: fault.LockMismatch, Level: level(c), File: file, Line: c.Line(content),
			Name: c.Name, Message: text(c)})
	}
	return all
}

// projectOf returns the project's root, or the working directory, and the directory that places are relative to:
// the directory with .git, which code scanning calls the root, else the project's root.
func projectOf(a *cli.App) (root, base string) {
	root = a.Absolute(cli.Setting{Value: "."}).Value
	if p, err := paths.Paths(a).FindProject(); err == nil && p.Root != "" {
		root = p.Root
	}
	for dir := root; ; dir = filepath.Dir(dir) {
		if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil {
			return root, dir
		}
		if dir == filepath.Dir(dir) {
			return root, root
		}
	}
}

// shorten removes the base directory from a text, because it is a path of this machine.
func shorten(base, text string) string {
	for _, dir := range withReal(base) {
		text = strings.ReplaceAll(strings.ReplaceAll(text, dir+string(filepath.Separator), ""), strconv.Quote(dir),
			`"."`)
	}
	return text
}

// withReal returns a directory, and the same directory without symbolic links if that differs.
func withReal(dir string) []string {
	if real, err := filepath.EvalSymlinks(dir); err == nil && real != dir {
		return []string{dir, real}
	}
	return []string{dir}
}

// relative returns the path of a file below base, with slashes. For a file outside of base it keeps only the name,
// because the directories are this machine's. A file in no directory keeps its name, which begins with its space.
func relative(a *cli.App, base, file string) string {
	full := a.Absolute(cli.Setting{Value: file})
	if full.Err != nil {
		return filepath.ToSlash(file)
	}
	for _, dir := range withReal(base) {
		if rel, err := filepath.Rel(dir, full.Value); err == nil && filepath.IsLocal(rel) {
			if label, _, ok := strings.Cut(file, "/"); ok && strings.HasPrefix(label, lockfile.System) {
				break // the space of a bundle
			}
			return filepath.ToSlash(rel)
		}
	}
	if filepath.IsAbs(file) {
		return "../" + filepath.Base(file)
	}
	return filepath.ToSlash(file)
}
