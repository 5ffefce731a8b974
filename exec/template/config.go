package template

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/rye-build/rye/ai/value"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/manifest/jcs"
)

const (
	// MaxFilled bounds the output of Fill, in bytes.
	MaxFilled = 64 << 20
	maxNested = 32 // names that refer to names
	maxDepth  = 64 // nested maps and lists
)

// A Link is a link of a chain with its configuration, if it has one.
type Link struct {
	Name   string
	Config *value.Value
}

// A Config is the merged configuration of a chain, before it is filled in. It is immutable, and safe for many
// goroutines.
type Config struct{ entries map[string]entry }

type entry struct {
	link string
	v    *value.Value
}

// Merge merges the configurations of links. Earlier links override later ones; the first is the tool.
func Merge(links ...Link) (*Config, error) {
	config := &Config{entries: map[string]entry{}}
	for _, link := range links {
		if link.Config.IsNull() {
			continue
		}
		if link.Config.Kind != value.Map {
			return nil, &Error{Link: link.Name, At: link.Config.At,
				Err: fmt.Errorf("the configuration must be an object, not %s", link.Config.Kind)}
		}
		for i := range link.Config.Map {
			e := &link.Config.Map[i]
			if _, nearer := config.entries[e.Key]; !nearer && !e.Value.IsNull() {
				config.entries[e.Key] = entry{link.Name, e.Value}
			}
		}
	}
	return config, nil
}

// Names are the names that templates can refer to. Values are JSON values: nil, bool, float64, int64, string, []any
// and map[string]any. The result shares them, and Fill doesn't change them.
type Names struct {
	Variables map[string]string // the environment of the chain
	Kernel    map[string]string
	Params    map[string]any    // the caller's parameters, and defaults
	Declares  func(string) bool // reports whether the tool declares a parameter; nil: it declares none
}

// A Filled is a filled-in configuration.
type Filled struct {
	Config map[string]any
	// Used lists the entries that other entries refer to, sorted. The chain uses them as variables, so the primitive
	// need not know them.
	Used []string
}

// An Error reports a text of a link that can't be filled in.
type Error struct {
	Link string // "" if it belongs to no link
	Path string // such as args[2]
	At   value.Pos
	Err  error
}

func (e *Error) Error() string {
	var text strings.Builder
	text.WriteString("config")
	if e.Path != "" {
		fmt.Fprintf(&text, " %q", e.Path)
	}
	if e.Link != "" {
		fmt.Fprintf(&text, " of %q", e.Link)
	}
	if e.At.Line > 0 {
		fmt.Fprintf(&text, ", line %d", e.At.Line)
	}
	return text.String() + ": " + e.Err.Error()
}

// Fault implements the interface that package fault looks for.
func (e *Error) Fault() *fault.Error {
	return fault.New(fault.Validation, "%s", e.Error()).On("ref", e.Link).On("path", e.Path).From(e.Err)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Fill fills all templates. An error is an *Error.
func (c *Config) Fill(n Names) (*Filled, error) {
	filler := &filler{Names: n, entries: c.entries, done: map[memo]result{}, used: map[string]bool{}, left: MaxFilled}
	out := &Filled{Config: make(map[string]any, len(c.entries))}
	for _, key := range slices.Sorted(maps.Keys(c.entries)) {
		r, err := filler.entry(key, key == urlEntry)
		if err != nil {
			return nil, err
		}
		if r.absent == "" {
			out.Config[key] = r.v
		}
	}
	out.Used = slices.Sorted(maps.Keys(filler.used))
	return out, nil
}

// Unknown returns the errors in a link's texts that Fill would find with any Names: unknown names and invalid
// templates.
func (c *Config) Unknown(link string, kernel []string, declares func(string) bool) (all []*Error) {
	var walk func(key, path string, v *value.Value, depth int)
	walk = func(key, path string, val *value.Value, depth int) {
		if depth == maxDepth {
			return
		}
		for i, item := range val.Items {
			walk(key, path+"["+strconv.Itoa(i)+"]", item, depth+1)
		}
		for i := range val.Map {
			walk(key, path+"."+val.Map[i].Key, val.Map[i].Value, depth+1)
		}
		if val.Kind != value.Text {
			return
		}
		pieces, err := split(val.Text)
		if err != nil {
			all = append(all, &Error{Link: link, Path: path, At: val.At, Err: err})
		}
		for i := range pieces {
			p := &pieces[i]
			param, of := strings.CutPrefix(p.text, ofParams)
			_, entry := c.entries[p.text]
			if p.kind == name && !slices.Contains(kernel, p.text) && (!entry || of || p.text == key) &&
				!declares(param) {
				all = append(all, &Error{Link: link, Path: path, At: val.At,
					Err: unknownName(p.text, column(val.Text, p.at))})
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(c.entries)) {
		if e := c.entries[key]; e.link == link {
			walk(key, key, e.v, 0)
		}
	}
	return all
}

// Only reports whether the texts of all links use no variables, and only these names.
func (c *Config) Only(names ...string) bool {
	var only func(v *value.Value, depth int) bool
	only = func(val *value.Value, depth int) bool {
		if depth == maxDepth {
			return false
		}
		pieces, err := []piece(nil), error(nil)
		if val.Kind == value.Text {
			pieces, err = split(val.Text)
		}
		return err == nil && !slices.ContainsFunc(pieces, func(p piece) bool {
			return p.kind == variable || p.kind == name && !slices.Contains(names, p.text)
		}) &&
			!slices.ContainsFunc(val.Items, func(v *value.Value) bool { return !only(v, depth+1) }) &&
			!slices.ContainsFunc(val.Map, func(e value.Entry) bool { return !only(e.Value, depth+1) })
	}
	for _, e := range c.entries {
		if !only(e.v, 0) {
			return false
		}
	}
	return true
}

// Mentions reports whether a text of a configuration or an environment uses a name of the kernel.
func Mentions(val *value.Value, named string) bool {
	var mentions func(v *value.Value, depth int) bool
	mentions = func(val *value.Value, depth int) bool {
		if depth == maxDepth || val.IsNull() {
			return false
		}
		if val.Kind == value.Text {
			pieces, _ := split(val.Text) // filling it in reports the error
			return slices.ContainsFunc(pieces, func(p piece) bool { return p.kind == name && p.text == named })
		}
		return slices.ContainsFunc(val.Items, func(v *value.Value) bool { return mentions(v, depth+1) }) ||
			slices.ContainsFunc(val.Map, func(e value.Entry) bool { return mentions(e.Value, depth+1) })
	}
	return mentions(val, 0)
}

// urlEntry is the entry in which parameters are percent-encoded.
const urlEntry = "url"

// A filler is the state of one Fill.
type filler struct {
	Names
	entries map[string]entry
	done    map[memo]result
	used    map[string]bool
	left    int      // bytes that may still be output
	busy    []string // the entries being filled, each on behalf of the previous one

	in    entry // the last of busy
	inURL bool
}

// A memo identifies a filled entry, which has another value in a URL.
type memo struct {
	key   string
	inURL bool
}

// A result is a filled-in template.
type result struct {
	v      any
	size   int    // of v, including everything in it
	param  bool   // it comes from the caller or the kernel, not from a link
	absent string // the declared parameter that it consists of and that wasn't given
}

// entry fills an entry of the configuration, once.
func (f *filler) entry(key string, inURL bool) (result, error) {
	if r, ok := f.done[memo{key, inURL}]; ok {
		return r, nil
	}
	if len(f.busy) == maxNested {
		return result{}, fmt.Errorf("names lead to names more than %d deep", maxNested)
	}
	if slices.Contains(f.busy, key) {
		return result{}, fmt.Errorf("circular reference: %s", strings.Join(append(slices.Clone(f.busy), key), " → "))
	}
	in, was := f.in, f.inURL
	f.in, f.inURL = f.entries[key], inURL
	f.busy = append(f.busy, key)
	r, err := f.value(key, f.in.v, 0)
	f.busy = f.busy[:len(f.busy)-1]
	f.in, f.inURL = in, was
	if err != nil {
		return r, err
	}
	f.done[memo{key, inURL}] = r
	return r, nil
}

// wrap adds the place to an error that lacks one.
func (f *filler) wrap(path string, at value.Pos, err error) error {
	if _, ok := err.(*Error); ok {
		return err
	}
	return &Error{Link: f.in.link, Path: path, At: at, Err: err}
}

// value fills a value of the current entry.
func (f *filler) value(path string, val *value.Value, depth int) (filled result, err error) {
	if depth == maxDepth {
		return result{}, f.wrap(path, val.At, fmt.Errorf("nested more than %d deep", maxDepth))
	}
	filled.size = 1
	if f.left--; f.left < 0 {
		return result{}, f.wrap(path, val.At, errTooMuch)
	}
	switch val.Kind {
	case value.Text:
		filled, err = f.text(val.Text)
	case value.List:
		list := make([]any, len(val.Items))
		for i, item := range val.Items {
			p := path + "[" + strconv.Itoa(i) + "]"
			one, err := f.value(p, item, depth+1)
			if err == nil && one.absent != "" {
				err = notGiven(one.absent, 1)
			}
			if err != nil {
				return result{}, f.wrap(p, item.At, err)
			}
			list[i] = one.v
			filled.size += one.size
		}
		filled.v = list
	case value.Map:
		object := make(map[string]any, len(val.Map))
		for i := range val.Map {
			e := &val.Map[i]
			one, err := f.value(path+"."+e.Key, e.Value, depth+1)
			if err != nil {
				return result{}, err
			}
			if one.absent == "" {
				object[e.Key] = one.v
				filled.size += one.size + len(e.Key)
			}
		}
		filled.v = object
	default:
		filled.v, err = val.JSON()
	}
	if err != nil {
		return result{}, f.wrap(path, val.At, err)
	}
	return filled, nil
}

var errTooMuch = fmt.Errorf("the filled-in configuration exceeds %d bytes", MaxFilled)

// spend counts output. A value that is used twice counts twice.
func (f *filler) spend(n int) error {
	if f.left -= n; f.left < 0 {
		return errTooMuch
	}
	return nil
}

// text fills a template.
func (f *filler) text(text string) (result, error) {
	pieces, err := split(text)
	if err != nil {
		return result{}, err
	}
	if len(pieces) == 1 && pieces[0].kind == name {
		r, err := f.name(text, &pieces[0])
		if err == nil {
			err = f.spend(r.size)
		}
		return r, err
	}
	var out strings.Builder
	for i := range pieces {
		p := &pieces[i]
		rest := p.text
		switch p.kind {
		case variable:
			rest, err = p.variable(text, f.variable)
		case name:
			rest, err = f.among(text, p)
		}
		if err == nil {
			err = f.spend(len(rest))
		}
		if err != nil {
			return result{}, err
		}
		out.WriteString(rest)
	}
	return result{v: out.String(), size: out.Len() + 1}, nil
}

func (f *filler) variable(name string) (string, bool) {
	v, ok := f.Variables[name]
	return v, ok
}

// name returns the value of a name.
func (f *filler) name(text string, p *piece) (result, error) {
	param, of := strings.CutPrefix(p.text, ofParams)
	if v, ok := f.Kernel[p.text]; ok {
		return result{v: v, size: len(v) + 1, param: true}, nil // it may contain all parameters
	}
	if _, ok := f.entries[p.text]; ok && !of && f.busy[len(f.busy)-1] != p.text {
		f.used[p.text] = true
		return f.entry(p.text, f.inURL || p.text == urlEntry)
	}
	if f.Declares == nil || !f.Declares(param) {
		return result{}, unknownName(p.text, column(text, p.at))
	}
	v, given := f.Params[param]
	if !given {
		return result{absent: param}, nil
	}
	return result{v: v, size: sizeOf(v), param: true}, nil
}

// sizeOf returns the size of a value.
func sizeOf(v any) int {
	n := 1
	switch v := v.(type) {
	case string:
		n += len(v)
	case []any:
		for _, item := range v {
			n += sizeOf(item)
		}
	case map[string]any:
		for key, item := range v {
			n += len(key) + sizeOf(item)
		}
	}
	return n
}

// among returns the value of a name within a longer text.
func (f *filler) among(text string, piece *piece) (string, error) {
	result, err := f.name(text, piece)
	if err != nil {
		return "", err
	}
	if result.absent != "" {
		return "", notGiven(result.absent, column(text, piece.at))
	}
	chosen, ok := scalar(result.v)
	if !ok {
		return "", fmt.Errorf("{%s} is not a string, number or boolean, so it can't be part of a longer text",
			piece.text)
	}
	if !f.inURL || !result.param {
		return chosen, nil
	}
	if chosen == "." || chosen == ".." {
		return "", fmt.Errorf("the parameter %q is %q, which would change the path of the URL", piece.text, chosen)
	}
	// A space is %20 everywhere; QueryEscape writes a plus, which is a space only in a query.
	return strings.ReplaceAll(url.QueryEscape(chosen), "+", "%20"), nil
}

// scalar returns a string, number or boolean as text, with numbers as in JSON.
func scalar(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case bool, float64, int64:
		b, err := jcs.Append(nil, v)
		return string(b), err == nil
	}
	return "", false
}
