package functions

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/runs"
	"github.com/rye-build/rye/cmd/rye/spaces"
	"github.com/rye-build/rye/exec/primitive/function"
	"github.com/rye-build/rye/exec/proc"
	"github.com/rye-build/rye/exec/sandbox"
	"github.com/rye-build/rye/lock/workspace"
)

// lintParams are those of tool:rye/lsp/lsp.
type lintParams struct {
	File    string   `json:"file_path"`
	Linters []string `json:"linters"`
}

// lintOptions is what the tool says of linters: there are none that Go code knows.
type lintOptions struct {
	Types   map[string]string `json:"types"` // by extension
	Linters map[string]Linter `json:"linters"`
}

// A Linter is a program that finds fault with a file.
type Linter struct {
	Command    string   `json:"command"`
	Args       []string `json:"args"`
	Extensions []string `json:"extensions"`
	Target     string   `json:"target"` // "file": it is the last argument; "directory", "project": where it works, and no argument
	Pattern    string   `json:"pattern"`
	Severity   string   `json:"severity"` // where the pattern has none
	Message    string   `json:"message"`
}

// What one linter may take, and all of them may say.
const (
	lintTime   = 30 * time.Second
	lintOutput = 4 << 20
	lintTold   = 32768 // characters of the output
	LintFound  = 1000
)

// A diagnostic is one fault.
type diagnostic struct {
	Line     int    `json:"line"`
	Column   int    `json:"column"`
	Severity string `json:"severity"`
	Message  string `json:"message"`
	Code     string `json:"code"`
	Linter   string `json:"linter"`
}

func readLintOptions(options map[string]any) (o lintOptions, err error) {
	text, err := json.Marshal(options)
	if err != nil {
		return o, err
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&o); err != nil {
		return o, fmt.Errorf("what the tool says of linters can't be read: %w", err)
	}
	return o, nil
}

// extension is that of a file, without the dot.
func extension(path string) string { return strings.TrimPrefix(filepath.Ext(path), ".") }

// chosen are the linters for a file, sorted; those of names alone if there are any.
func (o *lintOptions) chosen(file string, names []string) (chosen []string) {
	for name, l := range o.Linters {
		if slices.Contains(l.Extensions, extension(file)) && (len(names) == 0 || slices.Contains(names, name)) {
			chosen = append(chosen, name)
		}
	}
	slices.Sort(chosen)
	return chosen
}

// lintSeeks are the programs that there may be.
func lintSeeks(options map[string]any, p lintParams) (commands []string) {
	o, err := readLintOptions(options)
	if err != nil {
		return nil // the function says it
	}
	for _, name := range o.chosen(p.File, p.Linters) {
		if c := o.Linters[name].Command; c != "" && !slices.Contains(commands, c) {
			commands = append(commands, c)
		}
	}
	return commands
}

// A Linting is one call.
type Linting struct {
	call    *function.Call
	machine *sandbox.Machine
	Project string
	File    string // both without links

	Found    []diagnostic
	problems []string
}

func lintFunction(ctx context.Context, a *cli.App, c *function.Call, p lintParams) (any, error) {
	o, err := readLintOptions(c.Options)
	if err != nil {
		return nil, err
	}
	for _, name := range p.Linters {
		if _, ok := o.Linters[name]; !ok {
			return no(ctx, spaces.UnknownName("linter", name, slices.Sorted(maps.Keys(o.Linters))))
		}
	}
	l := &Linting{call: c, machine: runs.Machine(a), Project: cli.Unlinked(c.Files.Project)}
	if l.File, err = l.find(p.File); err != nil {
		return nil, err
	}
	checked, missing := []string{}, []string{}
	for _, name := range o.chosen(p.File, p.Linters) {
		with := o.Linters[name]
		if _, there := c.Programs[with.Command]; !there {
			missing = append(missing, name)
			continue
		}
		checked = append(checked, name)
		if err := l.run(ctx, name, &with); err != nil {
			return nil, err
		}
	}
	found, more := l.Told()
	output := strings.Join(l.lines(found, checked, missing), "\n")
	if cut := FirstRunes(output, lintTold); cut != output {
		output, more = cut, true
	}
	return map[string]any{"success": true, "output": output, "diagnostics": found, "linters_checked": checked, "linters_missing": missing,
		"problems": runs.OrNone(l.problems), "file_type": cmp.Or(o.Types[extension(p.File)], extension(p.File)), "truncated": more}, nil
}

// find returns where a file of the project is. Whether it may be read the sandbox says.
func (l *Linting) find(at string) (string, error) {
	if l.call.Files.Project == "" {
		return "", workspace.ErrNoProject
	}
	path := filepath.Join(l.Project, filepath.FromSlash(at))
	if filepath.IsAbs(at) {
		path = filepath.Clean(at)
	}
	path = cli.Unlinked(path)
	if rel, err := filepath.Rel(l.Project, path); err != nil || !filepath.IsLocal(rel) {
		return "", fmt.Errorf("%q isn't in the project", at)
	}
	if info, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("%q isn't there", at)
	} else if !info.Mode().IsRegular() {
		return "", fmt.Errorf("%q is no file", at)
	}
	return path, nil
}

// run has one linter look at the file, in the sandbox of the call and without a network.
func (l *Linting) run(ctx context.Context, name string, with *Linter) error {
	pattern, err := regexp.Compile(with.Pattern)
	if err != nil || with.Pattern == "" {
		return fmt.Errorf("the pattern of the linter %q is none: %v", name, err)
	}
	program := l.call.Programs[with.Command]
	c := proc.Command{Path: program.Path, Program: program.File, Args: slices.Clone(with.Args), Env: l.call.Env, Dir: l.Project}
	switch with.Target {
	case "", "file":
		c.Args = append(c.Args, l.File)
	case "directory":
		c.Dir = filepath.Dir(l.File)
	case "project":
	default:
		return fmt.Errorf("the target of the linter %q is %q: expected file, directory or project", name, with.Target)
	}
	spec := l.call.Sandbox
	spec.Limits.Wall, spec.Limits.Output = lintTime, lintOutput
	spec.Network, spec.Most = sandbox.Network{}, true
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	ended, err := l.machine.Run(ctx, spec, c)
	if err != nil {
		return err
	}
	l.call.Confined(ended.Level, ended.Enforced)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	before := len(l.Found)
	for _, text := range []string{out.String(), errs.String()} {
		l.Found = append(l.Found, l.Read(name, with, pattern, c.Dir, text)...)
	}
	switch {
	case ended.Ended != "":
		l.problems = append(l.problems, fmt.Sprintf("%s was stopped: %s", name, ended.Ended))
	case len(l.Found) == before && (ended.Exit.Code != 0 || ended.Exit.Signal != ""):
		said := FirstRunes(strings.TrimSpace(cmp.Or(errs.String(), out.String())), 1000)
		l.problems = append(l.problems, fmt.Sprintf("%s ended with the status %d %s: %s", name, ended.Exit.Code, ended.Exit.Signal, said))
	}
	return nil
}

// Read finds what a linter says of the file in what it has written.
func (l *Linting) Read(name string, with *Linter, pattern *regexp.Regexp, dir, text string) (found []diagnostic) {
	for line := range strings.Lines(text) {
		if len(found) > LintFound {
			break
		}
		m := pattern.FindStringSubmatch(strings.TrimRight(strings.ToValidUTF8(line, "\ufffd"), "\r\n"))
		if m == nil {
			continue
		}
		group := func(name string) string {
			if i := pattern.SubexpIndex(name); i >= 0 {
				return m[i]
			}
			return ""
		}
		if at := group("file"); at != "" {
			if !filepath.IsAbs(at) {
				at = filepath.Join(dir, at)
			}
			if cli.Unlinked(filepath.Clean(at)) != l.File {
				continue // it is about another one
			}
		}
		d := diagnostic{
			Severity: strings.ToLower(cmp.Or(group("severity"), with.Severity, "error")),
			Message:  cmp.Or(group("message"), with.Message), Code: group("code"), Linter: name,
		}
		d.Line, d.Column = max(lintPlace(group("line")), 1), lintPlace(group("column"))
		found = append(found, d)
	}
	return found
}

// lintPlace is the number of a line or a column, 0 for what can be none.
func lintPlace(text string) int {
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		return 0
	}
	return max(int(n), 0)
}

// Told are the faults by where they are, each once whoever found it, and whether there are more than are told.
func (l *Linting) Told() (found []diagnostic, more bool) {
	slices.SortStableFunc(l.Found, func(x, y diagnostic) int {
		return cmp.Or(cmp.Compare(x.Line, y.Line), cmp.Compare(x.Column, y.Column), cmp.Compare(x.Message, y.Message))
	})
	found = append([]diagnostic{}, slices.CompactFunc(l.Found, func(x, y diagnostic) bool {
		return x.Line == y.Line && x.Column == y.Column && x.Message == y.Message
	})...)
	if len(found) > LintFound {
		return found[:LintFound], true
	}
	return found, false
}

// lines are what a person reads. That nobody looked is no praise.
func (l *Linting) lines(found []diagnostic, checked, missing []string) (lines []string) {
	rel, err := filepath.Rel(l.Project, l.File)
	if err != nil {
		rel = l.File
	}
	for _, d := range found {
		line := fmt.Sprintf("%s:%d:%d: %s: %s", filepath.ToSlash(rel), d.Line, d.Column, d.Severity, d.Message)
		if d.Code != "" {
			line += " [" + d.Code + "]"
		}
		lines = append(lines, line+" ("+d.Linter+")")
	}
	lines = append(lines, l.problems...)
	switch {
	case len(lines) > 0:
	case len(checked) > 0:
		lines = append(lines, "nothing was found by "+strings.Join(checked, ", "))
	case len(missing) > 0:
		lines = append(lines, "nobody looked: this machine has none of "+strings.Join(missing, ", "))
	default:
		lines = append(lines, "nobody looked: there is no linter for such a file")
	}
	return lines
}

// FirstRunes is the beginning of a text, so many characters at most.
func FirstRunes(text string, most int) string {
	if len(text) <= most || utf8.RuneCountInString(text) <= most {
		return text
	}
	for i := range text {
		if most == 0 {
			return text[:i]
		}
		most--
	}
	return text
}
