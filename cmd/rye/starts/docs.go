package starts

import (
	"context"
	"fmt"
	"strings"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/std"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/near"
	"github.com/rye-build/rye/cmd/rye/cli"
)

func DocsCommand() cli.Command {
	return cli.Command{
		Path: "docs", Group: "start", Help: "Read the documentation.",
		More: "Without a TOPIC it lists them. Topics are items of the library, such as knowledge:rye/overview, so rye search finds them " +
			"too.\n\nExamples:\n\n    rye docs\n    rye docs overview\n    rye docs tool-format | less",
		Aka: []string{"doc", "manual", "guide"},
		New: func() cli.Runner { return new(docsRun) }, Schema: "docs/1", Output: docsAnswer{},
	}
}

type docsRun struct {
	Topic string `arg:"" optional:"" help:"Topic."`
}

type docsAnswer struct {
	Topics []topicLine `json:"topics"` // all of them, or the one that was asked for
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

// docsBelow begins the ids of topics.
const docsBelow = "rye/"

func (c *docsRun) Complete(ctx context.Context, _ *cli.App, _, _ string) (out []cli.Candidate) {
	topics, _ := DocTopics(ctx)
	for _, it := range topics {
		out = append(out, cli.Candidate{Value: topicOf(it), Help: it.Model.Title})
	}
	return out
}

func topicOf(it *ai.Item) string { return strings.TrimPrefix(it.ID, docsBelow) }

// DocTopics reads the topics from the binary alone.
func DocTopics(ctx context.Context) ([]*ai.Item, error) {
	v, err := ai.NewView(ctx, ai.Options{Spaces: []*ai.Space{{Label: cli.StdLabel, Level: ai.System, FS: std.FS(), Builtin: true}}})
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
	// Other commands name a topic by its ref or id.
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
	f := &fault.Error{Code: fault.NotFound, Text: fmt.Sprintf("no documentation for %q", c.Topic), Hint: []string{"rye docs"},
		Details: map[string]any{"topic": c.Topic}}
	meant := near.Names(word, names)
	for _, it := range topics {
		if len(meant) == 0 && len(word) > 2 && (strings.Contains(topicOf(it), word) || strings.Contains(strings.ToLower(it.Model.Title), word)) {
			meant = append(meant, topicOf(it))
		}
	}
	if len(meant) > 0 {
		f.Why = []string{"did you mean " + strings.Join(meant, ", ") + "?"}
		f.Hint, f.Details["did_you_mean"] = []string{"rye docs " + meant[0]}, meant
	}
	return nil, f
}
