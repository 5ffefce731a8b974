package initcmd

import (
	"context"
	"strings"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/bundle/find"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/suggest"
	"github.com/rye-build/rye/cmd/rye/cli"
)

type docsRun struct {
	Topic string `arg:"" optional:"" complete:"topic" help:"Topic."`
}

type docsAnswer struct {
	Topics []topicLine `json:"topics"` // all topics, or the one of the argument
	Body   string      `json:"text"`   // Markdown; empty in the list
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
		return
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

func (c *docsRun) Run(ctx context.Context, _ *cli.App) (cli.Answer, error) {
	topics, err := DocTopics(ctx)
	if err != nil {
		return nil, err
	}
	// Accept a ref or an id too, because other commands print these.
	word := strings.TrimPrefix(strings.TrimPrefix(strings.ToLower(c.Topic), "knowledge:"), docsBelow)
	ans := docsAnswer{Topics: []topicLine{}}
	var names []string
	for _, it := range topics {
		line := topicLine{topicOf(it), it.Model.Title, it.Ref.String(), it.Model.Version}
		names = append(names, line.Topic)
		switch {
		case c.Topic == "":
			ans.Topics = append(ans.Topics, line)
		case line.Topic == word:
			return docsAnswer{[]topicLine{line}, it.Model.Body}, nil
		}
	}
	if c.Topic == "" {
		return ans, nil
	}
	f := fault.New(fault.NotFound, "no documentation for %q", c.Topic).Try("rye docs").On("topic", c.Topic)
	meant := suggest.Names(word, names)
	for _, it := range topics {
		if len(meant) == 0 && len(word) > 2 && (strings.Contains(topicOf(it), word) ||
			strings.Contains(strings.ToLower(it.Model.Title), word)) {
			meant = append(meant, topicOf(it))
		}
	}
	if len(meant) > 0 {
		f.Why = []string{"did you mean " + strings.Join(meant, ", ") + "?"}
		f.Hint, f.Details["did_you_mean"] = []string{"rye docs " + meant[0]}, meant
	}
	return nil, f
}
