package items

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/rye-build/rye/ai/search"
	"github.com/rye-build/rye/ai/search/query"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/spaces"
)

func SearchCommand() cli.Command {
	return cli.Command{
		Path: "search", Group: "items", Help: "Search items by their text.",
		More: "It looks in everything that rye ls lists, the library and its documentation included. A QUERY may say\n\n" +
			"    shell command            both words, anywhere in an item; so does shell AND command\n" +
			"    shell OR bash            either\n" +
			"    NOT shell, -shell        not that word\n" +
			"    (read OR write) -bash    parentheses\n" +
			"    \"run a command\"          the words in a row\n" +
			"    \"run command\"~5          both, at most five words apart\n" +
			"    deploy*, *sys*, wr?te    any characters, one character\n" +
			"    kubernets~, kubernets~2  at most one or two typing errors away\n" +
			"    name:bash                the word in that field: id, name, title, description, category, tags, content\n\n" +
			"NOT binds strongest, then AND, then OR; they are upper case. Case and word order don't count otherwise. What begins with a minus comes " +
			"behind \"--\". The best comes first: rare words count more, and so do titles and names. SCOPE is a kind and ids: tool:acme/web, " +
			"'*:acme/**', or as RYE writes it, tool.acme.web.*. The index is a cache (rye cache list) that is brought up to date by each search; -v " +
			"says what was read for it.\n\nExamples:\n\n    rye search fetch page\n    rye search '\"signed bundle\" OR lock*' --kind knowledge\n" +
			"    rye search --scope tool:acme --limit 50 --json -- name:web -legacy",
		Aka: []string{"find", "grep"},
		New: func() cli.Runner { return new(SearchRun) }, Schema: "search/1", Output: &searchAnswer{},
	}
}

type SearchRun struct {
	Query  []string `arg:"" name:"query" blank:"" help:"Words to find; \"\" finds everything."`
	Kind   string   `placeholder:"KIND" complete:"kind" help:"Only items of this kind."`
	Scope  string   `placeholder:"SCOPE" help:"Only items in this scope."`
	Space  string   `placeholder:"SPACE" complete:"space" help:"Only items of this space: project, user or system."`
	Limit  int      `default:"10" help:"Maximum number of results."`
	Offset int      `help:"Skip this many of the best results."`
}

type searchAnswer struct {
	Query   string       `json:"query"` // as it was understood
	Scope   string       `json:"scope"`
	Total   int          `json:"total"`
	Offset  int          `json:"offset"`
	Results []searchLine `json:"results"`
	Unknown []string     `json:"unknown_fields"` // fields that the query names and no item has
	Unread  int          `json:"unread"`         // files that could not be read, and so not be found
}

type searchLine struct {
	Ref         string   `json:"ref"`
	Space       string   `json:"space"`
	File        string   `json:"file"`
	Score       float64  `json:"score"`
	Title       string   `json:"title"`
	Description string   `json:"description"`
	Shadowed    bool     `json:"shadowed"` // an item with this id stands in front of it
	Snippet     Snippet  `json:"snippet"`
	Fields      []string `json:"fields"` // in which the words were found
	headline    Snippet
}

// A Snippet is a piece of a field's text. Marks are in bytes of the text.
type Snippet struct {
	Field  string `json:"field"`
	Text   string `json:"text"`
	Marks  []Mark `json:"marks"`
	Before bool   `json:"before"` // the text goes on before it
	After  bool   `json:"after"`
}

type Mark struct {
	Start int `json:"start"`
	End   int `json:"end"`
}

func (s *searchAnswer) Text(t *cli.Terminal) {
	for i := range s.Results {
		l := &s.Results[i]
		note := ""
		switch {
		case l.Shadowed && spaces.IsMerged(l.Ref):
			note = "  (another one is merged over it)"
		case l.Shadowed:
			note = "  (another one stands in front of it)"
		}
		score := ""
		if l.Score > 0 {
			score = "  " + strconv.FormatFloat(l.Score, 'f', 2, 64)
		}
		t.Printf("%s  %s%s%s\n", t.Stdout.Paint(cli.RoleHint, l.Ref, t.Ascii), l.Space, score, note)
		if l.headline.Text != "" {
			t.Printf("  %s\n", l.headline.Paint(t))
		}
		if l.Snippet.Field != l.headline.Field && l.Snippet.Text != "" {
			t.Printf("  %s\n", l.Snippet.Paint(t))
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

// Paint shows a snippet with what was found in colour.
func (s *Snippet) Paint(t *cli.Terminal) cli.Styled {
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
		return nil, &fault.Error{Code: fault.Validation, Text: fmt.Sprintf("--limit is at least 1, not %d", c.Limit), Hint: []string{"rye search --limit 10 QUERY"}}
	case c.Offset < 0:
		return nil, &fault.Error{Code: fault.Validation, Text: fmt.Sprintf("--offset is at least 0, not %d", c.Offset), Hint: []string{"rye search --offset 10 QUERY"}}
	}
	scope, err := query.ParseScope(c.Scope)
	if err != nil {
		return nil, &fault.Error{Code: fault.Validation, Err: err, Text: "--scope: " + err.Error(), Hint: []string{"rye search --scope tool:acme QUERY"}}
	}
	v, err := spaces.OpenItems(ctx, a)
	if err != nil {
		return nil, err
	}
	defer v.Close()
	r := search.Request{Query: q, Scope: scope, Space: c.Space, Limit: c.Limit, Offset: c.Offset}
	if err := c.narrow(v, &r); err != nil {
		return nil, err
	}
	cat := newCatalog(v)
	found, err := openIndex(a, v).Search(ctx, cat, r)
	if err != nil {
		return nil, err
	}
	c.tell(a, v, found)
	ans := &searchAnswer{Query: q.String(), Scope: r.Scope.String(), Total: found.Total, Offset: c.Offset, Results: []searchLine{},
		Unknown: append([]string{}, found.Unknown...), Unread: len(found.Stats.Unread)}
	for i := range found.Results {
		ans.Results = append(ans.Results, newSearchLine(v, cat, &found.Results[i]))
	}
	return ans, nil
}

// narrow puts --kind and --space into a request.
func (c *SearchRun) narrow(v *spaces.Items, r *search.Request) error {
	for _, kind := range []string{c.Kind, r.Scope.Kind} {
		if kind == "" {
			continue
		}
		if _, err := v.CheckKind(kind); err != nil {
			return err
		}
		if r.Scope.Kind != "" && kind != r.Scope.Kind {
			return &fault.Error{Code: fault.Validation, Text: fmt.Sprintf("--kind %s and --scope %s have nothing in common", c.Kind, c.Scope)}
		}
	}
	r.Scope.Kind = cmp.Or(r.Scope.Kind, c.Kind)
	if c.Space == "" {
		return nil
	}
	if err := checkUserSpace(v, c.Space); err != nil {
		return err
	}
	labels := []string{"project", "user", "system"}
	for _, s := range v.Spaces() {
		labels = append(labels, s.Label)
	}
	if slices.Contains(labels, c.Space) {
		return nil
	}
	slices.Sort(labels)
	return spaces.UnknownName("space", c.Space, slices.Compact(labels))
}

// tell says what --verbose asks for, and what is missing in the answer.
func (c *SearchRun) tell(a *cli.App, v *spaces.Items, found *search.Response) {
	st := &found.Stats
	a.Count("index hits").Store(int64(st.Kept))
	a.Count("index misses").Store(int64(st.Read))
	a.Count("index gone").Store(int64(st.Gone))
	a.Count("items").Store(int64(st.Records))
	v.Count(a)
	switch {
	case st.Note != "":
		a.Term.Warn("no search index, every file is read: %s", st.Note)
	case st.Rebuilt:
		a.Term.Detail("the search index was damaged, or of another version, and was made anew")
	}
	for i, e := range st.Unread {
		if i == 5 {
			a.Term.Warn("and %d more: rye check says why", len(st.Unread)-i)
			break
		}
		a.Term.Warn("can't be searched: %s", fault.Of(e.Err).Text)
	}
	for _, field := range found.Unknown {
		if _, ok := v.Kind(field); ok {
			a.Term.Warn("no item has the field %s; a kind is asked for by --kind %s", field, field)
		} else {
			a.Term.Warn("no item has the field %s", field)
		}
	}
}

// QueryFault shows where a query has no meaning.
func QueryFault(text string, err error, ascii bool) *fault.Error {
	f := &fault.Error{Code: fault.Validation, Err: err, Text: "the query can't be understood: " + err.Error()}
	bad, ok := errors.AsType[*query.ParseError](err)
	if !ok {
		return f
	}
	f.Text = "the query can't be understood: " + bad.Msg
	f.Details = map[string]any{"query": text, "column": bad.Column, "hint": bad.Hint}
	runes := []rune(text)
	before := string(runes[:min(max(bad.Column-1, 0), len(runes))])
	if len(text) <= 200 {
		f.Why = []string{text, strings.Repeat(" ", utf8.RuneCountInString(cli.Escape(before, ascii))) + "^"}
	}
	if bad.Hint != "" {
		f.Why = append(f.Why, bad.Hint)
	}
	f.Hint = []string{"rye help search"}
	return f
}

// snippetSize is how much of a text is shown.
const snippetSize = 160

func newSearchLine(v *spaces.Items, cat *catalog, r *search.Result) searchLine {
	l := searchLine{Ref: r.Kind + ":" + r.ID, Space: r.Space, Score: r.Score, Shadowed: cat.shadowed(r.Kind, r.ID, r.Space), Fields: []string{}}
	if spaces, err := v.Named(r.Space); err == nil {
		l.File = v.Place(spaces[0], r.Path)
	}
	texts := map[string]string{}
	for _, f := range r.Fields {
		texts[f.Name] = f.Text
	}
	l.Title, l.Description = texts["title"], texts["description"]
	marks := map[string][]query.Range{}
	for _, h := range r.Highlights {
		l.Fields = append(l.Fields, h.Field)
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
	l.headline = cut("title")
	if l.Description != "" {
		l.headline = cut("description")
	}
	l.Snippet = l.headline
	for _, field := range []string{"content", "description", "title", "docstring"} {
		if len(marks[field]) > 0 {
			l.Snippet = cut(field)
			break
		}
	}
	return l
}
