package declared

import (
	"fmt"
	"slices"

	"github.com/rye-build/rye/ai/model/fields"
	"github.com/rye-build/rye/ai/value"
	"github.com/rye-build/rye/cas/portable"
)

// An Example is a call of a tool with its expected results.
type Example struct {
	Name   string
	Params map[string]any
	Files  map[string]string // initial files of the project, by paths below its root
	// Result is the expected result, if Gives: for an object the named entries, recursively, otherwise the whole
	// value.
	Result any
	Gives  bool
	Error  string // the code of the expected error; "" for success
	Exit   int    // the expected status of its process; -1 for any
	// After are the expected files of the project after the call; nil is a file that must not exist.
	After map[string]*string
	// Wrong is the reason why the example can't be tried, or nil.
	Wrong *value.Problem
}

// maxExamples and maxExampleFiles bound the work of trying a tool.
const (
	maxExamples     = 256
	maxExampleFiles = 256
)

// examples reads a tool's examples. Their problems are only warnings, because nothing runs by them and existing tools
// have them in other forms; but an invalid example never passes.
func (d *reader) examples() (list []Example) {
	v := d.Fields.Get("examples")
	if v.IsNull() {
		return nil
	}
	var wrong *value.Problem
	switch {
	case v.Kind != value.List:
		wrong = d.mistake(v, "examples", "Field 'examples' must be an array, got %s", fields.TypeName(v))
	case len(v.Items) > maxExamples:
		wrong = d.mistake(v, "examples", "Field 'examples' must have at most %d entries, got %d", maxExamples,
			len(v.Items))
	}
	if wrong != nil {
		return []Example{{Exit: -1, Wrong: wrong}}
	}
	names := map[string]bool{}
	for i, item := range v.Items {
		e := d.example(fmt.Sprintf("examples[%d]", i), item)
		if e.Wrong == nil && names[e.Name] {
			e.Wrong = d.mistake(item.Get("name"), fmt.Sprintf("examples[%d].name", i), "two examples have the name %s",
				fields.Single(e.Name))
		}
		names[e.Name] = true
		list = append(list, e)
	}
	return list
}

// mistake warns of an example, and returns the warning.
func (d *reader) mistake(v *value.Value, path, format string, args ...any) *value.Problem {
	p := &value.Problem{Field: path, Message: fmt.Sprintf(format, args...), Warning: true}
	if v != nil {
		p.At = v.At
	}
	d.Warn(v, path, "%s", p.Message)
	return p
}

// exampleFields are what an example says.
var exampleFields = []string{"error", "exit", "expect_files", "files", "name", "params", "result"}

// example reads one example. It keeps the first mistake.
func (d *reader) example(path string, v *value.Value) (e Example) {
	e.Exit = -1
	bad := func(v *value.Value, field, format string, args ...any) {
		if p := d.mistake(v, path+field, format, args...); e.Wrong == nil {
			e.Wrong = p
		}
	}
	kind := func(field string, v *value.Value, kind value.Kind, what string) bool {
		if !v.IsNull() && v.Kind != kind {
			bad(v, "."+field, "Field '%s.%s' must be %s, got %s", path, field, what, fields.TypeName(v))
		}
		return v != nil && v.Kind == kind
	}
	if v.Kind != value.Map {
		bad(v, "", "Field '%s' must be an object, got %s", path, fields.TypeName(v))
		return e
	}
	for i := range v.Map {
		if key := v.Map[i].Key; !slices.Contains(exampleFields, key) {
			name := fields.Clip(key)
			bad(v.Map[i].Value, "."+name, "Field '%s.%s' is unknown%s", path, name, fields.Suggest(key, exampleFields))
		}
	}
	name := v.Get("name")
	if kind("name", name, value.Text, "a string"); name.String() == "" && (name.IsNull() || name.Kind == value.Text) {
		bad(fields.OrElse(name, v), ".name", "Missing required field: %s.name", path)
	}
	e.Name = name.String()
	if params := v.Get("params"); kind("params", params, value.Map, "an object") {
		e.Params, _ = Plain(params).(map[string]any)
	}
	if result := v.Get("result"); result != nil {
		e.Result, e.Gives = Plain(result), true
	}
	if code := v.Get("error"); kind("error", code, value.Text, "the code of an error") {
		if e.Error = code.Text; !isCode(e.Error) {
			bad(code, ".error", "Field '%s.error' must be the code of an error, as in EXECUTION_FAILED, got %s", path,
				fields.Single(code.Text))
		}
	}
	if exit := v.Get("exit"); kind("exit", exit, value.Int, "an integer") {
		n, ok := exit.Int()
		if !ok || n < 0 || n > 255 {
			bad(exit, ".exit", "Field '%s.exit' must be from 0 to 255, got %s", path, fields.Show(exit))
		}
		if e.Exit = int(n); n != 0 && e.Error == "" {
			e.Error = "EXECUTION_FAILED"
		}
	}
	for _, field := range []string{"files", "expect_files"} {
		files := v.Get(field)
		if !kind(field, files, value.Map, "an object") {
			continue
		}
		if len(files.Map) > maxExampleFiles {
			bad(files, "."+field, "Field '%s.%s' must have at most %d entries, got %d", path, field, maxExampleFiles,
				len(files.Map))
			continue
		}
		for i := range files.Map {
			f := &files.Map[i]
			at := field + "." + fields.Clip(f.Key)
			if err := portable.Check(f.Key); err != nil {
				bad(f.Value, "."+at, "Field '%s.%s' is no path below the root of the project, as in docs/api.md: %v",
					path, at, err)
				continue
			}
			text := f.Value.Kind == value.Text
			switch {
			case text && field == "files":
				e.Files = put(e.Files, f.Key, f.Value.Text)
			case text:
				e.After = put(e.After, f.Key, &f.Value.Text)
			case field == "expect_files" && f.Value.Kind == value.Null:
				e.After = put(e.After, f.Key, nil)
			default:
				bad(f.Value, "."+at, "Field '%s.%s' must be a string, got %s", path, at, fields.TypeName(f.Value))
			}
		}
	}
	return e
}

func put[V any](m map[string]V, key string, v V) map[string]V {
	if m == nil {
		m = map[string]V{}
	}
	m[key] = v
	return m
}

// isCode reports whether a text is written as codes of errors are.
func isCode(s string) bool { return portable.Spelled(s, portable.Upper, "_", 40) }
