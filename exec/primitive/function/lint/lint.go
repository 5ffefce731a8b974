// Package lint is the function that checks a file with the linters installed on this machine. The tool's options list
// the linters, their extensions and the format of their output; each linter runs in the sandbox of the call.
//
// How a call goes through here: run reads the options (readOptions), finds the file in the project (find) and chooses
// the linters for its extension (options.chosen). check starts each that is installed and reads its output by the
// linter's pattern (read). diagnostics sorts and bounds what they found, and lines writes it as text.
package lint

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
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

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/exec/primitive/function"
	"github.com/rye-build/rye/exec/proc"
	"github.com/rye-build/rye/exec/sandbox"
)

// Function returns the function, which runs linters on machine.
func Function(machine *sandbox.Machine) function.Function {
	return function.Seeking(function.Of(nil, func(ctx context.Context, c *function.Call, p params) (any, error) {
		return run(ctx, machine, c, p)
	}), programs)
}

// params are the parameters of tool:rye/lsp/lsp.
type params struct {
	File    string   `json:"file_path"`
	Linters []string `json:"linters"`
}

// options come from the tool: no linter is known to Go code.
type options struct {
	Types   map[string]string `json:"types"` // by extension
	Linters map[string]linter `json:"linters"`
}

// A linter is a program that checks a file.
type linter struct {
	Command    string   `json:"command"`
	Args       []string `json:"args"`
	Extensions []string `json:"extensions"`
	// "file": the file is the last argument; "directory", "project": the linter works there, without it
	Target   string `json:"target"`
	Pattern  string `json:"pattern"`
	Severity string `json:"severity"` // if the pattern has no group for it
	Message  string `json:"message"`
}

// Limits of one linter, and of what a call returns.
const (
	maxTime        = 30 * time.Second
	maxOutput      = 4 << 20 // bytes of one linter's output
	maxText        = 32768   // characters of the answer's text
	maxDiagnostics = 1000
)

// A diagnostic is one problem that a linter reports.
type diagnostic struct {
	Line     int    `json:"line"`
	Column   int    `json:"column"`
	Severity string `json:"severity"`
	Message  string `json:"message"`
	Code     string `json:"code"`
	Linter   string `json:"linter"`
}

func readOptions(given map[string]any) (o options, err error) {
	text, err := json.Marshal(given)
	if err != nil {
		return o, err
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&o); err != nil {
		return o, fmt.Errorf("invalid options of the tool: %w", err)
	}
	return o, nil
}

// extension returns a file's extension without the dot.
func extension(path string) string { return strings.TrimPrefix(filepath.Ext(path), ".") }

// chosen returns the linters for a file, sorted. Names, if any, restrict them.
func (o *options) chosen(file string, names []string) (chosen []string) {
	for name, l := range o.Linters {
		if slices.Contains(l.Extensions, extension(file)) && (len(names) == 0 || slices.Contains(names, name)) {
			chosen = append(chosen, name)
		}
	}
	slices.Sort(chosen)
	return chosen
}

// programs returns the commands that a call may start.
func programs(given map[string]any, p params) (commands []string) {
	o, err := readOptions(given)
	if err != nil {
		return nil // run returns the error
	}
	for _, name := range o.chosen(p.File, p.Linters) {
		if c := o.Linters[name].Command; c != "" && !slices.Contains(commands, c) {
			commands = append(commands, c)
		}
	}
	return commands
}

// A linting is the state of one call.
type linting struct {
	call    *function.Call
	machine *sandbox.Machine
	project string
	file    string // both without symbolic links

	found    []diagnostic
	problems []string
}

// run answers a call: every installed linter for the file checks it in the sandbox of the call.
func run(ctx context.Context, machine *sandbox.Machine, call *function.Call, params params) (any, error) {
	options, err := readOptions(call.Options)
	if err != nil {
		return nil, err
	}
	for _, name := range params.Linters {
		if _, ok := options.Linters[name]; !ok {
			return map[string]any{"success": false, "code": fault.Validation,
				"error": fmt.Sprintf("unknown linter %q", name),
				"why": []string{"expected one of " +
					strings.Join(slices.Sorted(maps.Keys(options.Linters)), ", ")}}, nil
		}
	}
	linting := &linting{call: call, machine: machine, project: osfile.Unlinked(call.Files.Project)}
	if linting.file, err = linting.find(params.File); err != nil {
		return nil, err
	}
	checked, missing := []string{}, []string{}
	for _, name := range options.chosen(params.File, params.Linters) {
		with := options.Linters[name]
		if _, there := call.Programs[with.Command]; !there {
			missing = append(missing, name)
			continue
		}
		checked = append(checked, name)
		if err := linting.check(ctx, name, &with); err != nil {
			return nil, err
		}
	}
	found, more := linting.diagnostics()
	output := strings.Join(linting.lines(found, checked, missing), "\n")
	if cut := firstRunes(output, maxText); cut != output {
		output, more = cut, true
	}
	return map[string]any{"success": true, "output": output, "diagnostics": found, "linters_checked": checked,
		"linters_missing": missing,
		"problems":        append([]string{}, linting.problems...),
		"file_type":       cmp.Or(options.Types[extension(params.File)], extension(params.File)),
		"truncated":       more}, nil
}

// find returns the real path of a file of the project. The sandbox decides whether it is readable.
func (l *linting) find(at string) (string, error) {
	if l.call.Files.Project == "" {
		return "", errors.New("not in a project")
	}
	path := filepath.Join(l.project, filepath.FromSlash(at))
	if filepath.IsAbs(at) {
		path = filepath.Clean(at)
	}
	path = osfile.Unlinked(path)
	if rel, err := filepath.Rel(l.project, path); err != nil || !filepath.IsLocal(rel) {
		return "", fmt.Errorf("%q is not in the project", at)
	}
	if info, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("%q not found", at)
	} else if !info.Mode().IsRegular() {
		return "", fmt.Errorf("%q is not a regular file", at)
	}
	return path, nil
}

// check runs one linter on the file, in the sandbox of the call and without network.
func (l *linting) check(ctx context.Context, name string, with *linter) error {
	pattern, err := regexp.Compile(with.Pattern)
	if with.Pattern == "" {
		err = errors.New("it is empty")
	}
	if err != nil {
		return fmt.Errorf("invalid pattern of the linter %q: %v", name, err)
	}
	program := l.call.Programs[with.Command]
	command := proc.Command{Path: program.Path, Program: program.File, Args: slices.Clone(with.Args), Env: l.call.Env,
		Dir: l.project}
	switch with.Target {
	case "", "file":
		command.Args = append(command.Args, l.file)
	case "directory":
		command.Dir = filepath.Dir(l.file)
	case "project":
	default:
		return fmt.Errorf("invalid target %[2]q of the linter %[1]q: expected file, directory or project", name,
			with.Target)
	}
	spec := l.call.Sandbox
	spec.Limits.Wall, spec.Limits.Output = maxTime, maxOutput
	spec.Network, spec.Most = sandbox.Network{}, true
	var out, errs bytes.Buffer
	command.Stdout, command.Stderr = &out, &errs
	ended, err := l.machine.Run(ctx, spec, command)
	if err != nil {
		return err
	}
	l.call.Confined(ended.Level, ended.Enforced)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	before := len(l.found)
	for _, text := range []string{out.String(), errs.String()} {
		l.found = append(l.found, l.read(name, with, pattern, command.Dir, text)...)
	}
	switch {
	case ended.Ended != "":
		l.problems = append(l.problems, fmt.Sprintf("%s was stopped: %s", name, ended.Ended))
	case len(l.found) == before && (ended.Exit.Code != 0 || ended.Exit.Signal != ""):
		output := firstRunes(strings.TrimSpace(cmp.Or(errs.String(), out.String())), 1000)
		l.problems = append(l.problems, fmt.Sprintf("%s exited with status %d %s: %s", name, ended.Exit.Code,
			ended.Exit.Signal, output))
	}
	return nil
}

// read finds the diagnostics about the file in a linter's output.
func (l *linting) read(name string, with *linter, pattern *regexp.Regexp, dir, text string) (found []diagnostic) {
	for line := range strings.Lines(text) {
		if len(found) > maxDiagnostics {
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
			if osfile.Unlinked(filepath.Clean(at)) != l.file {
				continue // about another file
			}
		}
		d := diagnostic{
			Severity: strings.ToLower(cmp.Or(group("severity"), with.Severity, "error")),
			Message:  cmp.Or(group("message"), with.Message), Code: group("code"), Linter: name,
		}
		d.Line, d.Column = max(position(group("line")), 1), position(group("column"))
		found = append(found, d)
	}
	return found
}

// position parses a line or column number; 0 if it is invalid.
func position(text string) int {
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		return 0
	}
	return max(int(n), 0)
}

// diagnostics returns the diagnostics, sorted by position and without duplicates, and whether the limit cut them.
func (l *linting) diagnostics() (found []diagnostic, more bool) {
	slices.SortStableFunc(l.found, func(x, y diagnostic) int {
		return cmp.Or(cmp.Compare(x.Line, y.Line), cmp.Compare(x.Column, y.Column), cmp.Compare(x.Message, y.Message))
	})
	found = append([]diagnostic{}, slices.CompactFunc(l.found, func(x, y diagnostic) bool {
		return x.Line == y.Line && x.Column == y.Column && x.Message == y.Message
	})...)
	if len(found) > maxDiagnostics {
		return found[:maxDiagnostics], true
	}
	return found, false
}

// lines returns the answer as text. It also reports that no linter checked the file, which is no success.
func (l *linting) lines(found []diagnostic, checked, missing []string) (lines []string) {
	rel, err := filepath.Rel(l.project, l.file)
	if err != nil {
		rel = l.file
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
		lines = append(lines, "no problems found by "+strings.Join(checked, ", "))
	case len(missing) > 0:
		lines = append(lines, "not checked: this machine has none of "+strings.Join(missing, ", "))
	default:
		lines = append(lines, "not checked: no linter for this type of file")
	}
	return lines
}

// firstRunes cuts a text after so many characters.
func firstRunes(text string, most int) string {
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
