package parts

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/edit"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/bundle/find"
	"github.com/rye-build/rye/bundle/plugin"
	"github.com/rye-build/rye/bundle/skill"
	"github.com/rye-build/rye/bundle/snapshot"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/catalog/launcher"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/jcs"
)

// Verify compares the items of a signed plugin with those that its parts give, and returns a failure for each that is
// missing, superfluous or another: what rye runs of a plugin is what every other client reads in its skills and in
// mcp.json. Its id, version and requirements must be those of plugin.json. It implements bundle.VerifyOptions.Parts.
//
// Two items are the same if they mean the same: their fields and their text are equal, in whatever order, with
// whatever comments and quotes. So another version of rye may write them in another way. What they mean is part of the
// format of signed plugins: a version of rye that makes other items of a part, or another start.py, has to accept
// those that are made here too (TestItemsAreTheFormat). Descriptions count, because models read them.
//
// Two inputs are the publisher's, and only npm, pip or a running server could give them again: the list of packages,
// and what the server announced. They are taken from the items. The list must have the package that the command names,
// in a version that it allows, and everything else of the items follows from it. Each definition must have the digest
// that its item pins, and everything else of that item follows from it and from the server.
func Verify(ctx context.Context, b *bundle.Bundle, files cas.Getter, view *ai.View) ([]*bundle.Failure, error) {
	p, err := plugin.Read(snapshot.FS(ctx, files, b.Files, "."))
	if err != nil {
		return nil, err
	}
	c := &comparison{b: b, view: view, items: snapshot.FS(ctx, files, b.Files, plugin.ItemsDir),
		seen: map[string]bool{}}
	if err := p.Rejected(); err != nil {
		c.fail(plugin.ManifestFile, "", "", err)
		return c.failures, nil
	}
	c.head(p)
	m := &maker{output: c, Options: Options{Plugin: p, ID: b.BundleID, From: b.BundleID, Same: c.items,
		List: func(context.Context, *launcher.Package) ([]byte, error) { return nil, errNoList }}}
	if err := m.run(ctx); err != nil {
		return nil, err
	}
	for i := range m.made.Skipped {
		found := &m.made.Skipped[i]
		c.fail(found.Path, "", "", errors.New(found.Message))
	}
	for i := range b.Files {
		file := &b.Files[i]
		if in, ok := b.Layout().In(file.Path); ok && !c.seen[in] {
			c.fail(file.Path, "nothing", "", errSuperfluous)
		}
	}
	return c.failures, nil
}

var (
	errNoList      = &launcher.Skip{Reason: "its items have no list of packages that the command allows"}
	errSuperfluous = errors.New("no part of the plugin gives it")
)

// A comparison is the output that compares what is made with what a signed plugin has.
type comparison struct {
	b        *bundle.Bundle
	view     *ai.View
	items    fs.FS
	seen     map[string]bool // files, by their paths in the space
	failures []*bundle.Failure
}

func (c *comparison) fail(path, expected, found string, err error) {
	c.failures = append(c.failures, &bundle.Failure{Check: bundle.CheckParts, Path: path, Expected: expected,
		Found: found, Err: err})
}

// head compares the manifest with plugin.json.
func (c *comparison) head(p *plugin.Plugin) {
	recipe, err := find.Plugin(p)
	if err != nil {
		c.fail(plugin.ManifestFile, "", "", err)
		return
	}
	for _, field := range [][3]string{{"id", recipe.ID, c.b.BundleID}, {"version", recipe.Version, c.b.Version},
		{"requires", requiresText(recipe.Requires), requiresText(c.b.Requires)}} {
		if field[1] != field[2] {
			c.fail(bundle.PluginManifest, field[1], field[2], fmt.Errorf("%s isn't that of %s", field[0],
				plugin.ManifestFile))
		}
	}
}

func requiresText(all []manifest.Require) string {
	texts := map[string]any{}
	for _, r := range all {
		texts[r.BundleID] = r.Version
	}
	return jsonText(texts)
}

// draft implements output.
func (c *comparison) draft(ref model.Ref, ext string, text []byte) (*ai.Item, error) {
	at, err := c.at(ref, ext)
	if err != nil {
		return nil, err
	}
	return edit.Draft(at, text), nil
}

// at returns the file of an item.
func (c *comparison) at(ref model.Ref, ext string) (ai.File, error) {
	file, err := c.view.PathFor(ref, ext)
	kind, _ := c.view.Kind(ref.Kind) // PathFor knows it
	return ai.File{Ref: ref, Kind: kind, Path: file}, err
}

// file implements output.
func (c *comparison) file(part string, f skill.File) error {
	c.seen[f.Path] = true
	name := path.Join(plugin.ItemsDir, f.Path)
	switch has, ok := c.b.File(name); {
	case !ok:
		c.fail(name, cas.Sum(f.Bytes).String(), "nothing", of(part))
	case has.Digest != cas.Sum(f.Bytes):
		c.fail(name, cas.Sum(f.Bytes).String(), has.Digest.String(), of(part))
	case has.Mode != f.Mode():
		c.fail(name, f.Mode().String(), has.Mode.String(), of(part))
	}
	return nil
}

// of is the cause of a failure: a part gives something else.
func of(part string) error { return errors.New(part + " gives another one") }

// item implements output.
func (c *comparison) item(_ context.Context, part string, ref model.Ref, ext string, text []byte) (*ai.Item, error) {
	at, err := c.at(ref, ext)
	if err != nil {
		return nil, err
	}
	c.seen[at.Path] = true
	name := path.Join(plugin.ItemsDir, at.Path)
	switch file, ok := c.b.File(name); {
	case !ok:
		c.fail(name, ref.String(), "nothing", of(part))
		return edit.Draft(at, text), nil
	case file.Size > int64(len(text))+maxMore:
		c.fail(name, ref.String(), fault.Count(file.Size, "byte"), of(part))
		return edit.Draft(at, text), nil
	}
	theirs, err := fs.ReadFile(c.items, at.Path)
	if err != nil {
		return nil, err
	}
	has := edit.Draft(at, theirs)
	if has.Broken != nil || has.Stripped == cas.Sum(text) {
		return has, nil // what is broken is a failure of its own
	}
	want, err := meaning(edit.Draft(at, text).Model)
	if err != nil {
		return nil, err
	}
	found, err := meaning(has.Model)
	if err != nil {
		c.fail(name, "", "", err)
		return has, nil
	}
	if at, a, b := differ("", want, found); at != "" {
		c.fail(name, fault.Clip(a, maxValue), fault.Clip(b, maxValue), fmt.Errorf("%s gives another %s", part, at))
	}
	return has, nil
}

// maxValue is how much of a value is in a failure, and maxMore how much longer an item may be than the one that is
// made, by its signatures and its layout.
const (
	maxValue = 200
	maxMore  = 1 << 20
)

// meaning is what an item says: all of its fields, and its text. The field content of a directive is the XML that the
// others were read from; as a prompt it counts only without a text.
func meaning(m *model.Model) (any, error) {
	v, err := m.Fields.JSON()
	if fields, ok := v.(map[string]any); ok && m.Directive != nil {
		delete(fields, "content")
	}
	return map[string]any{"fields": v, "text": m.Body, "item": m.Marked}, err
}

// differ returns the first place in which two values differ, and what they have there; no place if they are equal.
func differ(at string, a, b any) (where, left, right string) {
	x, isMap := a.(map[string]any)
	y, too := b.(map[string]any)
	if isMap && too {
		names := maps.Clone(x)
		maps.Copy(names, y)
		for _, name := range slices.Sorted(maps.Keys(names)) {
			inside := name
			if at != "" && at != "fields" {
				inside = at + "." + name
			}
			if where, left, right = differ(inside, x[name], y[name]); where != "" {
				return where, left, right
			}
		}
		return "", "", ""
	}
	if left, right = jsonText(a), jsonText(b); left != right {
		return at, left, right
	}
	return "", "", ""
}

// jsonText is a value in one line, the same for equal ones.
func jsonText(v any) string {
	if v == nil {
		return "nothing"
	}
	b, err := jcs.Append(nil, v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(b)
}
