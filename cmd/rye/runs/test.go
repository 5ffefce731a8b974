package runs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/check"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/cmd/rye/spaces"
	"github.com/rye-build/rye/exec"
	"github.com/rye-build/rye/exec/example"
	"github.com/rye-build/rye/manifest/policy/floor"
)

type testRun struct {
	Tools []string `arg:"" optional:"" name:"tool" complete:"test|path" help:"Refs, globs, files or directories."`
	Jobs  *int     `short:"j" placeholder:"N" help:"Number of parallel runs; default: one per processor."`
	mode
}

type testAnswer struct {
	Passed  int        `json:"passed"`
	Failed  int        `json:"failed"`
	Without int        `json:"without"` // tools that have no examples
	Tools   []testTool `json:"tools"`
}

// A testTool is the result of one tool or directive. A tool with an Error has no examples that could run.
type testTool struct {
	Ref      string        `json:"ref"`
	Digest   string        `json:"digest,omitempty"`
	Error    *testError    `json:"error,omitempty"`
	Examples []testExample `json:"examples"`
}

type testError struct {
	Code    fault.Code `json:"code"`
	Message string     `json:"message"`
	Why     []string   `json:"why,omitempty"`
}

type testExample struct {
	Name        string               `json:"name"`
	Passed      bool                 `json:"passed"`
	Call        string               `json:"call,omitempty"`
	Code        string               `json:"code,omitempty"` // of the error that ended it
	Why         []string             `json:"why,omitempty"`  // why it failed
	Differences []example.Difference `json:"differences"`
	DurationMS  int64                `json:"duration_ms"`
	Receipt     string               `json:"receipt,omitempty"`
}

func (c *testRun) Run(ctx context.Context, app *cli.App) (cli.Answer, error) {
	if c.Jobs != nil && *c.Jobs < 1 {
		return nil, fault.New(fault.Validation, "--jobs must be at least 1")
	}
	found, err := c.candidates(ctx, app)
	if err != nil {
		return nil, err
	}
	ans := &testAnswer{Tools: []testTool{}}
	if len(found) == 0 {
		return ans, nil
	}
	opened, err := c.open(ctx, app)
	if err != nil {
		return nil, err
	}
	defer opened.Close()
	var all []*trial
	for _, f := range found {
		at := len(ans.Tools)
		ans.Tools = append(ans.Tools, testTool{Ref: f.ref.String(), Examples: []testExample{}})
		var more []*trial
		if f.ref.Kind == "directive" && f.err == nil {
			err = c.play(ctx, app, opened, f, &ans.Tools[at])
		} else {
			more, err = c.trials(ctx, opened, f, &ans.Tools[at])
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err != nil {
			t := fault.Of(err)
			ans.Tools[at].Error = &testError{t.Code, t.Text, t.Why}
		}
		for _, t := range more {
			t.tool = at
			all = append(all, t)
		}
	}
	if err := c.tryAll(ctx, app, opened, all); err != nil {
		return nil, err
	}
	ans.add(all)
	if ans.Failed > 0 {
		return ans, ans.fault()
	}
	return ans, nil
}

// A candidate is a tool or a directive to test. If its model is missing, opening the item reports why.
type candidate struct {
	ref        model.Ref
	empty      bool            // it has no examples
	recordings []recordingFile // of a directive
	err        error
}

// candidates returns the tools and directives that the arguments select, each once, in order.
func (c *testRun) candidates(ctx context.Context, app *cli.App) ([]candidate, error) {
	items, err := spaces.OpenItems(ctx, app)
	if err != nil {
		return nil, err
	}
	defer items.Close()
	only := (*ai.Space)(nil)
	if len(c.Tools) == 0 {
		only = items.Own()
	}
	tools := make([]string, len(c.Tools))
	for i, text := range c.Tools {
		tools[i] = toolArg(app, text)
	}
	sel, err := items.Selected(ctx, only, tools...)
	if err != nil {
		return nil, err
	}
	var list []candidate
	var files []ai.File
	matched := false
	for _, f := range sel.Files {
		switch {
		case f.Ref.Kind != "tool" && f.Ref.Kind != "directive" && f.Named:
			return nil, onlyTool(f.Ref)
		case f.Ref.Kind == "directive" && !f.Named && len(recorded(f.File)) == 0:
			matched = true
		case (f.Ref.Kind == "tool" || f.Ref.Kind == "directive") && !slices.ContainsFunc(files, func(g ai.File) bool {
			return g.Ref == f.Ref
		}):
			files = append(files, f.File)
		}
	}
	for _, p := range sel.Problems {
		if p.Ref.Kind == "tool" {
			list = append(list, candidate{ref: p.Ref, err: p})
		}
	}
	var mu sync.Mutex
	err = items.Each(ctx, files, func(i int, it *ai.Item, err error) {
		named := slices.ContainsFunc(sel.Files, func(f check.Chosen) bool { return f.Ref == files[i].Ref && f.Named })
		candidate := candidate{ref: files[i].Ref, err: err}
		switch {
		case err != nil && errors.Is(err, ai.ErrAsset) && !named:
			return
		case err == nil && it.Model.Directive != nil:
			candidate.recordings = readAll(files[i])
		case err == nil && it.Model.Tool.Primitive && !named:
			mu.Lock()
			defer mu.Unlock()
			matched = true
			return // a primitive is part of rye
		case err == nil && it.Model.Tool.Primitive:
			candidate.err = exec.NotExecutable(candidate.ref)
		case err == nil:
			candidate.empty = len(it.Model.Tool.Examples) == 0
		}
		mu.Lock()
		defer mu.Unlock()
		list = append(list, candidate)
	})
	if err != nil {
		return nil, err
	}
	if len(list) == 0 && !matched {
		return nil, items.Nothing(ctx, tools)
	}
	slices.SortFunc(list, func(x, y candidate) int { return cmp.Compare(x.ref.String(), y.ref.String()) })
	return list, nil
}

// A trial is one example and its outcome.
type trial struct {
	tool    int // in the answer
	item    *ai.Item
	example *model.Example
	outcome *example.Outcome
}

// trials returns the examples of a tool that can run. An error says why it can't run.
func (c *testRun) trials(ctx context.Context, s *Opened, f candidate, tool *testTool) ([]*trial, error) {
	if f.err != nil {
		return nil, f.err
	}
	if f.empty && !c.Pinned { // the pinned version may have examples
		return nil, nil
	}
	it, err := s.Tool(ctx, f.ref)
	if err != nil {
		return nil, err
	}
	tool.Digest = it.Raw.String()
	var all []*trial
	for i := range it.Model.Tool.Examples {
		all = append(all, &trial{item: it, example: &it.Model.Tool.Examples[i]})
	}
	return all, nil
}

// tryAll runs examples in parallel, at most --jobs at a time.
func (c *testRun) tryAll(ctx context.Context, app *cli.App, opened *Opened, all []*trial) error {
	if len(all) == 0 {
		return nil
	}
	r := &example.Runner{Prepare: opened.Prepare, Scratch: opened.Scratch, Code: func(err error) string {
		return string(fault.Of(err).Code)
	}}
	err := cas.Parallel(ctx, cli.Value(c.Jobs), len(all), func(ctx context.Context, i int) (err error) {
		t := all[i]
		t.outcome, err = r.Run(ctx, t.item.Ref, t.item.Model.Tool, t.example)
		return err
	})
	if logged := opened.Close(); logged != nil && err == nil {
		err = logged
	}
	for i, trial := range all {
		if trial.outcome == nil {
			continue
		}
		if trial.outcome.Damage != nil {
			app.Term.Warn("a cached copy of the tool's files was damaged and made again: %s", trial.outcome.Damage)
		}
		first := i == 0 || all[i-1].item != trial.item
		if first && !trial.outcome.Receipt.IsZero() && trial.outcome.Level < floor.Landlock {
			app.Term.Warn(
				"%s ran without a sandbox for files and system calls, which this machine doesn't have: rye doctor",
				trial.item.Ref)
		}
	}
	return err
}

// add counts the outcomes of the examples and adds them to their tools.
func (x *testAnswer) add(all []*trial) {
	for _, trial := range all {
		o := trial.outcome
		e := testExample{Name: trial.example.Name, Passed: o.Passed(), Call: o.Call, Code: o.Code,
			DurationMS:  o.Duration.Milliseconds(),
			Differences: append([]example.Difference{}, o.Differences...), Receipt: paths.DigestText(o.Receipt)}
		if !e.Passed {
			e.Why = why(o)
		}
		if trial.example.Wrong != nil && e.Name == "" {
			e.Name = trial.example.Wrong.Field
		}
		tool := &x.Tools[trial.tool]
		tool.Examples = append(tool.Examples, e)
	}
	for i := range x.Tools {
		tool := &x.Tools[i]
		switch {
		case tool.Error != nil:
			x.Failed++
		case len(tool.Examples) == 0:
			x.Without++
		}
		for _, e := range tool.Examples {
			if e.Passed {
				x.Passed++
			} else {
				x.Failed++
			}
		}
	}
}

// why returns the reason why an example failed.
func why(o *example.Outcome) []string {
	if o.Err != nil {
		f := fault.Of(o.Err)
		return append([]string{f.Text}, f.Why...)
	}
	if o.Failure == "" {
		return nil
	}
	lines := strings.Split(strings.TrimRight(o.Failure, "\n"), "\n")
	return lines[max(0, len(lines)-fault.MaxLines):]
}

func (x *testAnswer) fault() *fault.Error {
	refused := 0
	for _, t := range x.Tools {
		if t.Error != nil {
			refused++
		}
	}
	var failed []string
	if n := x.Failed - refused; n > 0 {
		failed = append(failed, fmt.Sprintf("%d of %s didn't pass", n, fault.Count(int64(n+x.Passed), "example")))
	}
	if refused > 0 {
		failed = append(failed, fault.Count(int64(refused), "tool")+" can't be run")
	}
	f := fault.New(fault.Failed, "%s", strings.Join(failed, ", and "))
	if refused > 0 {
		return f.Asked()
	}
	return f.Answer()
}

// mostShown is how many bytes of a value are shown.
const mostShown = 200

func (x *testAnswer) Text(term *cli.Terminal) {
	failed := term.Stdout.Paint(cli.RoleError, "FAIL", term.Ascii)
	for _, tool := range x.Tools {
		if tool.Error != nil {
			term.Printf("%s  %s  %s\n", failed, tool.Ref, tool.Error.Message)
			for _, line := range tool.Error.Why {
				term.Printf("      %s\n", line)
			}
			continue
		}
		if len(tool.Examples) == 0 {
			what := "examples"
			if strings.HasPrefix(tool.Ref, "directive:") {
				what = "recordings"
			}
			term.Printf("none  %s  has no %s\n", tool.Ref, what)
		}
		for _, testExample := range tool.Examples {
			if testExample.Passed {
				term.Printf("%s  %s  %s\n", term.Stdout.Paint(cli.RoleGood, "ok  ", term.Ascii), tool.Ref,
					testExample.Name)
				continue
			}
			term.Printf("%s  %s  %s\n", failed, tool.Ref, testExample.Name)
			for i, d := range testExample.Differences {
				if i == fault.MaxLines {
					term.Printf("      and %d more\n", len(testExample.Differences)-i)
					break
				}
				term.Printf("      %s\n        expected  %s\n        found     %s\n", d.Path, valueText(d.Expected),
					valueText(d.Found))
			}
			for _, line := range testExample.Why {
				term.Printf("      %s\n", line)
			}
		}
	}
	if len(x.Tools) == 0 {
		term.Printf("0 items\n")
		return
	}
	term.Printf("%d passed, %d failed, %d untested\n", x.Passed, x.Failed, x.Without)
}

// valueText returns a value as it is shown.
func valueText(v []byte) string {
	if v == nil {
		return "nothing"
	}
	if s := string(v); len(s) <= mostShown {
		return s
	}
	return strings.ToValidUTF8(string(v[:mostShown]), "") + fmt.Sprintf("… (%d bytes)", len(v))
}
