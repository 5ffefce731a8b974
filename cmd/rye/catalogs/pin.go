// The servers of a locked plugin whose tools its publisher didn't pin.

package catalogs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/exchange"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/cmd/rye/runs"
	"github.com/rye-build/rye/cmd/rye/trusts"
	"github.com/rye-build/rye/exec/catalog"
	"github.com/rye-build/rye/exec/parts"
	"github.com/rye-build/rye/exec/session"
	"github.com/rye-build/rye/manifest/policy"
	"github.com/rye-build/rye/manifest/trust"
)

// A pinning makes items of the tools of a plugin's servers.
type pinning struct {
	app    *cli.App
	view   *opened
	plugin string
	signer trusts.Signer
}

// PinTools asks the servers of a locked plugin whose tools its publisher didn't pin, each once a person has agreed,
// and writes the signed items of their tools into the project. It returns their refs, and a function that removes the
// items again. A server that is declined or can't be asked is named and left out. The caller has the project alone.
func PinTools(ctx context.Context, app *cli.App, plugin string, key trusts.KeyFlag) (refs []string, undo func() error,
	err error) {
	view, err := openServers(ctx, app, false)
	if err != nil {
		return nil, nil, err
	}
	defer view.Close()
	p := &pinning{app: app, view: view, plugin: plugin}
	servers := p.unpinned()
	if len(servers) == 0 {
		return nil, nil, nil
	}
	if !app.CanAsk() && !app.Globals.Yes {
		p.leave(servers...)
		return nil, nil, nil
	}
	if p.signer, err = trusts.SigningKey(ctx, app, key.Key); err != nil {
		app.Term.Warn("the tools of %s can't be pinned: %s", plugin, fault.Of(err).Text)
		p.leave(servers...)
		return nil, nil, ctx.Err()
	}
	all, err := p.ask(ctx, p.signable(servers))
	if err != nil || len(all) == 0 {
		return nil, nil, err
	}
	return p.write(ctx, all)
}

// PinnedTools returns the items of the project that pin tools of a plugin's servers, which are items of its bundle.
func PinnedTools(ctx context.Context, app *cli.App, plugin string) (tools []*ai.Item, err error) {
	view, err := openServers(ctx, app, false)
	if err != nil {
		return nil, err
	}
	defer view.Close()
	for _, s := range view.servers {
		if s.At.Plugin != plugin || s.Item == nil || s.Item.Space.Level != ai.System {
			continue
		}
		for _, tool := range s.Tools {
			if tool.Item.Space.Level == ai.Project {
				tools = append(tools, tool.Item)
			}
		}
	}
	return tools, nil
}

// unpinned returns the servers of the plugin whose tools its publisher leaves to its users, and that have none yet.
func (p *pinning) unpinned() (all []*catalog.Server) {
	for _, s := range p.view.servers {
		if s.At.Plugin == p.plugin && s.Wrong == nil && s.Item != nil && len(s.Tools) == 0 &&
			parts.Unasked(s.Spec) != "" {
			all = append(all, s)
		}
	}
	return all
}

// leave names servers whose tools aren't pinned, and the command that pins them.
func (p *pinning) leave(servers ...*catalog.Server) {
	for _, s := range servers {
		p.app.Term.Note("%s: its tools aren't pinned yet; next: %s", s.Item.Ref,
			fault.Command("rye mcp refresh", s.Name))
	}
}

// rule returns the rule of the user's policy for the tools of a server, with the user's key added. It reports whether
// the policy has to change for it: now other keys sign them, or none.
func (p *pinning) rule(s *catalog.Server) (rule policy.Rule, change bool) {
	root := p.view.Trust.Root.Side.Policy // a lock in force needs one
	now, _ := root.RuleOf(s.At.Tool("x").String())
	own, _ := root.Key(p.signer.Public().Fingerprint())
	return policy.Rule{Glob: s.At.Tools(), Keys: append(slices.Clone(now.Keys), own.Name), Threshold: 1},
		!slices.Contains(now.Keys, own.Name)
}

// unsignable returns the command that lets the user's key sign the tools of a server, if the policy doesn't and the
// person can't be asked to change that: --yes doesn't extend trust. Else it is empty.
func (p *pinning) unsignable(s *catalog.Server) (command string) {
	rule, change := p.rule(s)
	own := rule.Keys[len(rule.Keys)-1]
	if !change || own != "" && !p.app.Globals.Yes {
		return ""
	}
	return fault.Command("rye trust add", cmp.Or(own, p.signer.Public().String()), "--names", s.At.Tools())
}

// signable leaves out the servers whose tools the user may not sign.
func (p *pinning) signable(servers []*catalog.Server) (left []*catalog.Server) {
	for _, s := range servers {
		command := p.unsignable(s)
		if command == "" {
			left = append(left, s)
			continue
		}
		p.app.Term.Warn("%s: your policy doesn't let your key sign its tools; to change that, run %s", s.Item.Ref,
			command)
		p.leave(s)
	}
	return left
}

// A pinnable server has announced tools that can become items.
type pinnable struct {
	*catalog.Server
	tools []*catalog.Change
}

// ask asks servers as they are locked, and returns those that have tools to pin.
func (p *pinning) ask(ctx context.Context, servers []*catalog.Server) (all []pinnable, err error) {
	if len(servers) == 0 {
		return nil, nil
	}
	if err := p.inSession(ctx, func(by real) error { return p.grant(ctx, by, servers) }); err != nil {
		return nil, err
	}
	var announced []*catalog.Announcement
	if err := p.inSession(ctx, func(by real) (err error) {
		announced, err = Each(p.app, Asker(p.app, by))(ctx, servers)
		return err
	}); err != nil {
		return nil, err
	}
	stage, err := Stage(ctx, p.app)
	if err != nil {
		return nil, err
	}
	defer stage.Close()
	for i, s := range servers {
		if announced[i] == nil {
			p.leave(s)
			continue
		}
		tools, err := p.choose(stage, s, announced[i])
		if err != nil {
			return nil, err
		}
		if len(tools) > 0 {
			all = append(all, pinnable{s, tools})
		}
	}
	return all, nil
}

// inSession calls do with a session of the project, under the policy as it is now.
func (p *pinning) inSession(ctx context.Context, do func(by real) error) error {
	session, err := runs.Open(ctx, p.app, session.Mode{})
	if err != nil {
		return err
	}
	return errors.Join(do(real{p.app, session}), session.Close())
}

// grant offers to grant what servers of another signer declare. Without that they have no rights, and neither have
// calls of their tools. --yes extends no grants.
func (p *pinning) grant(ctx context.Context, by real, servers []*catalog.Server) error {
	var grants []policy.Grant
	for _, s := range servers {
		agreement, err := consent(ctx, by, s)
		if err != nil {
			continue // the question whether to ask it reports that
		}
		_, decided := p.view.Trust.Root.Side.Policy.Grants(s.Item.Ref.String())
		if allow := s.Spec.Grants.Patterns(); agreement.stranger && !decided && len(allow) > 0 {
			grants = append(grants, ServerGrants(s.Item.Ref.String(), allow)...)
		}
	}
	if len(grants) == 0 {
		return nil
	}
	if p.app.Globals.Yes {
		p.app.Term.Note("these servers may do what they declare only if your policy grants it: %s", GrantsText(grants))
		return nil
	}
	p.app.Term.Note("these servers are another signer's; your policy could let them do what they declare: %s",
		GrantsText(grants))
	yes, err := p.app.Agrees(ctx, "write this into your policy?")
	if err == nil && yes {
		_, err = paths.EditPolicy(ctx, p.app, paths.Edit{Edit: trusts.Admits(policy.DigestEntry{}, grants...)})
	}
	return err
}

// ServerGrants are what lets a server, and calls of its tools, do what patterns allow.
func ServerGrants(ref string, patterns []string) []policy.Grant {
	return []policy.Grant{{Glob: ref, Allow: patterns}, {Glob: ref + "/**", Allow: patterns}}
}

// GrantsText returns grants as they are written in a policy.
func GrantsText(grants []policy.Grant) string {
	var lines []string
	for _, g := range grants {
		var words []string
		for _, word := range g.Allow {
			words = append(words, strconv.Quote(word))
		}
		lines = append(lines, fmt.Sprintf("%q: [%s]", g.Glob, strings.Join(words, ", ")))
	}
	return "grants: {" + strings.Join(lines, ", ") + "}"
}

// choose remembers what a server announces, for rye mcp accept, and returns the tools that become items.
func (p *pinning) choose(stage *catalog.Stage, s *catalog.Server, announced *catalog.Announcement) (
	tools []*catalog.Change, err error) {
	memory, dir, err := p.view.memory(s.Item.Space)
	if err == nil {
		err = memory.Put(s.Name, &catalog.Known{Space: dir, Server: catalog.ID(s.Item), At: p.app.Now().UTC(),
			Announcement: announced})
	}
	if err != nil {
		return nil, err
	}
	changes, err := catalog.Compare(s.At, nil, announced, catalog.OthersOf(p.view.servers, s.Name))
	if err != nil {
		return nil, err
	}
	stage.CheckStubs(s.At, s.Spec, changes)
	for i := range changes {
		switch c := &changes[i]; {
		case c.Refused != "":
			p.app.Term.Warn("%s: %s", s.Item.Ref, c.Refused)
		case c.Critical():
			p.app.Term.Warn("%s: the tool %q hides something, and isn't pinned; to pin it all the same, run %s",
				s.Item.Ref, fault.Clip(c.Tool, 100), acceptCommand(s.Name, c))
		default:
			tools = append(tools, c)
		}
	}
	return tools, nil
}

// write signs the items of the tools and writes them, once the person agrees.
func (p *pinning) write(ctx context.Context, all []pinnable) (refs []string, undo func() error, err error) {
	n := 0
	for _, s := range all {
		n += len(s.tools)
	}
	yes, err := p.app.Agrees(ctx, fmt.Sprintf("sign and lock %s of %s as items of this project?",
		fault.Count(int64(n), "item"), p.plugin))
	if err == nil && yes {
		yes, err = p.allow(ctx, all)
	}
	if err != nil {
		return nil, nil, err
	}
	if !yes {
		for _, s := range all {
			p.leave(s.Server)
		}
		return nil, nil, nil
	}
	stage, err := Stage(ctx, p.app)
	if err != nil {
		return nil, nil, err
	}
	defer stage.Close()
	writer, err := exchange.OpenWriter(ctx, p.app, false)
	if err != nil {
		return nil, nil, err
	}
	defer writer.Close()
	writer.Begin(p.plugin)
	for _, s := range all {
		if err := stage.Copy(ctx, p.view.Editor, s.Item); err != nil {
			return nil, nil, err
		}
		items, err := stage.Stubs(ctx, s.At, s.Spec, s.tools, catalog.Key{Private: p.signer.Private, Now: p.app.Clock})
		if err != nil {
			return nil, nil, err
		}
		for _, it := range items {
			if err := p.add(ctx, writer, it); err != nil {
				return nil, nil, err
			}
			refs = append(refs, it.Ref.String())
		}
	}
	undo, err = writer.Plan.Write(ctx)
	return refs, undo, err
}

// add plans to write an item, which must be new.
func (p *pinning) add(ctx context.Context, writer *exchange.Writer, it *ai.Item) error {
	return writer.AddItem(ctx, it.Ref, ".yaml", it.Bytes, new([]string), func([]byte) bool { return false })
}

// allow lets the user's key sign the tools of servers where only other keys may, once the person agrees.
func (p *pinning) allow(ctx context.Context, all []pinnable) (bool, error) {
	var rules []policy.Rule
	for _, s := range all {
		if rule, change := p.rule(s.Server); change {
			rules = append(rules, rule)
		}
	}
	if len(rules) == 0 {
		return true, nil
	}
	_, err := paths.EditPolicy(ctx, p.app, paths.Edit{
		Question: "let your own key sign these tools too?",
		Edit: trust.Edit{Change: func(root *policy.Side) (after *policy.Policy, err error) {
			after = root.Policy
			for _, rule := range rules {
				if err == nil {
					after, err = after.SetRule(rule)
				}
			}
			return after, err
		}},
	})
	if fault.CodeOf(err) == fault.Approval {
		return false, nil
	}
	return err == nil, err
}

// require refuses to sign the tools of a server unless the policy lets the user's key, which the person may change
// now.
func (p *pinning) require(ctx context.Context, s *catalog.Server) error {
	command := p.unsignable(s)
	if command == "" {
		yes, err := p.allow(ctx, []pinnable{{Server: s}})
		if yes || err != nil {
			return err
		}
		command = fault.Command("rye trust add", p.signer.Name, "--names", s.At.Tools())
	}
	return fault.New(fault.UntrustedKey, "your policy doesn't let your key sign the tools of %q", s.Name).
		Because("nothing was written").On("name", s.Name).Try(command)
}
