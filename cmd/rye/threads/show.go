package threads

import (
	"context"
	"regexp"
	"strings"
	"sync"

	"github.com/rye-build/rye/cmd/rye/audits"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/threads/graphview"
	"github.com/rye-build/rye/exec/thread/roster"
	"github.com/rye-build/rye/exec/thread/transcript"
)

type showRun struct {
	Thread string   `arg:"" complete:"thread|path" help:"Thread id, directory, export or transcript.jsonl."`
	Format string   `enum:"text,markdown,json" default:"text" help:"Format: text, markdown or json."`
	Key    []string `placeholder:"PUBKEY" sep:"none" complete:"file" help:"Trust this key (public key, PEM file or name; repeatable)."`
}

// shown is the answer of rye thread show as JSON.
type shown struct {
	overview
	Verified bool                `json:"verified"` // all lines before the unsigned ones
	Problem  *transcript.Problem `json:"problem,omitempty"`
	Unsigned int64               `json:"unsigned"` // lines at the end that no checkpoint signs
	Events   []step              `json:"events"`
	Pruned   *roster.Pruned      `json:"pruned,omitempty"` // what remains of a thread whose transcript was removed
}

// Text prints a pruned thread. Other threads are written while they are read.
func (s shown) Text(t *cli.Terminal) {
	if s.Pruned != nil {
		prunedText(t, s.Thread, s.Status, s.Pruned)
	}
}

// An overview has the header of a transcript.
type overview struct {
	Thread    string `json:"thread"`
	Directive string `json:"directive"`
	Status    string `json:"status"` // of the last event, signed or not
	Model     string `json:"model"`
	Created   string `json:"created"`
	Turns     int64  `json:"turns"`
	Input     int64  `json:"input_tokens"`
	Output    int64  `json:"output_tokens"`
	Spend     int64  `json:"spend"` // nano-dollars
	graphview.Place
}

func (c *showRun) Run(ctx context.Context, app *cli.App) (cli.Answer, error) {
	source, done, err := find(app, c.Thread)
	if row, err := wasPruned(app, err); err != nil || row != nil {
		app.Term.Json = app.Term.Json || c.Format == "json"
		return shownPruned(row), err
	}
	if err != nil {
		return nil, err
	}
	defer done()
	keys, err := keysOf(ctx, app, c.Key)
	if err != nil {
		return nil, err
	}
	r, _, err := source.verify(ctx, transcript.Check{Keys: audits.PublicKeys(keys), Unfinished: true})
	if err != nil {
		return nil, advise(err, "rye thread show", c.Thread)
	}
	ans := shown{overview: overview{Thread: r.Thread}, Verified: r.Problem == nil, Problem: r.Problem,
		Unsigned: r.Unsigned, Events: []step{}}
	if err := ans.overview.read(ctx, source); err != nil {
		return nil, err
	}
	if p := r.Problem; p != nil {
		app.Term.Warn("not verified: %s", p)
	}
	app.Term.Json = app.Term.Json || c.Format == "json"
	if app.Term.Json {
		err := source.each(ctx, func(e step) error {
			ans.Events = append(ans.Events, e)
			return nil
		})
		return ans, err
	}
	w := &page{t: app.Term, o: &ans.overview, markdown: c.Format == "markdown", calls: map[string]string{}}
	w.header()
	if err := source.each(ctx, func(e step) error { w.event(e); return nil }); err != nil {
		return nil, err
	}
	if o := &ans.overview; o.Graph != "" {
		w.heading(2, "Graph")
		w.code(2, "", o.Drawn(ctx, app))
	}
	w.footer()
	return nil, app.Term.Data.Flush()
}

// epoch matches the end of the thread ids of rye 1.
var epoch = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`-[0-9]+$`)
})

// read reads the header from the events.
func (o *overview) read(ctx context.Context, s *source) error {
	o.Status = "running"
	err := s.each(ctx, func(e step) error {
		if o.Created == "" {
			o.Created = e.Time
		}
		o.take(e.Payload)
		return nil
	})
	if o.Directive == "" {
		o.Directive = epoch().ReplaceAllString(o.Thread, "")
	}
	return err
}

func (o *overview) take(p transcript.Payload) {
	o.Place.Take(p)
	switch nodeStarted := p.(type) {
	case transcript.NodeStarted:
		o.Turns = max(o.Turns, nodeStarted.Step)
	case transcript.Started:
		o.Directive, o.Model = strings.TrimPrefix(nodeStarted.Directive.Ref, "directive:"), nodeStarted.Model
	case transcript.Request:
		o.Turns = max(o.Turns, nodeStarted.Turn)
	case transcript.Answer:
		if nodeStarted.Model != "" && o.Model == "" {
			o.Model = nodeStarted.Model
		}
		if u := nodeStarted.Usage; u != nil {
			o.Input, o.Output = o.Input+u.Input+u.CacheRead+u.CacheWrite, o.Output+u.Output+u.Reasoning
		}
		o.Spend += nodeStarted.Cost
	case transcript.Classified:
		o.Spend += nodeStarted.Cost
	case transcript.Waiting:
		o.Status = nodeStarted.State
	case transcript.Continued, transcript.Driver:
		o.Status = "running"
	case transcript.Completed:
		o.end(transcript.StatusCompleted, nodeStarted.Cost)
	case transcript.Failed:
		o.end(transcript.StatusError, nodeStarted.Cost)
	case transcript.Cancelled:
		o.end(transcript.StatusCancelled, nodeStarted.Cost)
		if nodeStarted.Killed {
			o.Status = transcript.StatusKilled
		}
	case transcript.HandedOff:
		o.end(transcript.StatusContinued, nodeStarted.Cost)
	}
}

// end takes the last event. For rye 1 it is the only source of tokens and money.
func (o *overview) end(status string, c transcript.Cost) {
	o.Status = status
	o.Turns, o.Input, o.Output, o.Spend = max(o.Turns, c.Turns), max(o.Input, c.InputTokens), max(o.Output,
		c.OutputTokens), max(o.Spend, c.Spend)
}
