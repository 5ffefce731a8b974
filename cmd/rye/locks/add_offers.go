package locks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/bundle/skill"
	"github.com/rye-build/rye/bundle/skill/offer"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/catalogs"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/exchange"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/exec/discover"
	"github.com/rye-build/rye/exec/primitive/mcp"
	ryeyaml "github.com/rye-build/rye/lock/project"
	"github.com/rye-build/rye/lock/web"
)

// printOffered prints what a server offers, without the columns that are empty.
func printOffered(t *cli.Terminal, all []*discover.Found) {
	rows := [][]string{{"TYPE", "NAME", "VERSION", "PUBLISHER", "ADDRESS", "DIGEST", "DESCRIPTION"}}
	for _, o := range all {
		about := cmp.Or(o.Description, o.Title)
		if o.Refused != "" {
			about = "refused: " + o.Refused
		}
		kind := string(o.Kind)
		if o.Kind == discover.Other {
			kind = o.Media
		}
		rows = append(rows, []string{fault.Clip(kind, 80), fault.Clip(o.Name, 80), fault.Clip(o.Version, 40),
			fault.Clip(o.Publisher, 80), fault.Clip(o.Address, 300),
			o.Digest[:min(len(o.Digest), len("sha256:")+12)], fault.Clip(skill.OneLine(about), 100)})
	}
	for i := len(rows[0]) - 2; i >= 0; i-- {
		if !slices.ContainsFunc(rows[1:], func(r []string) bool { return r[i] != "" }) {
			for j := range rows {
				rows[j] = slices.Delete(rows[j], i, i+1)
			}
		}
	}
	if len(all) > 0 {
		t.Rows(rows)
	}
	for _, o := range all {
		if o.Trust != "" {
			t.Printf("%s %s\n", fault.Clip(o.Name, 80), fault.Clip(o.Trust, 300))
		}
	}
}

// fromHost lists what a host offers, or adds one of it in the way of its type.
func (c *addRun) fromHost(ctx context.Context, a *cli.App) (cli.Answer, error) {
	if c.From+c.Index != "" {
		return nil, fault.New(fault.Validation, "%q is a host: it can't be combined with --from or --index", c.Name)
	}
	if c.All {
		return nil, fault.New(fault.Validation, "--all is for the skills of an MCP server: name what to add")
	}
	fetch, err := c.fetcher(a)
	if err != nil {
		return nil, err
	}
	all, err := discover.Host(ctx, fetch, c.Name)
	if err != nil {
		return nil, err
	}
	if c.What == "" {
		if len(all) == 0 {
			a.Term.Note("the host lists nothing")
		}
		return c.list(c.Name, all), nil
	}
	found, err := discover.Pick(all, c.What)
	if err != nil {
		return nil, err
	}
	switch found.Kind {
	case discover.Skill:
		one, digest, err := found.Files(ctx, fetch)
		if err != nil {
			return nil, err
		}
		return c.adopt(ctx, a, []*skill.Skill{one}, skill.Origin{From: web.Shown(found.Address), Archive: digest})
	case discover.Server:
		return c.server(ctx, a, fetch, found)
	}
	if discover.IsHost(found.Address) || discover.IsServer(found.Address) {
		return nil, fault.New(fault.Validation, "%q is the address of a host, and not of a %s", found.Address,
			found.Kind)
	}
	if u, err := web.Parse(c.Name); err == nil {
		c.host = u.Host
	}
	c.Name, c.What = found.Address, ""
	return c.add(ctx, a)
}

// server adds an MCP server, as rye mcp add does.
func (c *addRun) server(ctx context.Context, a *cli.App, fetch discover.Fetch, found *discover.Found) (cli.Answer,
	error) {
	address, err := found.Endpoint(ctx, fetch)
	if err != nil {
		return nil, err
	}
	// A stranger's address may not lead into the user's network, even if the user says yes to its name.
	_, err = fetch(ctx, address, 1)
	if refused, ok := errors.AsType[*web.RefusedError](err); ok {
		return nil, fault.Wrap(err, "the server %q can't be added: %v", found.Name, refused)
	}
	added, err := catalogs.AddHTTP(ctx, a, found.Name, address, c.KeyFlag, c.DryRun)
	if err != nil {
		return nil, err
	}
	return &changeAnswer{Source: web.Shown(address), Server: added,
		LockAnswer: newLockAnswer(&lockRun{DryRun: c.DryRun})}, nil
}

// fetcher returns a function that fetches documents. An address that the user hasn't typed leads inside only to hosts
// that the policy lists, or to the host that the user has typed.
func (c *addRun) fetcher(a *cli.App) (discover.Fetch, error) {
	lock, err := paths.OpenLock(a, false)
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	trust, err := lock.Policy()
	if err != nil {
		return nil, err
	}
	inside := slices.Clone(trust.Root.Side.Policy.Sections().Inside)
	if u, err := web.Parse(c.Name); err == nil {
		inside = append(inside, u.Host)
	}
	return func(ctx context.Context, address string, most int64) ([]byte, error) {
		return paths.GetOffered(ctx, a, address, most, inside)
	}, nil
}

// list returns the answer that only lists.
func (c *addRun) list(source string, all []*discover.Found) *changeAnswer {
	return &changeAnswer{Source: source, Offered: all, LockAnswer: newLockAnswer(&lockRun{DryRun: c.DryRun})}
}

// fromServer lists the skills of an MCP server, or adds one or all of them.
func (c *addRun) fromServer(ctx context.Context, a *cli.App) (cli.Answer, error) {
	if c.From+c.Index != "" {
		return nil, fault.New(fault.Validation, "%q is a server: it can't be combined with --from or --index", c.Name)
	}
	if c.What != "" && c.All {
		return nil, fault.New(fault.Validation, "a skill's name and --all can't be combined")
	}
	if a.IsOffline() {
		return nil, fault.New(fault.Offline, "%q is not asked: rye is offline", web.Shown(c.Name)).
			On("url", web.Shown(c.Name))
	}
	server, err := discover.Open(ctx, c.Name, cli.ThisVersion().Version)
	if err != nil {
		return nil, err
	}
	defer server.Close()
	chosen, list, err := c.choose(ctx, server)
	if err != nil {
		return nil, err
	}
	if list != nil || len(chosen) == 0 {
		if list == nil || len(list.Offered) == 0 {
			a.Term.Note("the server lists no skills; one that it doesn't list can be added by its address")
		}
		return cmp.Or(list, c.list(c.Name, nil)), nil
	}
	var all []*skill.Skill
	for _, o := range chosen {
		one, err := server.Read(ctx, o)
		if err != nil {
			return nil, fault.Wrap(err, "%s", fault.Of(err).Text).Because("nothing was written")
		}
		all = append(all, one)
	}
	return c.adopt(ctx, a, all, skill.Origin{From: c.Name})
}

// choose returns the skills to add, or without a name the list of all.
func (c *addRun) choose(ctx context.Context, server *mcp.SkillServer) ([]*offer.Offer, *changeAnswer, error) {
	if strings.Contains(c.What, "://") { // a skill needn't be in the list
		one, err := server.Get(ctx, c.What)
		return []*offer.Offer{one}, nil, err
	}
	all, err := server.List(ctx)
	if err != nil {
		return nil, nil, err
	}
	switch {
	case c.All:
		for _, o := range all {
			if o.Err != nil {
				return nil, nil, fault.Wrap(o.Err, "the skill %q can't be added: %v", fault.Clip(o.Name, 80), o.Err)
			}
		}
		return all, nil, nil
	case c.What != "":
		one, err := discover.Choose(all, c.What)
		if err == nil {
			err = one.Err
		}
		return []*offer.Offer{one}, nil, err
	}
	list := make([]*discover.Found, len(all))
	for i, o := range all {
		list[i] = &discover.Found{Kind: discover.Skill, Name: o.Name, Address: o.URI, Description: o.Description}
		if o.Err != nil {
			list[i].Refused = o.Err.Error()
		}
	}
	return nil, c.list(c.Name, list), nil
}

// adopt makes items of skills, signs and locks them: all, or after an error none.
func (c *addRun) adopt(ctx context.Context, a *cli.App, all []*skill.Skill, origin skill.Origin) (cli.Answer, error) {
	for _, one := range all {
		if len(one.AllowedTools) > 0 {
			a.Term.Note("%s wants these tools allowed, which is ignored: %s", one.Name,
				strings.Join(one.AllowedTools, ", "))
		}
	}
	unlock, err := paths.Alone(ctx, a, false)
	if err != nil {
		return nil, err
	}
	defer unlock()
	ans := &changeAnswer{Source: origin.From, LockAnswer: newLockAnswer(&lockRun{DryRun: c.DryRun})}
	undo, err := c.writeSkills(ctx, a, all, origin, ans)
	if err != nil {
		return nil, err
	}
	if !c.DryRun {
		if err := c.lockSkills(ctx, a, ans); err != nil {
			ans.Skills = nil
			return ans, errors.Join(err, undo())
		}
	}
	return ans, nil
}

// writeSkills writes the items, which aren't signed yet, after a yes.
func (c *addRun) writeSkills(ctx context.Context, a *cli.App, all []*skill.Skill, origin skill.Origin,
	ans *changeAnswer) (undo func() error, err error) {
	writer, err := exchange.OpenWriter(ctx, a, c.DryRun)
	if err != nil {
		return nil, err
	}
	defer writer.Close()
	if ans.Skills, err = writer.Skills(ctx, c.As, all, origin); err != nil {
		return nil, err
	}
	for _, g := range writer.Groups {
		if g.From != "" && g.From != ans.Source {
			return nil, fault.New(fault.Conflict, "the project has a skill %q from elsewhere: %q", g.Name, g.From).
				Because("nothing was written").Try(a.With("--as", "CATEGORY"))
		}
	}
	if err := writer.Confirm(ctx); err != nil || c.DryRun {
		return nil, err
	}
	var names []string
	for i := range ans.Skills {
		made := &ans.Skills[i]
		names = append(names, made.Name)
		for _, line := range exchange.Touches(made) {
			a.Term.Note("%s: %s: %s", made.Name, line[0], line[1])
		}
	}
	if err := a.Confirm(ctx, fmt.Sprintf("Sign and lock %s as items of this project?",
		strings.Join(names, ", "))); err != nil {
		return nil, err
	}
	return writer.Write(ctx)
}

// lockSkills signs the items of skills, and locks them. If rye.yaml has roots, they are added to them.
func (c *addRun) lockSkills(ctx context.Context, a *cli.App, ans *changeAnswer) error {
	lock, err := openEdited(a)
	if err != nil {
		return err
	}
	defer lock.Close()
	var names []string
	for _, made := range ans.Skills {
		names = append(names, made.Tool, made.Directive)
	}
	for _, name := range names {
		if err := addRoot(lock, name); err != nil {
			return err
		}
	}
	if err := lock.Open(); err != nil {
		return err
	}
	return c.change(ctx, lock, ans, &lockRun{Sign: true, Names: names, KeyFlag: c.KeyFlag})
}

// addRoot makes an item of the project a root, unless it is one.
func addRoot(lock *paths.Lock, name string) error {
	ref, err := model.ParseRef(name)
	if err != nil {
		return err
	}
	if len(lock.Yaml.Roots) == 0 || slices.ContainsFunc(lock.Yaml.Roots, func(r ryeyaml.Root) bool {
		return r.Match(ref, ai.Project.String())
	}) {
		return nil
	}
	lock.Yaml, err = lock.Yaml.AddRoot(name)
	return err
}

// addGlob makes the items of a glob roots of a project that has roots.
func addGlob(lock *paths.Lock, glob string) (err error) {
	if len(lock.Yaml.Roots) == 0 || slices.ContainsFunc(lock.Yaml.Roots, func(r ryeyaml.Root) bool {
		return r.Text == glob || r.Text == ryeyaml.Own
	}) {
		return nil
	}
	lock.Yaml, err = lock.Yaml.AddRoot(glob)
	return err
}
