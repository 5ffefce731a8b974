package operations

import (
	"context"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/exec/thread/control"
)

// This file has rye thread cancel and rye thread kill.

type cancelRun struct {
	Threads []string `arg:"" name:"thread" complete:"active" help:"Thread id, or the beginning of one."`
	Reason  string   `placeholder:"TEXT" help:"Say in the transcript why."`
}

type killRun struct{ cancelRun }

// ended lists the threads that were asked to end.
type ended struct {
	Threads []*control.Ended `json:"threads"`
}

// CompleteActive offers the project's threads that haven't ended.
func CompleteActive(ctx context.Context, a *cli.App) []cli.Candidate {
	c, done, err := open(a)
	if err != nil {
		return nil
	}
	defer done()
	nodes, _ := c.Active(ctx, "")
	return cli.Offer(nodes, func(n *control.Node) (string, string) { return n.Thread, n.Status })
}

func (c *cancelRun) Run(ctx context.Context, a *cli.App) (cli.Answer, error) {
	return c.end(ctx, a, (*control.Controller).Cancel)
}

func (c *killRun) Run(ctx context.Context, a *cli.App) (cli.Answer, error) {
	return c.end(ctx, a, (*control.Controller).Kill)
}

// end ends threads one after the other, all of them even if one fails. It returns the first error.
func (c *cancelRun) end(ctx context.Context, a *cli.App,
	how func(*control.Controller, context.Context, string, string) (*control.Ended, error)) (cli.Answer, error) {
	d, done, err := open(a)
	if err != nil {
		return nil, err
	}
	defer done()
	ans := ended{Threads: []*control.Ended{}}
	for _, name := range c.Threads {
		e, failed := how(d, ctx, name, c.Reason)
		if failed == nil {
			ans.Threads = append(ans.Threads, e)
		} else if err == nil {
			err = failed
		}
	}
	return ans, err
}

// Text prints the state of each thread.
func (e ended) Text(t *cli.Terminal) {
	for _, one := range e.Threads {
		t.Printf("%s  %s\n", one.Thread, one.Status)
		if one.Status == "running" || one.Status == "waiting" {
			t.Note("process %d ends it at its next safe point: %s", one.Process,
				fault.Command("rye thread wait", one.Thread))
		}
	}
}
