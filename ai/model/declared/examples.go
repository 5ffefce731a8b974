package declared

import (
	"fmt"
	"slices"

	"github.com/rye-build/rye/ai/model/fields"
	"github.com/rye-build/rye/ai/value"
	"github.com/rye-build/rye/cas/fault"
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
	val := d.Fields.Get("examples")
	if val.IsNull() {
		return nil
	}
	var wrong *value.Problem
	switch {
	case val.Kind != value.List:
		wrong = d.mistake(val, "examples", "Field 'examples' must be an array, got %s", fields.TypeName(val))
	case len(val.Items) > maxExamples:
		wrong = d.mistake(val, "examples", "Field 'examples' must have at most %d entries, got %d", maxExamples,
			len(val.Items))
	}
	if wrong != nil {
		return []Example{{Exit: -1, Wrong: wrong}}
	}
	names := map[string]bool{}
	for i, item := range val.Items {
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
func (d *reader) example(path string, val *value.Value) (example Example) {
	example.Exit = -1
	bad := func(v *value.Value, field, format string, args ...any) {
		if p := d.mistake(v, path+field, format, args...); example.Wrong == nil {
			example.Wrong = p
		}
	}
	kind := func(field string, v *value.Value, kind value.Kind, what string) bool {
		if !v.IsNull() && v.Kind != kind {
			bad(v, "."+field, "Field '%s.%s' must be %s, got %s", path, field, what, fields.TypeName(v))
		}
		return v != nil && v.Kind == kind
	}
	if val.Kind != value.Map {
		bad(val, "", "Field '%s' must be an object, got %s", path, fields.TypeName(val))
		return example
	}
	for i := range val.Map {
		if key := val.Map[i].Key; !slices.Contains(exampleFields, key) {
			name := fields.Clip(key)
			bad(val.Map[i].Value, "."+name, "Field '%s.%s' is unknown%s", path, name,
				fields.Suggest(key, exampleFields))
		}
	}
	name := val.Get("name")
	if kind("name", name, value.Text, "a string"); name.String() == "" && (name.IsNull() || name.Kind == value.Text) {
		bad(fields.OrElse(name, val), ".name", "Missing required field: %s.name", path)
	}
	example.Name = name.String()
	if params := val.Get("params"); kind("params", params, value.Map, "an object") {
		example.Params, _ = Plain(params).(map[string]any)
	}
	if result := val.Get("result"); result != nil {
		example.Result, example.Gives = Plain(result), true
	}
	if code := val.Get("error"); kind("error", code, value.Text, "the code of an error") {
		if example.Error = code.Text; isCode(example.Error) && !slices.Contains(codes(), example.Error) {
			bad(code, ".error", "Field '%s.error' is unknown: no error has the code %s%s", path,
				fields.Single(code.Text), fields.Suggest(code.Text, codes()))
		} else if !isCode(example.Error) {
			bad(code, ".error", "Field '%s.error' must be the code of an error, as in EXECUTION_FAILED, got %s", path,
				fields.Single(code.Text))
		}
	}
	if exit := val.Get("exit"); kind("exit", exit, value.Int, "an integer") {
		n, ok := exit.Int()
		if !ok || n < 0 || n > 255 {
			bad(exit, ".exit", "Field '%s.exit' must be from 0 to 255, got %s", path, fields.Show(exit))
		}
		if example.Exit = int(n); n != 0 && example.Error == "" {
			example.Error = "EXECUTION_FAILED"
		}
	}
	for _, field := range []string{"files", "expect_files"} {
		files := val.Get(field)
		if !kind(field, files, value.Map, "an object") {
			continue
		}
		if len(files.Map) > maxExampleFiles {
			bad(files, "."+field, "Field '%s.%s' must have at most %d entries, got %d", path, field, maxExampleFiles,
				len(files.Map))
			continue
		}
		for i := range files.Map {
			entry := &files.Map[i]
			at := field + "." + fields.Clip(entry.Key)
			if err := portable.Check(entry.Key); err != nil {
				bad(entry.Value, "."+at,
					"Field '%s.%s' is no path below the root of the project, as in docs/api.md: %v",
					path, at, err)
				continue
			}
			text := entry.Value.Kind == value.Text
			switch {
			case text && field == "files":
				example.Files = put(example.Files, entry.Key, entry.Value.Text)
			case text:
				example.After = put(example.After, entry.Key, &entry.Value.Text)
			case field == "expect_files" && entry.Value.Kind == value.Null:
				example.After = put(example.After, entry.Key, nil)
			default:
				bad(entry.Value, "."+at, "Field '%s.%s' must be a string, got %s", path, at,
					fields.TypeName(entry.Value))
			}
		}
	}
	return example
}

func put[V any](m map[string]V, key string, v V) map[string]V {
	if m == nil {
		m = map[string]V{}
	}
	m[key] = v
	return m
}

// codes returns the codes of all errors.
func codes() (all []string) {
	for _, line := range fault.Table() {
		all = append(all, string(line.Code))
	}
	return all
}

// isCode reports whether a text is written as codes of errors are.
func isCode(s string) bool { return portable.Spelled(s, portable.Upper, "_", 40) }
