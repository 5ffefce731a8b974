package find

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/ai/search"
	"github.com/rye-build/rye/ai/std"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/statcache"
)

// A catalog is a view's items in the form that package search requires.
type catalog struct {
	v       *ai.View
	schema  string
	builtin map[string]cas.Digest // digests of the library's files by path
	sure    map[*ai.Space]uint64  // devices of spaces whose files this machine's clock stamps at every change

	mu    sync.Mutex
	files []ai.File // of the last listing; their indexes are the keys of search.File
}

func newCatalog(v *ai.View, version string) *catalog {
	catalog := &catalog{v: v, schema: schemaOf(v, version), builtin: map[string]cas.Digest{},
		sure: map[*ai.Space]uint64{}}
	for _, s := range v.Spaces() {
		if d, err := os.Open(s.Dir); s.Dir != "" && err == nil {
			if info, err := d.Stat(); err == nil && statcache.OwnStamps(d.Fd()) {
				catalog.sure[s] = statcache.StampOf(info).Dev
			}
			d.Close()
		}
	}
	if _, files, err := std.Files(); err == nil {
		for _, f := range files {
			catalog.builtin[strings.TrimPrefix(f.Path, ".ai/")] = f.Digest
		}
	}
	return catalog
}

// schemaOf identifies how files become records. That depends on this rye and on the extractors, whose bytes define
// where fields are found.
func schemaOf(view *ai.View, version string) string {
	var text strings.Builder
	fmt.Fprintf(&text, "1 %s\n", version)
	for _, k := range view.Kinds() {
		fmt.Fprintf(&text, "%s %s %q %v %q\n", k.Name, k.Dir, k.Extensions, k.Weights, k.From)
		if k.From == "" {
			continue
		}
		all, err := view.All(context.Background(), model.Ref{Kind: "tool", ID: k.From})
		for _, it := range all {
			fmt.Fprintf(&text, "  %s %s\n", it.Space.Label, it.Raw)
		}
		if err != nil {
			fmt.Fprintf(&text, "  %v\n", err)
		}
	}
	for _, w := range view.Warnings() {
		fmt.Fprintf(&text, "%v\n", w)
	}
	return text.String()
}

// Schema implements search.Catalog.
func (c *catalog) Schema() string { return c.schema }

// stat returns the stamp of a file. The stamp isn't sure if the file is on another file system than its space.
func (c *catalog) stat(f ai.File) search.Stat {
	stamp := f.Stat
	device, sure := c.sure[f.Space]
	return search.Stat{
		Size: stamp.Size, Mtime: stamp.Mtime, Ctime: stamp.Ctime, Dev: stamp.Dev, Inode: stamp.Ino, Mode: stamp.Mode,
		Sure: sure && device == stamp.Dev,
	}
}

// Files implements search.Catalog.
func (c *catalog) Files(ctx context.Context) ([]search.File, error) {
	listing, err := c.v.Files(ctx)
	if err != nil {
		return nil, err
	}
	out := make([]search.File, len(listing.Files))
	for i, f := range listing.Files {
		out[i] = search.File{Space: f.Space.Label, Path: f.Path, Key: i}
		if f.Space.Builtin {
			out[i].Digest = c.builtin[f.Path]
		} else if f.Stat.Ctime != 0 {
			out[i].Stat = c.stat(f)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.files = listing.Files
	return out, nil
}

// Load implements search.Catalog. An item with problems can be found, too.
func (c *catalog) Load(ctx context.Context, f search.File) ([]search.Record, error) {
	c.mu.Lock()
	file := c.files[f.Key]
	c.mu.Unlock()
	it, err := c.v.Read(ctx, file)
	if errors.Is(err, ai.ErrAsset) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	record := search.Record{Kind: it.Ref.Kind, ID: it.ID, Space: it.Space.Label, Rank: int(it.Space.Level),
		Path: it.Path}
	add := func(name, text string, weight float64) {
		has := slices.ContainsFunc(record.Fields, func(f search.Field) bool { return f.Name == name })
		if text != "" && !has && len(record.Fields) < search.MaxFields {
			record.Fields = append(record.Fields, search.Field{Name: name, Text: text, Weight: weight})
		}
	}
	for _, w := range it.Kind.Weights {
		add(w.Field, it.Model.Text(w.Field), w.Value)
	}
	add("id", it.ID, 3)
	add("title", it.Model.Text("title"), 0)
	add("description", it.Model.Description, 0)
	add("tags", strings.Join(it.Model.Tags, ", "), 0)
	return []search.Record{record}, nil
}

// shadowed reports whether an item of a higher space hides this one.
func (c *catalog) shadowed(kind, id, space string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	// The file of the highest space comes first among files of one id.
	i, ok := slices.BinarySearchFunc(c.files, model.Ref{Kind: kind, ID: id}, func(f ai.File, ref model.Ref) int {
		return cmp.Or(strings.Compare(f.Ref.Kind, ref.Kind), strings.Compare(f.ID, ref.ID))
	})
	return ok && c.files[i].Space.Label != space
}
