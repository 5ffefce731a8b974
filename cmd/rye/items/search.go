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
	"github.com/rye-build/rye/cmd/rye/registries"
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

	Registry cli.Choice `help:"Search bundles at the registries of rye.yaml, or at =URL."`
}

type searchAnswer struct {
	*find.Found
	Registries []registries.Found `json:"registries,omitempty"` // with --registry, and then no items
}

func (s searchAnswer) Text(term *cli.Terminal) {
	if s.Registries != nil {
		for _, found := range s.Registries {
			found.Text(term)
		}
		return
	}
	if s.Loose && s.Total > 0 {
		term.Note("searched for %s", s.Query)
	}
	for i := range s.Results {
		hit := &s.Results[i]
		note := ""
		switch {
		case hit.Shadowed && items.IsMerged(hit.Ref):
			note = "  (another one is merged over it)"
		case hit.Shadowed:
			note = "  (hidden by another one)"
		}
		score := ""
		if hit.Score > 0 {
			score = "  " + strconv.FormatFloat(hit.Score, 'f', 2, 64)
		}
		term.Printf("%s  %s%s%s\n", term.Stdout.Paint(cli.RoleHint, hit.Ref, term.Ascii), hit.Space, score, note)
		if hit.Headline.Text != "" {
			term.Printf("  %s\n", Paint(term, &hit.Headline))
		}
		if hit.Snippet.Field != hit.Headline.Field && hit.Snippet.Text != "" {
			term.Printf("  %s\n", Paint(term, &hit.Snippet))
		}
	}
	if s.Total == 0 {
		term.Note("nothing found")
		return
	}
	if len(s.Results) == 0 {
		term.Note("nothing more: %s found", fault.Count(int64(s.Total), "item"))
		return
	}
	last := s.Offset + len(s.Results)
	more := ""
	if last < s.Total {
		more = fmt.Sprintf("; --offset %d shows what follows", last)
	}
	term.Note("%d to %d of %s%s", s.Offset+1, last, fault.Count(int64(s.Total), "item"), more)
}

// Paint returns a snippet with the matches in colour, escaped.
func Paint(term *cli.Terminal, snippet *find.Snippet) cli.Styled {
	var text strings.Builder
	dots := func(there bool) {
		if there {
			text.WriteString("...")
		}
	}
	dots(snippet.Before)
	at := 0
	for _, m := range snippet.Marks {
		text.WriteString(cli.Escape(snippet.Text[at:m.Start], term.Ascii))
		text.WriteString(string(term.Stdout.Paint(cli.RoleWarn, snippet.Text[m.Start:m.End], term.Ascii)))
		at = m.End
	}
	text.WriteString(cli.Escape(snippet.Text[at:], term.Ascii))
	dots(snippet.After)
	return cli.Styled(text.String())
}

func (c *SearchRun) Run(ctx context.Context, app *cli.App) (cli.Answer, error) {
	text := strings.Join(c.Query, " ")
	if c.Registry.Set && c.Limit > 0 {
		return c.atRegistries(ctx, app, text)
	}
	parsed, err := query.Parse(text)
	if err != nil {
		return nil, QueryFault(text, err, app.Term.Ascii)
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
	view, err := spaces.OpenItems(ctx, app)
	if err != nil {
		return nil, err
	}
	defer view.Close()
	view.ForgetLock()
	request := search.Request{Query: parsed, Scope: scope, Space: c.Space, Limit: c.Limit, Offset: c.Offset}
	for _, s := range view.Spaces() {
		if s.Builtin {
			request.Last = s.Label // what is the user's own comes first
		}
	}
	if err := c.narrow(view, &request); err != nil {
		return nil, err
	}
	dir, err := Indexes(app)
	if err != nil {
		app.Term.Warn("%v", err)
	}
	search := find.Searcher{View: view.View, Name: view.Name, Dir: dir, Version: cli.ThisVersion().Version,
		Now: app.Now()}
	found, err := search.Search(ctx, request)
	if err != nil {
		return nil, err
	}
	c.tell(view, found)
	return searchAnswer{Found: found}, nil
}

// atRegistries finds bundles at registries, which know words alone.
func (c *SearchRun) atRegistries(ctx context.Context, app *cli.App, text string) (cli.Answer, error) {
	switch {
	case c.Kind != "" || c.Scope != "" || c.Space != "" || c.Offset != 0:
		return nil, fault.New(fault.Validation, "--registry finds bundles: --kind, --scope, --space and --offset are "+
			"for items").Try("rye search --registry " + fault.Quote(text))
	case c.Registry.Value == "" && strings.Contains(c.Query[0], "://"):
		return nil, fault.New(fault.Validation, "%q would be a word of the query", c.Query[0]).
			Try("rye search --registry=" + fault.Quote(c.Query[0]) + " QUERY")
	}
	found, err := registries.Search(ctx, app, c.Registry.Value, text, c.Limit)
	if err != nil {
		return nil, err
	}
	answer := searchAnswer{&find.Found{Query: text, Results: []find.Hit{}, Unknown: []string{}}, found}
	for _, f := range found {
		answer.Total += len(f.Bundles)
	}
	return answer, nil
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
	app := view.App
	st := &found.Stats
	app.Count("index hits").Store(int64(st.Kept))
	app.Count("index misses").Store(int64(st.Read))
	app.Count("index gone").Store(int64(st.Gone))
	app.Count("items").Store(int64(st.Records))
	view.Count()
	switch {
	case st.Note != "":
		app.Term.Warn("no search index, every file is read: %s", st.Note)
	case st.Rebuilt:
		app.Term.Detail("the search index was damaged or outdated, and was rebuilt")
	}
	for i, e := range st.Unread {
		if i == 5 {
			app.Term.Warn("and %d more: run rye check", len(st.Unread)-i)
			break
		}
		app.Term.Warn("can't be searched: %s", fault.Of(e.Err).Text)
	}
	for _, field := range found.Unknown {
		if _, ok := view.Kind(field); ok {
			app.Term.Warn("no item has the field %s; use --kind %s", field, field)
		} else {
			app.Term.Warn("no item has the field %s", field)
		}
	}
}

// QueryFault returns the error of an invalid query, with a mark below the position of the mistake.
func QueryFault(text string, err error, ascii bool) *fault.Error {
	failure := fault.Of(err)
	bad, ok := errors.AsType[*query.ParseError](err)
	if !ok {
		return failure
	}
	failure.On("query", text)
	runes := []rune(text)
	before := string(runes[:min(max(bad.Column-1, 0), len(runes))])
	if len(text) <= 200 {
		failure.Why = append([]string{text, strings.Repeat(" ", utf8.RuneCountInString(cli.Escape(before, ascii))) +
			"^"},
			failure.Why...)
	}
	return failure
}
