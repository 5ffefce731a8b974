package items

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/rye-build/rye/ai/find"
	"github.com/rye-build/rye/ai/search"
	"github.com/rye-build/rye/ai/search/query"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/spaces"
	"github.com/rye-build/rye/lock/items"
)

// SearchRun is rye search.
type SearchRun struct {
	Query  []string `arg:"" name:"query" blank:"" help:"Words to find; \"\" finds everything."`
	Kind   string   `placeholder:"KIND" complete:"kind" help:"Only items of this kind."`
	Scope  string   `placeholder:"SCOPE" help:"Only items in this scope."`
	Space  string   `placeholder:"SPACE" complete:"space" help:"Only items of this space: project, user or system."`
	Limit  int      `default:"10" help:"Maximum number of results."`
	Offset int      `help:"Skip this many of the best results."`
}

type searchAnswer struct{ *find.Found }

func (s searchAnswer) Text(t *cli.Terminal) {
	for i := range s.Results {
		l := &s.Results[i]
		note := ""
		switch {
		case l.Shadowed && items.IsMerged(l.Ref):
			note = "  (another one is merged over it)"
		case l.Shadowed:
			note = "  (hidden by another one)"
		}
		score := ""
		if l.Score > 0 {
			score = "  " + strconv.FormatFloat(l.Score, 'f', 2, 64)
		}
		t.Printf("%s  %s%s%s\n", t.Stdout.Paint(cli.RoleHint, l.Ref, t.Ascii), l.Space, score, note)
		if l.Headline.Text != "" {
			t.Printf("  %s\n", Paint(t, &l.Headline))
		}
		if l.Snippet.Field != l.Headline.Field && l.Snippet.Text != "" {
			t.Printf("  %s\n", Paint(t, &l.Snippet))
		}
	}
	if s.Total == 0 {
		t.Note("nothing found")
		return
	}
	if len(s.Results) == 0 {
		t.Note("nothing more: %s found", fault.Count(int64(s.Total), "item"))
		return
	}
	last := s.Offset + len(s.Results)
	more := ""
	if last < s.Total {
		more = fmt.Sprintf("; --offset %d shows what follows", last)
	}
	t.Note("%d to %d of %s%s", s.Offset+1, last, fault.Count(int64(s.Total), "item"), more)
}

// Paint returns a snippet with the matches in colour, escaped.
func Paint(t *cli.Terminal, s *find.Snippet) cli.Styled {
	var b strings.Builder
	dots := func(there bool) {
		if there {
			b.WriteString("...")
		}
	}
	dots(s.Before)
	at := 0
	for _, m := range s.Marks {
		b.WriteString(cli.Escape(s.Text[at:m.Start], t.Ascii))
		b.WriteString(string(t.Stdout.Paint(cli.RoleWarn, s.Text[m.Start:m.End], t.Ascii)))
		at = m.End
	}
	b.WriteString(cli.Escape(s.Text[at:], t.Ascii))
	dots(s.After)
	return cli.Styled(b.String())
}

func (c *SearchRun) Run(ctx context.Context, a *cli.App) (cli.Answer, error) {
	text := strings.Join(c.Query, " ")
	q, err := query.Parse(text)
	if err != nil {
		return nil, QueryFault(text, err, a.Term.Ascii)
	}
	switch {
	case c.Limit < 1:
		return nil, fault.New(fault.Validation, "--limit must be at least 1").
			Try("rye search --limit 10 QUERY")
	case c.Offset < 0:
		return nil, fault.New(fault.Validation, "--offset must not be negative").
			Try("rye search --offset 10 QUERY")
	}
	scope, err := query.ParseScope(c.Scope)
	if err != nil {
		return nil, fault.New(fault.Validation, "--scope: %s", err).From(err).
			Try("rye search --scope tool:acme QUERY")
	}
	view, err := spaces.OpenItems(ctx, a)
	if err != nil {
		return nil, err
	}
	defer view.Close()
	view.ForgetLock()
	r := search.Request{Query: q, Scope: scope, Space: c.Space, Limit: c.Limit, Offset: c.Offset}
	for _, s := range view.Spaces() {
		if s.Builtin {
			r.Last = s.Label // what is the user's own comes first
		}
	}
	if err := c.narrow(view, &r); err != nil {
		return nil, err
	}
	dir, err := Indexes(a)
	if err != nil {
		a.Term.Warn("%v", err)
	}
	search := find.Searcher{View: view.View, Name: view.Name, Dir: dir, Version: cli.ThisVersion().Version,
		Now: a.Now()}
	found, err := search.Search(ctx, r)
	if err != nil {
		return nil, err
	}
	c.tell(view, found)
	return searchAnswer{found}, nil
}

// Indexes returns the directory of the search indexes.
func Indexes(a *cli.App) (string, error) {
	s := a.Dir(cli.CachePlace)
	return filepath.Join(s.Value, "search"), s.Err
}

// narrow checks --kind and --space and adds --kind to the request's scope.
func (c *SearchRun) narrow(view *spaces.Items, request *search.Request) error {
	for _, kind := range []string{c.Kind, request.Scope.Kind} {
		if kind == "" {
			continue
		}
		if _, err := view.CheckKind(kind); err != nil {
			return fault.Of(err).Try("rye ls")
		}
		if request.Scope.Kind != "" && kind != request.Scope.Kind {
			return fault.New(fault.Validation, "--kind %s and --scope %s have nothing in common", c.Kind, c.Scope)
		}
	}
	request.Scope.Kind = cmp.Or(request.Scope.Kind, c.Kind)
	if c.Space == "" {
		return nil
	}
	if err := checkUserSpace(view, c.Space); err != nil {
		return err
	}
	labels := []string{"project", "user", "system"}
	for _, s := range view.Spaces() {
		labels = append(labels, s.Label)
	}
	if slices.Contains(labels, c.Space) {
		return nil
	}
	slices.Sort(labels)
	return items.Unknown("space", c.Space, slices.Compact(labels))
}

// tell prints the counters of --verbose, and warns about files and fields that the search could not use.
func (c *SearchRun) tell(view *spaces.Items, found *find.Found) {
	a := view.App
	st := &found.Stats
	a.Count("index hits").Store(int64(st.Kept))
	a.Count("index misses").Store(int64(st.Read))
	a.Count("index gone").Store(int64(st.Gone))
	a.Count("items").Store(int64(st.Records))
	view.Count()
	switch {
	case st.Note != "":
		a.Term.Warn("no search index, every file is read: %s", st.Note)
	case st.Rebuilt:
		a.Term.Detail("the search index was damaged or outdated, and was rebuilt")
	}
	for i, e := range st.Unread {
		if i == 5 {
			a.Term.Warn("and %d more: run rye check", len(st.Unread)-i)
			break
		}
		a.Term.Warn("can't be searched: %s", fault.Of(e.Err).Text)
	}
	for _, field := range found.Unknown {
		if _, ok := view.Kind(field); ok {
			a.Term.Warn("no item has the field %s; use --kind %s", field, field)
		} else {
			a.Term.Warn("no item has the field %s", field)
		}
	}
}

// QueryFault returns the error of an invalid query, with a mark below the position of the mistake.
func QueryFault(text string, err error, ascii bool) *fault.Error {
	f := fault.Of(err)
	bad, ok := errors.AsType[*query.ParseError](err)
	if !ok {
		return f
	}
	f.On("query", text)
	runes := []rune(text)
	before := string(runes[:min(max(bad.Column-1, 0), len(runes))])
	if len(text) <= 200 {
		f.Why = append([]string{text, strings.Repeat(" ", utf8.RuneCountInString(cli.Escape(before, ascii))) + "^"},
			f.Why...)
	}
	return f
}
