// Package example runs the examples of a tool, and says where what comes of them isn't what they say.
//
// An example (package ai/model/declared) is a call like others, by the same kernel: admitted, granted, confined,
// written down. Only the project is another one: a directory that is made for it and removed afterwards, in which
// stand
//
//   - the example's files,
//   - what a project always has, empty if the example says nothing of it: .ai, .git, rye.lock, rye.yaml,
//   - the directories that the tool declares under files: write, unless the example has a file there.
//
// Environments of packages (.venv, node_modules) are those of the project that the tool is in.
//
// # What passes
//
// A call that ends as the example says: with success, or with the code under error, and with the status under exit.
// Its value is held against result: of an object the entries that result names, each by this same rule, of an array
// all entries in their order, numbers by what they are worth (1 is 1.0), anything else as it is. A file under
// expect_files holds exactly that text; null is one that isn't there. A link is no file. Where the end is another one
// than the example says, nothing else is looked at.
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

// A Runner runs examples. It may be used by many goroutines.
type Runner struct {
	Prepare func(context.Context, *exec.Call) (*exec.Plan, error)
	Scratch func(context.Context) (*materialise.Scratch, error)
	// Code returns the code of an error, as examples name it.
	Code func(error) string
}

// An Outcome says what came of an example.
type Outcome struct {
	Call        string // its id; "" if there was none
	Differences []Difference
	Code        string // of the error that it ended with; "" with success
	Failure     string // why, in the words of the tool
	Err         error  // why it was refused
	Duration    time.Duration
	Receipt     cas.Digest
	Level       floor.Level // that was enforced; with a Receipt
	Damage      error       // what was wrong with the copy of the tool's files that was there
}

// Passed reports whether everything is as the example says.
func (o *Outcome) Passed() bool { return len(o.Differences) == 0 }

// A Difference is one thing that isn't as an example says. Nothing was expected, or found, where that is nil.
type Difference struct {
	Path     string          `json:"path"` // "error", "exit", "result.items[2].name", "expect_files.out/a.txt"
	Expected json.RawMessage `json:"expected,omitempty"`
	Found    json.RawMessage `json:"found,omitempty"`
}

// Run runs one. An error is one of the context.
func (r *Runner) Run(ctx context.Context, ref model.Ref, tool *model.Tool, e *model.Example) (*Outcome, error) {
	o := new(Outcome)
	if e.Wrong != nil {
		o.refused(e, "VALIDATION_FAILED", e.Wrong)
		return o, nil
	}
	scratch, err := r.Scratch(ctx)
	if err == nil {
		dir := filepath.Join(scratch.Dir, "project")
		if err = makeProject(dir, tool, e); err == nil {
			err = r.run(ctx, &exec.Call{Ref: ref, Project: dir, Params: params.Values(e.Params)}, e, o)
		}
		if err == nil && !o.Receipt.IsZero() && o.Passed() {
			err = o.files(dir, e.After)
		}
		err = errors.Join(err, scratch.Close())
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		o.refused(e, r.Code(err), err)
	}
	return o, nil
}

// run makes the call. An error is one that no example can mean.
func (r *Runner) run(ctx context.Context, call *exec.Call, e *model.Example, o *Outcome) error {
	p, err := r.Prepare(ctx, call)
	if err != nil {
		o.Err, o.Code = err, r.Code(err)
		o.compare("error", text(e.Error), text(o.Code))
		return nil
	}
	defer p.Close()
	result, err := p.Run(ctx, nil)
	o.Damage = p.Damage
	if err != nil && (result == nil || result.Status != record.Refused) {
		return err // it can't be proved
	}
	o.Call, o.Duration, o.Receipt, o.Level, o.Code, o.Failure = result.ID, result.Duration, result.Digest,
		result.Level, result.Code, result.Failure
	if err != nil {
		o.Err, o.Code, o.Level = err, r.Code(err), floor.Namespace
	}
	o.compare("error", text(e.Error), text(o.Code))
	if !o.Passed() {
		return nil // what else is different comes of that
	}
	if e.Exit >= 0 {
		o.compare("exit", int64(e.Exit), int64(result.Exit))
	}
	if e.Gives {
		o.compare("result", e.Result, result.Value)
	}
	return nil
}

// text returns a string as JSON; nothing for the empty one.
func text(s string) any {
	if s == "" {
		return missing{}
	}
	return s
}

// refused notes what no example can mean.
func (o *Outcome) refused(e *model.Example, code string, err error) {
	o.Err, o.Code = err, code
	o.Differences = append(o.Differences, Difference{Path: "error", Expected: show(text(e.Error)), Found: show(code)})
}

// missing is what isn't there.
type missing struct{}

// compare holds what was found against what was expected.
func (o *Outcome) compare(path string, expected, found any) {
	switch x := expected.(type) {
	case map[string]any:
		if y, ok := found.(map[string]any); ok {
			for _, name := range slices.Sorted(maps.Keys(x)) {
				v, there := y[name]
				if !there {
					v = missing{}
				}
				o.compare(path+"."+name, x[name], v)
			}
			return
		}
	case []any:
		if y, ok := found.([]any); ok && len(x) == len(y) {
			for i := range x {
				o.compare(fmt.Sprintf("%s[%d]", path, i), x[i], y[i])
			}
			return
		}
	}
	a, b := show(expected), show(found)
	if string(a) != string(b) {
		o.Differences = append(o.Differences, Difference{path, a, b})
	}
}

// show writes a value in the one form that it has.
func show(v any) json.RawMessage {
	if _, none := v.(missing); none {
		return nil
	}
	b, err := jcs.Append(nil, v)
	if err != nil { // no JSON, and equal to none
		b, _ = json.Marshal(err.Error())
	}
	return b
}

// kept are the files of a project that are there before anybody writes it. With them there a tool that may write all
// of it may also add to it.
var kept = []string{"rye.lock", "rye.yaml"}

// makeProject makes the project of an example.
func makeProject(dir string, tool *model.Tool, e *model.Example) error {
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
	for _, name := range slices.Sorted(maps.Keys(e.Files)) {
		if err := write(name, e.Files[name]); err != nil {
			return err
		}
	}
	for _, name := range kept {
		if _, there := e.Files[name]; !there {
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

// files holds what the call has left against what was expected.
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

// read returns the beginning of a file that was left, as long as is needed to see that it is another one.
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
