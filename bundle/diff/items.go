package diff

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/ai/shape"
	"github.com/rye-build/rye/ai/value"
	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/sign"
)

// dotAI is the directory of items.
const dotAI = ".ai/"

// items compares the items that the manifests name.
func (d *differ) items(ctx context.Context, from, to Side) error {
	was, is := refs(from.Bundle.Files), refs(to.Bundle.Files)
	all := map[string]bool{}
	for _, list := range []map[string]*manifest.File{was, is} {
		for ref := range list {
			all[ref] = true
		}
	}
	var views [2]*reader
	for i, s := range []Side{from, to} {
		r, err := newReader(ctx, s)
		if err != nil {
			return err
		}
		views[i] = r
	}
	for _, ref := range slices.Sorted(maps.Keys(all)) {
		a, b := was[ref], is[ref]
		if a != nil && b != nil && a.Digest == b.Digest && a.Path == b.Path {
			continue
		}
		if err := d.item(ctx, ref, a, b, views); err != nil {
			return err
		}
	}
	return d.texts(ctx, views)
}

func refs(files []manifest.File) map[string]*manifest.File {
	all := map[string]*manifest.File{}
	for i := range files {
		if ref := files[i].Ref; ref != "" {
			all[ref] = &files[i]
		}
	}
	return all
}

// A reader reads the items of a side.
type reader struct {
	space  *ai.Space
	view   *ai.View
	layout bundle.Layout
}

func newReader(ctx context.Context, s Side) (*reader, error) {
	space, view, err := bundle.View(ctx, s.Files, s.Bundle.FileList, s.Bundle.Files, s.Below, nil)
	return &reader{space, view, s.Bundle.Layout()}, err
}

// item reads an item and checks its ref, since the manifest is unverified.
func (r *reader) item(ctx context.Context, file *manifest.File) (*ai.Item, error) {
	in, ok := r.layout.In(file.Path)
	if !ok {
		return nil, errOutside
	}
	at, err := r.view.At(r.space, in)
	if err != nil {
		return nil, err
	}
	it, err := r.view.Load(ctx, at)
	if err != nil {
		return nil, err
	}
	if ref := it.Ref.String(); ref != file.Ref {
		return nil, fmt.Errorf("is %q, but %q in the manifest", ref, file.Ref)
	}
	return it, nil
}

var errOutside = errors.New("not an item: outside the directory of items")

// why returns the cause without the place, which is reported separately.
func why(err error) string {
	if e, ok := errors.AsType[*ai.ItemError](err); ok {
		err = e.Err
	}
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		err = e.Err
	}
	return err.Error()
}

func (d *differ) item(ctx context.Context, ref string, before, after *manifest.File, views [2]*reader) error {
	item := Item{Ref: ref, Change: Changed, Class: shape.Info}
	var read [2]*ai.Item
	complete := true
	for i, side := range []*manifest.File{before, after} {
		if side == nil {
			continue
		}
		item.Path = side.Path
		if i == 0 {
			item.FromVersion = side.Version
		} else {
			item.ToVersion = side.Version
		}
		if after == nil {
			continue // nothing to compare it with
		}
		it, err := views[i].item(ctx, side)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			d.Unread = append(d.Unread, Unread{ref, side.Path, i == 0, err, why(err)})
			complete = false
		}
		read[i] = it
	}
	switch {
	case before == nil:
		item.Change, item.Class = Added, shape.Compatible
		if complete {
			item.Shape = shape.Widened(shape.Grants{}, read[1].Model.Grants())
			for i := range item.Shape {
				item.Shape[i].Class = shape.Info // less restrictive
			}
		}
	case after == nil:
		item.Change, item.Class = Removed, shape.Breaking
	default:
		if before.Path != after.Path {
			item.FromPath = before.Path
		}
		if complete {
			item.compare(read[0], read[1])
		}
	}
	d.Items = append(d.Items, item)
	return nil
}

// compare fills in the differences between two states of an item.
func (x *Item) compare(earlier, later *ai.Item) {
	if earlier.Stripped == later.Stripped && !earlier.Stripped.IsZero() && earlier.Path == later.Path {
		x.Change = Signed
		return
	}
	before, after := shapeOf(earlier.Model), shapeOf(later.Model)
	x.Shape = shape.Diff(&before, &after).Items
	for i := range x.Shape {
		x.Class = worst(x.Class, x.Shape[i].Class)
	}
	x.fields(earlier.Model, later.Model)
	x.markup(earlier.Model, later.Model)
	slices.SortFunc(x.Fields, func(a, b Field) int { return strings.Compare(a.Name, b.Name) })
	for i := range x.Fields {
		x.Class = worst(x.Class, x.Fields[i].Class)
	}
	if (earlier.Model.Knowledge != nil || earlier.Model.Directive != nil) && earlier.Model.Body != later.Model.Body {
		x.Text = compareTexts(earlier.Model.Body, later.Model.Body)
		if earlier.Model.Directive != nil {
			x.Class = worst(x.Class, shape.Warning)
		}
	}
	if earlier.Model.Tool != nil && later.Model.Tool != nil {
		x.Text = compareCode(code(earlier), code(later))
	}
}

// code returns the text of an item without its signature lines.
func code(it *ai.Item) []byte {
	style := it.Kind.Style(it.Path)
	if style == sign.NoStyle {
		return it.Bytes
	}
	b, err := sign.Strip(it.Bytes, style)
	if err != nil {
		return it.Bytes
	}
	return sign.StripV1(b, style)
}

// texts compares the changed files that are no items.
func (d *differ) texts(ctx context.Context, views [2]*reader) error {
	for i := range d.Files {
		f := &d.Files[i]
		in, ok := strings.CutPrefix(f.Path, dotAI)
		if !ok || f.Change != Changed || f.Class == "" || max(f.From.Size, f.To.Size) > maxCode {
			continue
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		before, err := fs.ReadFile(views[0].space.FS, in)
		if err != nil {
			continue // the report has the digests
		}
		if after, err := fs.ReadFile(views[1].space.FS, in); err == nil {
			f.Text = compareCode(before, after)
		}
	}
	return nil
}

func shapeOf(m *model.Model) shape.Shape {
	s := shape.Shape{Interface: m.Interface(), Grants: m.Grants(), Description: m.Description, Tags: m.Tags}
	if m.Tool != nil {
		if v := m.Fields.Get("examples"); v != nil {
			s.Examples = plain(v)
		}
	}
	return s
}

// shapeFields are the fields that a shape covers.
const shapeFields = " input_schema output_schema error_schema permissions capabilities limits risk network files " +
	"secrets description tool_description tags examples "

// directiveShapeFields are the fields that only a directive's shape covers; content is the source of the other
// fields.
const directiveShapeFields = " inputs outputs content "

// harmless are fields without effect on the users of an item.
const harmless = " version title name id category author entry_type references model "

func in(list, name string) bool { return strings.Contains(list, " "+name+" ") }

// fields compares all declared fields that the shapes don't cover.
func (x *Item) fields(a, b *model.Model) {
	was, is := declared(a), declared(b)
	names := map[string]bool{}
	for _, list := range []map[string]json.RawMessage{was, is} {
		for name := range list {
			names[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if string(was[name]) == string(is[name]) {
			continue
		}
		class := shape.Warning
		if in(harmless, name) {
			class = shape.Info
		}
		x.Fields = append(x.Fields, Field{name, was[name], is[name], class})
	}
}

func declared(m *model.Model) map[string]json.RawMessage {
	all := map[string]json.RawMessage{}
	if m.Fields == nil {
		return all
	}
	for _, e := range m.Fields.Map {
		name := strings.ToLower(strings.Trim(e.Key, "_"))
		if in(shapeFields, name) || m.Directive != nil && in(directiveShapeFields, name) {
			continue
		}
		all[e.Key], _ = json.Marshal(plain(e.Value)) // no value fails
	}
	return all
}

// plain returns a value as JSON. Numbers that JSON readers parse differently become texts, so that different ones
// differ.
func plain(val *value.Value) any {
	if val == nil {
		return nil
	}
	switch val.Kind {
	case value.List:
		list := make([]any, len(val.Items))
		for i := range val.Items {
			list[i] = plain(val.Items[i])
		}
		return list
	case value.Map:
		m := make(map[string]any, len(val.Map))
		for i := range val.Map {
			m[val.Map[i].Key] = plain(val.Map[i].Value)
		}
		return m
	}
	x, err := val.JSON()
	if err != nil {
		return val.Text
	}
	return x
}
