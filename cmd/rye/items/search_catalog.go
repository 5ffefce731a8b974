package items

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/ai/search"
	"github.com/rye-build/rye/ai/std"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/statcache"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/spaces"
	"github.com/rye-build/rye/lock/workspace"
)

// A catalog is what can be seen, as search wants it.
type catalog struct {
	v       *spaces.Items
	schema  string
	builtin map[string]cas.Digest // of the library's files, by their path in the space
	sure    map[*ai.Space]bool    // whose files are stamped by this machine's clock with every change

	mu    sync.Mutex
	files map[spaces.SpacePath]ai.File
	front map[model.Ref]string // the label of the highest space that has an item
}

func newCatalog(v *spaces.Items) *catalog {
	c := &catalog{v: v, schema: schemaOf(v), builtin: map[string]cas.Digest{}, sure: map[*ai.Space]bool{}}
	for _, s := range v.Spaces() {
		if d, err := os.Open(s.Dir); s.Dir != "" && err == nil {
			c.sure[s] = statcache.OwnStamps(d.Fd())
			d.Close()
		}
	}
	if _, files, err := std.Files(); err == nil {
		for _, f := range files {
			c.builtin[strings.TrimPrefix(f.Path, workspace.MarkerDir+"/")] = f.Digest
		}
	}
	return c
}

// schemaOf names what becomes of a file: it depends on this rye, and on the extractors, whose bytes say how fields are
// found.
func schemaOf(v *spaces.Items) string {
	var b strings.Builder
	fmt.Fprintf(&b, "1 %s\n", cli.ThisVersion().Version)
	for _, k := range v.Kinds() {
		fmt.Fprintf(&b, "%s %s %q %v %q\n", k.Name, k.Dir, k.Extensions, k.Weights, k.From)
		if k.From == "" {
			continue
		}
		all, err := v.All(context.Background(), model.Ref{Kind: "tool", ID: k.From})
		for _, it := range all {
			fmt.Fprintf(&b, "  %s %s\n", it.Space.Label, it.Raw)
		}
		if err != nil {
			fmt.Fprintf(&b, "  %v\n", err)
		}
	}
	for _, w := range v.Warnings() {
		fmt.Fprintf(&b, "%v\n", w)
	}
	return b.String()
}

// Schema implements search.Catalog.
func (c *catalog) Schema() string { return c.schema }

// Files implements search.Catalog.
func (c *catalog) Files(ctx context.Context) ([]search.File, error) {
	l, err := c.v.View.Files(ctx)
	if err != nil {
		return nil, err
	}
	out := make([]search.File, len(l.Files))
	files, front := make(map[spaces.SpacePath]ai.File, len(l.Files)), make(map[model.Ref]string, len(l.Files))
	for i, f := range l.Files {
		out[i] = search.File{Space: f.Space.Label, Path: f.Path}
		if f.Space.Builtin {
			out[i].Digest = c.builtin[f.Path]
		} else if f.Stat != (ai.Stat{}) {
			out[i].Stat = search.Stat{Size: f.Stat.Size, Mtime: f.Stat.Mtime, Ctime: f.Stat.Ctime, Inode: f.Stat.Inode, Mode: uint32(f.Stat.Mode), Sure: c.sure[f.Space]}
		}
		files[spaces.SpacePath{Space: f.Space.Label, Path: f.Path}] = f
		if _, ok := front[f.Ref]; !ok { // the highest comes first
			front[f.Ref] = f.Space.Label
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.files, c.front = files, front
	return out, nil
}

// Load implements search.Catalog. What is wrong with an item doesn't keep it from being found by what it says.
func (c *catalog) Load(ctx context.Context, f search.File) ([]search.Record, error) {
	c.mu.Lock()
	file, ok := c.files[spaces.SpacePath{Space: f.Space, Path: f.Path}]
	c.mu.Unlock()
	if !ok {
		return nil, fmt.Errorf("%q is not in the catalog", f.Path)
	}
	it, err := c.v.Load(ctx, file)
	if errors.Is(err, ai.ErrAsset) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	r := search.Record{Kind: it.Ref.Kind, ID: it.ID, Space: it.Space.Label, Rank: int(it.Space.Level), Path: it.Path}
	add := func(name, text string, weight float64) {
		has := slices.ContainsFunc(r.Fields, func(f search.Field) bool { return f.Name == name })
		if text != "" && !has && len(r.Fields) < search.MaxFields {
			r.Fields = append(r.Fields, search.Field{Name: name, Text: text, Weight: weight})
		}
	}
	for _, w := range it.Kind.Weights {
		add(w.Field, it.Model.Text(w.Field), w.Value)
	}
	add("id", it.ID, 3)
	add("title", it.Model.Text("title"), 0)
	add("description", it.Model.Description, 0)
	add("tags", strings.Join(it.Model.Tags, ", "), 0)
	return []search.Record{r}, nil
}

// shadowed reports whether an item of a higher space hides this one.
func (c *catalog) shadowed(kind, id, space string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	front, ok := c.front[model.Ref{Kind: kind, ID: id}]
	return ok && front != space
}

// Indexes is the directory of the search indexes: one for each place that one can search from.
func Indexes(a *cli.App) (string, error) {
	s := a.Dir(cli.CachePlace)
	return filepath.Join(s.Value, "search"), s.Err
}

// IndexAge is how long an unused index is kept. It can be built again from the files.
const IndexAge = 30 * 24 * time.Hour

// openIndex opens the index of what can be seen from here. Without a cache directory nothing is remembered, which the
// answer tells.
func openIndex(a *cli.App, v *spaces.Items) *search.Index {
	dir, err := Indexes(a)
	if err != nil {
		a.Term.Warn("%v", err)
	}
	_ = os.MkdirAll(dir, 0o700) // opening the index tells
	var places []string
	for _, s := range v.Spaces() {
		places = append(places, s.Label+"\x00"+s.Dir)
	}
	path := filepath.Join(dir, cas.Sum([]byte(strings.Join(places, "\x00"))).Short()+indexSuffix)
	now := a.Now()
	_ = os.Chtimes(path, now, now) // it was used; that it isn't there yet is no error
	for _, old := range IndexFiles(dir) {
		if fi, err := os.Stat(old); err == nil && old != path && now.Sub(fi.ModTime()) > IndexAge {
			os.Remove(old)
		}
	}
	return search.Open(path, search.Options{})
}

const indexSuffix = ".db"

// IndexFiles are the indexes in a directory.
func IndexFiles(dir string) (paths []string) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if e.Type().IsRegular() && strings.HasSuffix(e.Name(), indexSuffix) {
			paths = append(paths, filepath.Join(dir, e.Name()))
		}
	}
	return paths
}
