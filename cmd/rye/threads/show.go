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
	Thread string   `arg:"" complete:"thread" help:"Thread id, directory, export or transcript.jsonl."`
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

func (c *showRun) Run(ctx context.Context, a *cli.App) (cli.Answer, error) {
	s, done, err := find(a, c.Thread)
	if row, err := wasPruned(a, err); err != nil || row != nil {
		a.Term.Json = a.Term.Json || c.Format == "json"
		return shownPruned(row), err
	}
	if err != nil {
		return nil, err
	}
	defer done()
	keys, err := keysOf(ctx, a, c.Key)
	if err != nil {
		return nil, err
	}
	r, _, err := s.verify(ctx, transcript.Check{Keys: audits.PublicKeys(keys), Unfinished: true})
	if err != nil {
		return nil, advise(err, "rye thread show", c.Thread)
	}
	ans := shown{overview: overview{Thread: r.Thread}, Verified: r.Problem == nil, Problem: r.Problem,
		Unsigned: r.Unsigned, Events: []step{}}
	if err := ans.overview.read(ctx, s); err != nil {
		return nil, err
	}
	if p := r.Problem; p != nil {
		a.Term.Warn("not verified: %s", p)
	}
	a.Term.Json = a.Term.Json || c.Format == "json"
	if a.Term.Json {
		err := s.each(ctx, func(e step) error {
			ans.Events = append(ans.Events, e)
			return nil
		})
		return ans, err
	}
	w := &page{t: a.Term, o: &ans.overview, markdown: c.Format == "markdown", calls: map[string]string{}}
	w.header()
	if err := s.each(ctx, func(e step) error { w.event(e); return nil }); err != nil {
		return nil, err
	}
	if o := &ans.overview; o.Graph != "" {
		w.heading(2, "Graph")
		w.code(2, "", o.Drawn(ctx, a))
	}
	w.footer()
	return nil, a.Term.Data.Flush()
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
	switch p := p.(type) {
	case transcript.NodeStarted:
		o.Turns = max(o.Turns, p.Step)
	case transcript.Started:
		o.Directive, o.Model = strings.TrimPrefix(p.Directive.Ref, "directive:"), p.Model
	case transcript.Request:
		o.Turns = max(o.Turns, p.Turn)
	case transcript.Answer:
		if p.Model != "" && o.Model == "" {
			o.Model = p.Model
		}
		if u := p.Usage; u != nil {
			o.Input, o.Output = o.Input+u.Input+u.CacheRead+u.CacheWrite, o.Output+u.Output+u.Reasoning
		}
		o.Spend += p.Cost
	case transcript.Classified:
		o.Spend += p.Cost
	case transcript.Waiting:
		o.Status = p.State
	case transcript.Continued, transcript.Driver:
		o.Status = "running"
	case transcript.Completed:
		o.end(transcript.StatusCompleted, p.Cost)
	case transcript.Failed:
		o.end(transcript.StatusError, p.Cost)
	case transcript.Cancelled:
		o.end(transcript.StatusCancelled, p.Cost)
		if p.Killed {
			o.Status = transcript.StatusKilled
		}
	case transcript.HandedOff:
		o.end(transcript.StatusContinued, p.Cost)
	}
}

// end takes the last event. For rye 1 it is the only source of tokens and money.
func (o *overview) end(status string, c transcript.Cost) {
	o.Status = status
	o.Turns, o.Input, o.Output, o.Spend = max(o.Turns, c.Turns), max(o.Input, c.InputTokens), max(o.Output,
		c.OutputTokens), max(o.Spend, c.Spend)
}
