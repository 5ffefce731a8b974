package diff

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/shape"
	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/manifest"
)

// A Side is one of the two compared bundles.
type Side struct {
	*bundle.Bundle
	Files cas.Getter  // the bytes of its items
	Below []*ai.Space // spaces with further kinds than the kernel's
}

// A Report lists all differences.
type Report struct {
	From State `json:"from"`
	To   State `json:"to"`

	Class    shape.Class `json:"class,omitempty"` // the worst of all changes; "" without changes
	Breaking bool        `json:"breaking"`
	Summary  string      `json:"summary"`

	Headers  []Field  `json:"headers,omitempty"`  // of the manifest, in its order
	Requires []Field  `json:"requires,omitempty"` // ranges by bundle
	Evidence []Field  `json:"evidence,omitempty"` // digests by name
	Items    []Item   `json:"items,omitempty"`    // sorted by ref
	Files    []File   `json:"files,omitempty"`    // sorted by path, those of items too
	Unread   []Unread `json:"unread,omitempty"`   // items whose bytes are missing or differ from the manifest
}

// A State describes one of the two bundles.
type State struct {
	Name  string     `json:"name"` // "bundle:acme/deploy@1.4.0"
	ID    cas.Digest `json:"id"`
	Files int        `json:"files"`
	Bytes int64      `json:"bytes"`
}

// A Change is the kind of a difference.
type Change string

// The changes.
const (
	Added   Change = "added"
	Removed Change = "removed"
	Changed Change = "changed"
	Mode    Change = "mode"   // only the mode of a file
	Signed  Change = "signed" // only the signature lines of an item
)

// A Field is a named value. From or To is missing where the side lacks the value.
type Field struct {
	Name  string          `json:"name"`
	From  json.RawMessage `json:"from,omitempty"`
	To    json.RawMessage `json:"to,omitempty"`
	Class shape.Class     `json:"class"`
}

// A File is a file that differs.
type File struct {
	Path   string      `json:"path"`
	Change Change      `json:"change"`
	From   *Content    `json:"from,omitempty"`
	To     *Content    `json:"to,omitempty"`
	Class  shape.Class `json:"class,omitempty"` // "" for an item, which Items describes
	Text   *Text       `json:"text,omitempty"`  // of a changed file below .ai that is text
}

// A Content is a file's entry in a manifest.
type Content struct {
	Digest cas.Digest `json:"digest"`
	Size   int64      `json:"size"`
	Mode   string     `json:"mode"`
}

// An Item is an item that differs.
type Item struct {
	Ref         string      `json:"ref"`
	Change      Change      `json:"change"`
	Path        string      `json:"path"`                // current path, or the last one
	FromPath    string      `json:"from_path,omitempty"` // old path, if it moved
	FromVersion string      `json:"from_version,omitempty"`
	ToVersion   string      `json:"to_version,omitempty"`
	Class       shape.Class `json:"class"`
	// interface, grants and description; for a new item the grants that it requests
	Shape  []shape.Item `json:"shape,omitempty"`
	Fields []Field      `json:"fields,omitempty"` // all other declared fields, by name
	Text   *Text        `json:"text,omitempty"`   // the prompt of a directive, the text of knowledge, the code of a tool
}

// An Unread is an item that couldn't be compared.
type Unread struct {
	Ref  string `json:"ref"`
	Path string `json:"path"`
	From bool   `json:"from"` // on the side "from"
	Err  error  `json:"-"`
	Why  string `json:"why"`
}

// Diff reports the changes that lead from one bundle to another. The report names the unreadable items of both; an
// error is one of the context or of the spaces in Below.
func Diff(ctx context.Context, from, to Side) (*Report, error) {
	d := &differ{Report: Report{From: stateOf(from), To: stateOf(to)}}
	d.headers(from.FileList, to.FileList)
	d.files(from.Bundle.Files, to.Bundle.Files)
	if err := d.items(ctx, from, to); err != nil {
		return nil, err
	}
	d.conclude()
	return &d.Report, nil
}

type differ struct{ Report }

func stateOf(s Side) State { return State{s.Name, s.ID, len(s.Bundle.Files), s.Bytes} }

// text returns a text as JSON, or nil for "".
func text(s string) json.RawMessage {
	if s == "" {
		return nil
	}
	b, _ := json.Marshal(s) // no string fails
	return b
}

func (d *differ) headers(list, files *manifest.FileList) {
	for _, header := range []struct {
		name, from, to string
		class          shape.Class
	}{
		{"id", list.BundleID, files.BundleID, shape.Warning},
		{"version", list.Version, files.Version, shape.Info},
		{"description", list.Description, files.Description, shape.Info},
		{"license", list.License, files.License, shape.Warning},
		{"entrypoint", list.Entrypoint, files.Entrypoint, shape.Warning},
		{"expires", date(list.Expires), date(files.Expires), shape.Info},
	} {
		if header.from != header.to {
			d.Headers = append(d.Headers, Field{header.name, text(header.from), text(header.to), header.class})
		}
	}
	d.Requires = named(list.Requires, files.Requires, func(r manifest.Require) (string, string) {
		return r.BundleID, r.Version
	}, shape.Warning, shape.Compatible)
	d.Evidence = named(list.Evidence, files.Evidence, func(e manifest.Evidence) (string, string) {
		return e.Name, e.Digest.String()
	}, shape.Info, shape.Info)
}

func date(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// named compares two lists of named values.
func named[E any](a, b []E, of func(E) (name, value string), class, gone shape.Class) (fields []Field) {
	was, is := map[string]string{}, map[string]string{}
	for _, e := range a {
		name, v := of(e)
		was[name] = v
	}
	for _, e := range b {
		name, v := of(e)
		is[name] = v
		if was[name] != v {
			fields = append(fields, Field{name, text(was[name]), text(v), class})
		}
	}
	for name, v := range was {
		if _, stays := is[name]; !stays {
			fields = append(fields, Field{name, text(v), nil, gone})
		}
	}
	slices.SortFunc(fields, func(x, y Field) int { return strings.Compare(x.Name, y.Name) })
	return fields
}

// files compares two lists of files, sorted by path.
func (d *differ) files(files, listeds []manifest.File) {
	for len(files) > 0 || len(listeds) > 0 {
		switch n := order(files, listeds); {
		case n < 0:
			d.file(&files[0], nil)
			files = files[1:]
		case n > 0:
			d.file(nil, &listeds[0])
			listeds = listeds[1:]
		default:
			if files[0].Digest != listeds[0].Digest || files[0].Mode != listeds[0].Mode {
				d.file(&files[0], &listeds[0])
			}
			files, listeds = files[1:], listeds[1:]
		}
	}
}

// order compares the first paths of two lists.
func order(a, b []manifest.File) int {
	switch {
	case len(a) == 0:
		return 1
	case len(b) == 0:
		return -1
	}
	return strings.Compare(a[0].Path, b[0].Path)
}

func (d *differ) file(before, after *manifest.File) {
	changed := File{From: contentOf(before), To: contentOf(after), Class: shape.Info}
	item := false
	for _, side := range []*manifest.File{before, after} {
		if side != nil {
			changed.Path = side.Path
			item = item || side.Ref != ""
		}
	}
	switch {
	case before == nil:
		changed.Change = Added
	case after == nil:
		changed.Change, changed.Class = Removed, shape.Warning
	case before.Digest == after.Digest:
		changed.Change, changed.Class = Mode, shape.Warning
	default:
		changed.Change = Changed
		if before.Mode != after.Mode {
			changed.Class = shape.Warning
		}
	}
	if item && changed.Change != Mode {
		changed.Class = ""
	}
	d.Files = append(d.Files, changed)
}

func contentOf(f *manifest.File) *Content {
	if f == nil {
		return nil
	}
	return &Content{f.Digest, f.Size, f.Mode.String()}
}

// rank orders classes from "", which is 0, to the worst.
func rank(c shape.Class) int {
	return slices.Index([]shape.Class{"", shape.Info, shape.Compatible, shape.Warning, shape.Breaking}, c)
}

func worst(a, b shape.Class) shape.Class {
	if rank(b) > rank(a) {
		return b
	}
	return a
}

// conclude sets the report's class and summary.
func (d *differ) conclude() {
	counts := map[shape.Class]int{}
	add := func(c shape.Class) {
		counts[c]++
		d.Class = worst(d.Class, c)
	}
	for _, list := range [][]Field{d.Headers, d.Requires, d.Evidence} {
		for i := range list {
			add(list[i].Class)
		}
	}
	var items, files []Change
	for i := range d.Items {
		add(d.Items[i].Class)
		items = append(items, d.Items[i].Change)
	}
	for i := range d.Files {
		add(d.Files[i].Class)
		files = append(files, d.Files[i].Change)
	}
	if len(d.Unread) > 0 {
		d.Class = worst(d.Class, shape.Warning) // unknown
	}
	d.Breaking = d.Class == shape.Breaking
	var parts []string
	for _, c := range []shape.Class{shape.Breaking, shape.Warning} {
		if counts[c] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", counts[c], c))
		}
	}
	parts = append(parts, countChanges("item", items)...)
	parts = append(parts, countChanges("file", files)...)
	if n := len(d.Unread); n > 0 {
		parts = append(parts, fmt.Sprintf("%s unreadable", count(n, "item")))
	}
	d.Summary = strings.Join(parts, ", ")
	switch {
	case d.Summary != "":
	case d.Class != "":
		d.Summary = "the files are the same"
	default:
		d.Summary = "nothing is different"
	}
}

// countChanges counts changes in words.
func countChanges(what string, all []Change) (parts []string) {
	for _, c := range []Change{Added, Removed, Changed, Mode, Signed} {
		n := 0
		for _, o := range all {
			if o == c {
				n++
			}
		}
		if n > 0 {
			how := cmp.Or(map[Change]string{Mode: "with another mode", Signed: "signed again"}[c], string(c))
			parts = append(parts, count(n, what)+" "+how)
		}
	}
	return parts
}

func count(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}
