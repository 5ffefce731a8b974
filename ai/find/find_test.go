package find_test

import (
	"testing"
	"testing/fstest"
	"time"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/find"
	"github.com/rye-build/rye/ai/search"
	"github.com/rye-build/rye/ai/search/query"
	"github.com/rye-build/rye/ai/std"
)

func TestSearch(t *testing.T) {
	tool := &fstest.MapFile{
		Data: []byte(
			"executor_id: rye/core/primitives/subprocess\ntool_type: program\nversion: 1.0.0\ndescription: Mows the lawn\n")}
	plain := &fstest.MapFile{Data: []byte("lawn: 1\n")} // an asset
	project := &ai.Space{Label: "project", Level: ai.Project,
		FS: fstest.MapFS{"tools/acme/mow.yaml": tool, "tools/acme/plain.yaml": plain}}
	user := &ai.Space{Label: "user", Level: ai.User, FS: fstest.MapFS{"tools/acme/mow.yaml": tool}}
	library := &ai.Space{Label: "system:rye/std", Level: ai.System, FS: std.FS(), Builtin: true}
	v, err := ai.NewView(t.Context(), ai.Options{Spaces: []*ai.Space{project, user, library}})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	s := find.Searcher{View: v, Name: func(s *ai.Space, p string) string {
		return s.Label + "/" + p
	}, Dir: dir, Now: time.Now()}
	for round := range 2 { // without an index, and with one
		q, err := query.Parse("lawn")
		if err != nil {
			t.Fatal(err)
		}
		got, err := s.Search(t.Context(), search.Request{Query: q, Limit: 10})
		if err != nil || got.Total != 2 {
			t.Fatalf("round %d: %+v, %v", round, got, err)
		}
		first, second := got.Results[0], got.Results[1]
		if first.Ref != "tool:acme/mow" || first.File != "project/tools/acme/mow.yaml" || first.Shadowed ||
			!second.Shadowed || first.Headline.Text != "Mows the lawn" {
			t.Errorf("round %d: %+v", round, got.Results)
		}
		if len(first.Snippet.Marks) != 1 ||
			first.Snippet.Text[first.Snippet.Marks[0].Start:first.Snippet.Marks[0].End] != "lawn" {
			t.Errorf("round %d: %+v", round, first.Snippet)
		}
		if round == 1 && got.Stats.Kept == 0 {
			t.Errorf("the index was not used: %+v", got.Stats)
		}
	}
	if all := find.Indexes(dir); len(all) != 1 {
		t.Errorf("%v", all)
	}
}
