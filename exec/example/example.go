// Package example is the runner for the examples of tools: it reports where a call differs from its example.
//
// An example (package ai/model/declared) is an ordinary call by the same kernel: admitted, granted, confined,
// recorded. Only its project differs: a directory that is created for the example and removed afterwards, with
//
//   - the example's files,
//   - the files of every project, empty unless the example has them: .ai, .git, rye.lock, rye.yaml,
//   - the directories that the tool declares under files: write, unless the example has a file there.
//
// Package environments (.venv, node_modules) are those of the tool's own project.
//
// # Comparison
//
// An example passes if the call ends as expected: with success, or with the code under error, and with the status
// under exit. The call's value is compared with result: for an object only the members that result names, each by the
// same rule; for an array all items in order; numbers by value (1 equals 1.0); anything else exactly. A file under
// expect_files must have exactly that text; null means that it must not exist, and a link doesn't count as a file.
// After an unexpected end nothing else is compared.
package example

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/exec"
	"github.com/rye-build/rye/exec/audit/record"
	"github.com/rye-build/rye/exec/materialise"
	"github.com/rye-build/rye/exec/template/params"
	"github.com/rye-build/rye/manifest/jcs"
	"github.com/rye-build/rye/manifest/policy/floor"
)

// A Runner runs examples. It is safe for concurrent use.
type Runner struct {
	Prepare func(context.Context, *exec.Call) (*exec.Plan, error)
	Scratch func(context.Context) (*materialise.Scratch, error)
	// Code returns the code of an error, as examples spell it.
	Code func(error) string
}

// An Outcome is the result of an example.
type Outcome struct {
	Call        string // its id; "" if no call was made
	Differences []Difference
	Code        string // of the error that ended it; "" for success
	Failure     string // the failure's reason, in the tool's words
	Err         error  // why the call was refused
	Duration    time.Duration
	Receipt     cas.Digest
	Level       floor.Level // the enforced level; only with a Receipt
	Damage      error       // damage of an earlier copy of the tool's files
}

// Passed reports whether the call matched the example.
func (o *Outcome) Passed() bool { return len(o.Differences) == 0 }

// A Difference is a mismatch between an example and its call. Expected or Found is nil for a missing value.
type Difference struct {
	Path     string          `json:"path"` // "error", "exit", "result.items[2].name", "expect_files.out/a.txt"
	Expected json.RawMessage `json:"expected,omitempty"`
	Found    json.RawMessage `json:"found,omitempty"`
}

// Run runs one example. It returns only errors of the context; others are in the Outcome.
func (r *Runner) Run(ctx context.Context, ref model.Ref, tool *model.Tool, example *model.Example) (*Outcome, error) {
	outcome := new(Outcome)
	if example.Wrong != nil {
		outcome.refused(example, "VALIDATION_FAILED", example.Wrong)
		return outcome, nil
	}
	scratch, err := r.Scratch(ctx)
	if err == nil {
		dir := filepath.Join(scratch.Dir, "project")
		if err = makeProject(dir, tool, example); err == nil {
			err = r.run(ctx, &exec.Call{Ref: ref, Project: dir, Params: params.Values(example.Params)}, example,
				outcome)
		}
		if err == nil && !outcome.Receipt.IsZero() && outcome.Passed() {
			err = outcome.files(dir, example.After)
		}
		err = errors.Join(err, scratch.Close())
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		outcome.refused(example, r.Code(err), err)
	}
	return outcome, nil
}

// run makes the call. It returns errors that no example can expect.
func (r *Runner) run(ctx context.Context, call *exec.Call, example *model.Example, outcome *Outcome) error {
	p, err := r.Prepare(ctx, call)
	if err != nil {
		outcome.Err, outcome.Code = err, r.Code(err)
		outcome.compare("error", text(example.Error), text(outcome.Code))
		return nil
	}
	defer p.Close()
	result, err := p.Run(ctx, nil)
	outcome.Damage = p.Damage
	if err != nil && (result == nil || result.Status != record.Refused) {
		return err // the call can't be proved
	}
	outcome.Call, outcome.Duration, outcome.Receipt, outcome.Level, outcome.Code, outcome.Failure = result.ID,
		result.Duration, result.Digest,
		result.Level, result.Code, result.Failure
	if err != nil {
		outcome.Err, outcome.Code, outcome.Level = err, r.Code(err), floor.Namespace
	}
	outcome.compare("error", text(example.Error), text(outcome.Code))
	if !outcome.Passed() {
		return nil // other differences would follow from this one
	}
	if example.Exit >= 0 {
		outcome.compare("exit", int64(example.Exit), int64(result.Exit))
	}
	if example.Gives {
		outcome.compare("result", example.Result, result.Value)
	}
	return nil
}

// text returns a string for comparison; an empty one is missing.
func text(s string) any {
	if s == "" {
		return missing{}
	}
	return s
}

// refused records an error that no example can expect.
func (o *Outcome) refused(e *model.Example, code string, err error) {
	o.Err, o.Code = err, code
	o.Differences = append(o.Differences, Difference{Path: "error", Expected: show(text(e.Error)), Found: show(code)})
}

// missing is an absent value.
type missing struct{}

// compare records the differences between two values.
func (o *Outcome) compare(path string, expected, found any) {
	switch want := expected.(type) {
	case map[string]any:
		if members, ok := found.(map[string]any); ok {
			for _, name := range slices.Sorted(maps.Keys(want)) {
				v, there := members[name]
				if !there {
					v = missing{}
				}
				o.compare(path+"."+name, want[name], v)
			}
			return
		}
	case []any:
		if items, ok := found.([]any); ok && len(want) == len(items) {
			for i := range want {
				o.compare(fmt.Sprintf("%s[%d]", path, i), want[i], items[i])
			}
			return
		}
	}
	a, b := show(expected), show(found)
	if string(a) != string(b) {
		o.Differences = append(o.Differences, Difference{path, a, b})
	}
}

// show returns a value in canonical JSON.
func show(v any) json.RawMessage {
	if _, none := v.(missing); none {
		return nil
	}
	b, err := jcs.Append(nil, v)
	if err != nil { // not JSON, and equal to no JSON
		b, _ = json.Marshal(err.Error())
	}
	return b
}

// initialFiles are project files that exist before a tool writes them. A tool that may write the whole project can
// create files at its top only while they exist.
var initialFiles = []string{"rye.lock", "rye.yaml"}

// makeProject makes the project of an example.
func makeProject(dir string, tool *model.Tool, example *model.Example) error {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	write := func(name, text string) error {
		name = filepath.FromSlash(name)
		if err := root.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			return err
		}
		return root.WriteFile(name, []byte(text), 0o600)
	}
	for _, name := range slices.Sorted(maps.Keys(example.Files)) {
		if err := write(name, example.Files[name]); err != nil {
			return err
		}
	}
	for _, name := range initialFiles {
		if _, there := example.Files[name]; !there {
			if err := write(name, ""); err != nil {
				return err
			}
		}
	}
	for _, name := range append([]string{".ai", ".git"}, tool.Files.Write...) {
		name = filepath.FromSlash(name)
		if _, err := root.Lstat(name); errors.Is(err, fs.ErrNotExist) {
			err = root.MkdirAll(name, 0o700)
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// files compares the files that the call left with the expected ones.
func (o *Outcome) files(dir string, after map[string]*string) error {
	if len(after) == 0 {
		return nil
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, name := range slices.Sorted(maps.Keys(after)) {
		found, err := read(root, name, after[name])
		if err != nil {
			return err
		}
		var expected any = missing{}
		if after[name] != nil {
			expected = *after[name]
		}
		o.compare("expect_files."+name, expected, found)
	}
	return nil
}

// read returns the beginning of a file, long enough to differ from any other expected text.
func read(root *os.Root, name string, expected *string) (any, error) {
	const more = 1 << 10
	name = filepath.FromSlash(name)
	info, err := root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return missing{}, nil
	}
	if err != nil || !info.Mode().IsRegular() {
		return missing{}, err
	}
	f, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	most := int64(more)
	if expected != nil {
		most += int64(len(*expected))
	}
	b, err := io.ReadAll(io.LimitReader(f, most))
	return string(b), err
}
