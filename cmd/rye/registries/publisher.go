package registries

import (
	"context"
	"strings"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/lock/registry"
)

type publisherListRun struct {
	Bundle string `arg:"" help:"Id of a bundle."`
	registryFlag
}

type publisherAddRun struct {
	publisherListRun
	Issuer       string `placeholder:"URL" help:"Issuer of the runs' tokens."`
	Repository   string `placeholder:"OWNER/NAME" help:"Repository, to show."`
	RepositoryID string `placeholder:"ID" help:"Id of the repository, as its tokens have it."`
	OwnerID      string `placeholder:"ID" help:"Id of the repository's owner."`
	Workflow     string `placeholder:"FILE" help:"File of the workflow in the repository."`
	Environment  string `placeholder:"NAME" help:"Protected environment of the run."`
	Ref          string `placeholder:"REF" help:"Ref of the run, such as refs/tags/v*."`
}

type publisherRemoveRun struct {
	publisherListRun
	ID string `arg:"" name:"id" help:"Id, as rye owner publisher list shows it."`
}

// publisherList is the pipelines that may publish a bundle.
type publisherList struct {
	Registry   string             `json:"registry"`
	Bundle     string             `json:"bundle"`
	Publishers []registry.Binding `json:"publishers"`
}

// Text implements cli.Answer.
func (l publisherList) Text(t *cli.Terminal) {
	if len(l.Publishers) == 0 {
		t.Printf("%s is published by no pipeline\n", l.Bundle)
	}
	for _, b := range l.Publishers {
		more := ""
		if b.Pending != nil {
			more = ", waits for the first version until " + b.Pending.Format(time.DateOnly)
		}
		t.Printf("%s  %s  by %s%s\n", b.ID, strings.TrimPrefix(b.String(), b.Bundle+": "), b.By, more)
	}
}

// publisherAnswer is what changed about the pipelines of a bundle.
type publisherAnswer struct {
	Registry string           `json:"registry"`
	Bundle   string           `json:"bundle"`
	Staged   *registry.Staged `json:"staged,omitempty"`
}

// Text implements cli.Answer.
func (a publisherAnswer) Text(t *cli.Terminal) {
	if s := a.Staged; s != nil {
		t.Note("nothing has changed yet: it waits for %s, with rye release approve %s",
			fault.Count(int64(s.Needs), "approval"), s.ID)
		return
	}
	t.Note("the pipelines of %s have changed: rye owner publisher list %s", a.Bundle, a.Bundle)
}

// Run implements cli.Runner.
func (c *publisherListRun) Run(ctx context.Context, app *cli.App) (cli.Answer, error) {
	at, err := c.at(app, c.Bundle)
	if err != nil {
		return nil, err
	}
	session, err := openToRead(ctx, app, at, c.Registry != "")
	if err != nil {
		return nil, err
	}
	all, err := session.Publishers(ctx, c.Bundle)
	if err != nil {
		return nil, err
	}
	return publisherList{at, c.Bundle, all}, nil
}

// Run implements cli.Runner.
func (c *publisherAddRun) Run(ctx context.Context, app *cli.App) (cli.Answer, error) {
	return c.change(ctx, app, registry.PublisherChange{Add: &registry.Binding{Bundle: c.Bundle, Issuer: c.Issuer,
		Repository: c.Repository, RepositoryID: c.RepositoryID, OwnerID: c.OwnerID, Workflow: c.Workflow,
		Environment: c.Environment, Ref: c.Ref}})
}

// Run implements cli.Runner.
func (c *publisherRemoveRun) Run(ctx context.Context, app *cli.App) (cli.Answer, error) {
	return c.change(ctx, app, registry.PublisherChange{Remove: c.ID})
}

func (c *publisherListRun) change(ctx context.Context, app *cli.App, change registry.PublisherChange) (cli.Answer,
	error) {
	at, session, err := c.session(ctx, app, c.Bundle)
	if err != nil {
		return nil, err
	}
	space, err := session.SetPublisher(ctx, c.Bundle, change)
	if err != nil {
		return nil, err
	}
	return publisherAnswer{at, c.Bundle, space.Staged}, nil
}
