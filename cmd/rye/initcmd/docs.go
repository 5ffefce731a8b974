package initcmd

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/rye-build/rye/ai"
	aifind "github.com/rye-build/rye/ai/find"
	"github.com/rye-build/rye/ai/search"
	"github.com/rye-build/rye/ai/search/query"
	"github.com/rye-build/rye/bundle/find"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/suggest"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/items"
)

type docsRun struct {
	Topic []string `arg:"" optional:"" complete:"topic" help:"Topic, error code, or words to search for."`
}

type docsAnswer struct {
	Topics []topicLine `json:"topics"` // all topics, the one of the argument, or those found by its words
	Body   string      `json:"text"`   // Markdown; empty in a list

	searched string // for the words
}

type topicLine struct {
	Topic   string `json:"topic"`
	Title   string `json:"title"`
	Ref     string `json:"ref"`
	Version string `json:"version"`
}

func (d docsAnswer) Text(t *cli.Terminal) {
	if d.Body != "" {
		t.Printf("%s\n", cli.Styled(strings.TrimRight(d.Body, "\n"))) // part of the binary
		if d.searched == "" {
			return
		}
		t.Printf("\n")
	} else if d.searched != "" {
		t.Note("no page is named %q; found by its text:", d.searched)
	}
	var rows [][]string
	for _, topic := range d.Topics {
		rows = append(rows, []string{topic.Topic, topic.Title})
	}
	t.Rows(rows)
}

// docsBelow is the common beginning of the ids of topics.
const docsBelow = "rye/"

func topicOf(it *ai.Item) string { return strings.TrimPrefix(it.ID, docsBelow) }

// DocTopics returns the topics: the knowledge items of the library in the binary. Items of other spaces can't hide
// them.
func DocTopics(ctx context.Context) ([]*ai.Item, error) {
	v, err := find.LibraryView(ctx)
	if err != nil {
		return nil, err
	}
	l, err := v.Files(ctx, "knowledge")
	if err != nil {
		return nil, err
	}
	var topics []*ai.Item
	for _, f := range l.Files {
		it, err := v.Load(ctx, f)
		if err != nil {
			return nil, err
		}
		topics = append(topics, it)
	}
	return topics, nil
}

func (c *docsRun) Run(ctx context.Context, app *cli.App) (cli.Answer, error) {
	topics, err := DocTopics(ctx)
	if err != nil {
		return nil, err
	}
	text := strings.Join(c.Topic, " ")
	// Accept a ref or an id too, because other commands print these.
	word := strings.TrimPrefix(strings.TrimPrefix(strings.ToLower(text), "knowledge:"), docsBelow)
	ans := docsAnswer{Topics: []topicLine{}}
	var names []string
	for _, it := range topics {
		line := topicLine{topicOf(it), it.Model.Title, it.Ref.String(), it.Model.Version}
		names = append(names, line.Topic)
		ans.Topics = append(ans.Topics, line)
		if line.Topic == word {
			return docsAnswer{Topics: []topicLine{line}, Body: it.Model.Body}, nil
		}
	}
	if text == "" {
		return ans, nil
	}
	found, err := searchTopics(ctx, app, text, ans.Topics)
	if err != nil {
		return nil, err
	}
	meaning := codeMeaning(text)
	if meaning != "" || len(found) > 0 {
		return docsAnswer{Topics: found, Body: meaning, searched: text}, nil
	}
	failure := fault.New(fault.NotFound, "no documentation for %q", text).Try("rye docs").On("topic", text)
	if meant := suggest.Names(word, names); len(meant) > 0 {
		failure.Why = []string{"did you mean " + strings.Join(meant, ", ") + "?"}
		failure.Hint, failure.Details["did_you_mean"] = []string{"rye docs " + meant[0]}, meant
	}
	return nil, failure
}

// codeMeaning explains an error code, or returns "" if the text is none.
func codeMeaning(text string) string {
	code := fault.Code(strings.ToUpper(strings.NewReplacer(" ", "_", "-", "_").Replace(text)))
	for _, line := range fault.Table() {
		if line.Code == code {
			again := ""
			if line.Retryable {
				again = " The same command may succeed later."
			}
			return fmt.Sprintf("%s (exit status %d): %s.%s\n", code, line.Exit, line.Help, again)
		}
	}
	return ""
}

// searchTopics returns those of the topics that have the words, the best first.
func searchTopics(ctx context.Context, app *cli.App, text string, topics []topicLine) ([]topicLine, error) {
	parsed, err := query.Parse(text)
	if err != nil {
		return nil, items.QueryFault(text, err, app.Term.Ascii)
	}
	view, err := find.LibraryView(ctx)
	if err != nil {
		return nil, err
	}
	searcher := aifind.Searcher{View: view, Version: cli.ThisVersion().Version, Now: app.Now(),
		Name: func(_ *ai.Space, path string) string { return path }}
	if searcher.Dir, err = items.Indexes(app); err != nil {
		app.Term.Warn("%v", err)
	}
	results, err := searcher.Search(ctx, search.Request{Query: parsed, Scope: query.Scope{Kind: "knowledge"}})
	if err != nil {
		return nil, err
	}
	found := []topicLine{}
	for i := range results.Results {
		ref := results.Results[i].Ref
		if at := slices.IndexFunc(topics, func(line topicLine) bool { return line.Ref == ref }); at >= 0 {
			found = append(found, topics[at])
		}
	}
	return found, nil
}
