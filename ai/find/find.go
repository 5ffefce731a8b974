// Package find searches the items of a view. Each search updates the index.
//
// # How a search goes through here
//
// Searcher.Search makes a catalog of the view (newCatalog), opens the index of its spaces (open), and calls
// search.Index.Search, which lists files with catalog.Files and reads changed ones with catalog.Load. hit describes
// each result.
package find

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/search"
	"github.com/rye-build/rye/ai/search/query"
	"github.com/rye-build/rye/cas"
)

// A Searcher searches the items of a view.
type Searcher struct {
	View    *ai.View
	Name    func(s *ai.Space, path string) string // returns a file's name for people
	Dir     string                                // of the indexes, one for each set of spaces
	Version string                                // of rye; another version rebuilds the index
	Now     time.Time
}

// Found is the result of a search.
type Found struct {
	Query   string   `json:"query"` // as parsed
	Scope   string   `json:"scope"`
	Total   int      `json:"total"`
	Offset  int      `json:"offset"`
	Results []Hit    `json:"results"`
	Unknown []string `json:"unknown_fields"` // fields in the query that no item has
	Unread  int      `json:"unread"`         // number of unreadable files

	Stats search.Stats `json:"-"`
	Loose bool         `json:"-"` // the results have any of the words, not all
}

// Search runs a request. For a question, and if nothing has all of the words, it finds what has any of them. It
// rebuilds the index if that is missing or damaged.
func (s *Searcher) Search(ctx context.Context, r search.Request) (*Found, error) {
	defer s.View.Hold()()
	c := newCatalog(s.View, s.Version)
	index := s.open()
	loose, isLoose := r.Query.Loose()
	if isLoose {
		r.Query = loose
	}
	found, err := index.Search(ctx, c, r)
	if err == nil && found.Total == 0 && loose != nil && !isLoose {
		r.Query, isLoose = loose, true
		found, err = index.Search(ctx, c, r)
	}
	if err != nil {
		return nil, err
	}
	out := &Found{Query: r.Query.String(), Scope: r.Scope.String(), Total: found.Total, Offset: r.Offset,
		Results: []Hit{},
		Unknown: append([]string{}, found.Unknown...), Unread: len(found.Stats.Unread), Stats: found.Stats,
		Loose: isLoose}
	for i := range found.Results {
		out.Results = append(out.Results, c.hit(&found.Results[i], s.Name))
	}
	return out, nil
}

// MaxAge is how long an unused index is kept. A search rebuilds it from the files.
const MaxAge = 30 * 24 * time.Hour

const indexSuffix = ".db"

// Indexes returns the paths of the indexes in a directory.
func Indexes(dir string) (paths []string) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if e.Type().IsRegular() && strings.HasSuffix(e.Name(), indexSuffix) {
			paths = append(paths, filepath.Join(dir, e.Name()))
		}
	}
	return paths
}

// open opens the index of the view's spaces, and removes indexes that were unused for MaxAge. If the directory
// can't be created, the search works without an index and the answer's Stats say so.
func (s *Searcher) open() *search.Index {
	_ = os.MkdirAll(s.Dir, 0o700) // opening the index reports it
	var spaces []string
	for _, space := range s.View.Spaces() {
		spaces = append(spaces, space.Label+"\x00"+space.Dir)
	}
	path := filepath.Join(s.Dir, cas.Sum([]byte(strings.Join(spaces, "\x00"))).Short()+indexSuffix)
	_ = os.Chtimes(path, s.Now, s.Now) // mark it as used; it may not exist yet
	for _, old := range Indexes(s.Dir) {
		if fi, err := os.Stat(old); err == nil && old != path && s.Now.Sub(fi.ModTime()) > MaxAge {
			os.Remove(old)
		}
	}
	return search.Open(path)
}

// A Hit is a search result.
type Hit struct {
	Ref         string   `json:"ref"`
	Space       string   `json:"space"`
	File        string   `json:"file"`
	Score       float64  `json:"score"`
	Title       string   `json:"title"`
	Description string   `json:"description"`
	Shadowed    bool     `json:"shadowed"` // an item of a higher space hides it
	Snippet     Snippet  `json:"snippet"`
	Fields      []string `json:"fields"` // fields with matches
	Headline    Snippet  `json:"-"`      // of the description, otherwise of the title
}

// A Snippet is an excerpt of a field. Marks are byte offsets in Text.
type Snippet struct {
	Field  string `json:"field"`
	Text   string `json:"text"`
	Marks  []Mark `json:"marks"`
	Before bool   `json:"before"` // text was cut off before it
	After  bool   `json:"after"`
}

type Mark struct {
	Start int `json:"start"`
	End   int `json:"end"`
}

// snippetSize is the length of a snippet in bytes.
const snippetSize = 160

// hit describes a result.
func (c *catalog) hit(result *search.Result, name func(*ai.Space, string) string) Hit {
	hit := Hit{Ref: result.Kind + ":" + result.ID, Space: result.Space, Score: result.Score,
		Shadowed: c.shadowed(result.Kind, result.ID, result.Space),
		Fields:   []string{}}
	if i := slices.IndexFunc(c.v.Spaces(), func(s *ai.Space) bool { return s.Label == result.Space }); i >= 0 {
		hit.File = name(c.v.Spaces()[i], result.Path)
	}
	texts := map[string]string{}
	for _, f := range result.Fields {
		texts[f.Name] = f.Text
	}
	hit.Title, hit.Description = texts["title"], texts["description"]
	marks := map[string][]query.Range{}
	for _, h := range result.Highlights {
		hit.Fields = append(hit.Fields, h.Field)
		marks[h.Field] = h.Ranges
	}
	cut := func(field string) Snippet {
		s := query.Cut(texts[field], marks[field], snippetSize)
		out := Snippet{Field: field, Text: s.Text, Marks: []Mark{}, Before: s.Before, After: s.After}
		for _, m := range s.Ranges {
			out.Marks = append(out.Marks, Mark(m))
		}
		return out
	}
	hit.Headline = cut("title")
	if hit.Description != "" {
		hit.Headline = cut("description")
	}
	hit.Snippet = hit.Headline
	for _, field := range []string{"content", "description", "title", "docstring"} {
		if len(marks[field]) > 0 {
			hit.Snippet = cut(field)
			break
		}
	}
	return hit
}
