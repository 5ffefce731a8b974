// The hidden command rye __complete.

package initcmd

import (
	"context"
	"slices"
	"strings"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/graph"
	"github.com/rye-build/rye/bundle/skill"
	lockfile "github.com/rye-build/rye/lock/file"
	ryeyaml "github.com/rye-build/rye/lock/project"
	"github.com/rye-build/rye/manifest/policy"
	"github.com/rye-build/rye/manifest/trust"

	"github.com/alecthomas/kong"
	"github.com/rye-build/rye/cmd/rye/approvals"
	"github.com/rye-build/rye/cmd/rye/audits"
	"github.com/rye-build/rye/cmd/rye/builds"
	"github.com/rye-build/rye/cmd/rye/bundles"
	"github.com/rye-build/rye/cmd/rye/catalogs"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/operations"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/cmd/rye/secrets"
	"github.com/rye-build/rye/cmd/rye/serves"
	"github.com/rye-build/rye/cmd/rye/spaces"
	"github.com/rye-build/rye/cmd/rye/stores"
	"github.com/rye-build/rye/cmd/rye/threads"
	"github.com/rye-build/rye/cmd/rye/trusts"
	"github.com/rye-build/rye/lock"
	"github.com/rye-build/rye/lock/workspace"
)

type completeRun struct {
	Words []string `arg:"" optional:"" blank:"" help:"Words typed so far."`
}

type completeAnswer struct {
	Candidates []cli.Candidate `json:"candidates"`
}

func (c *completeRun) Run(ctx context.Context, a *cli.App) (cli.Answer, error) {
	before, word := c.Words[:max(0, len(c.Words)-1)], strings.Join(c.Words[max(0, len(c.Words)-1):], "")
	model := cli.NewGrammar(new(cli.Globals), a.Commands).Model.Node
	ans := completeAnswer{Candidates: []cli.Candidate{}}
	for _, cand := range walk(model, before).candidates(ctx, a, word) {
		// The protocol uses tabs and line ends.
		if !strings.ContainsAny(cand.Value, "\t\r\n") {
			ans.Candidates = append(ans.Candidates, cand)
		}
	}
	return ans, nil
}

func (c completeAnswer) Text(t *cli.Terminal) {
	for _, cand := range c.Candidates {
		t.Printf("%s\t%s\n", cand.Value, cand.Help)
	}
}

// A cursor is the position in the grammar after the words before the one to complete.
type cursor struct {
	root   *kong.Node
	node   *kong.Node
	flag   *kong.Flag // the flag whose value comes next, or nil
	flags  []string   // flags so far, as typed
	args   []string   // positional arguments so far
	closed bool       // after --, where no flags follow
}

// walk follows the words from the root of the grammar. It ignores mistakes.
func walk(root *kong.Node, words []string) cursor {
	cursor := cursor{root: root, node: root}
	for _, word := range words {
		switch {
		case cursor.flag != nil:
			cursor.flag = nil
		case word == "--" && !cursor.closed:
			cursor.closed = true
		case len(word) > 1 && word[0] == '-' && !cursor.closed:
			name, _, _ := strings.Cut(word, "=")
			cursor.flags = append(cursor.flags, name)
			cursor.flag = awaits(cursor.node, word)
		default:
			i := slices.IndexFunc(cursor.node.Children, func(n *kong.Node) bool {
				return n.Name == word || slices.Contains(n.Aliases, word)
			})
			if i < 0 {
				cursor.args = append(cursor.args, word)
			} else {
				cursor.node, cursor.args = cursor.node.Children[i], nil
			}
		}
	}
	return cursor
}

// candidates returns the completions of a word.
func (c cursor) candidates(ctx context.Context, app *cli.App, word string) []cli.Candidate {
	name, value, valued := strings.Cut(word, "=")
	switch {
	case c.flag != nil:
		return c.values(ctx, app, c.flag.Value, word, "")
	case strings.HasPrefix(word, "--") && valued && !c.closed:
		if flag := flagOf(c.node, name); flag != nil && !flag.IsBool() {
			return c.values(ctx, app, flag.Value, value, name+"=")
		}
		return nil
	case strings.HasPrefix(word, "-") && !c.closed:
		return cli.Begins(c.flagNames(), word, "")
	case len(c.node.Children) > 0:
		return cli.Begins(c.commands(), word, "")
	}
	if n := len(c.node.Positional); n > 0 {
		arg := c.node.Positional[min(len(c.args), n-1)]
		if len(c.args) < n || arg.IsCumulative() {
			return c.values(ctx, app, arg, word, "")
		}
	}
	return nil
}

func (c cursor) commands() (out []cli.Candidate) {
	for _, child := range c.node.Children {
		if !child.Hidden {
			out = append(out, cli.Candidate{Value: child.Name, Help: child.Help})
		}
	}
	return out
}

func (c cursor) flagNames() (out []cli.Candidate) {
	for _, group := range c.node.AllFlags(true) {
		for _, flag := range group {
			out = append(out, cli.Candidate{Value: "--" + flag.Name, Help: flag.Help})
		}
	}
	return out
}

// values completes the value of a flag or argument by its enum, or by its tag "complete": the shell completes
// "file" and "dir", offered knows the other tags. A tag that ends in "|path" takes files too. before is the part of
// the same word before the value, such as "--flag=".
func (c cursor) values(ctx context.Context, app *cli.App, v *kong.Value, prefix, before string) []cli.Candidate {
	tag := v.Tag.Get("complete")
	switch {
	case tag == "file":
		return cli.Offer([]string{cli.AskFiles}, bare)
	case tag == "dir":
		return cli.Offer([]string{cli.AskDirs}, bare)
	case tag == "command":
		return cli.Begins(append(walk(c.root, c.args).commands(), cli.Topics(c.args)...), prefix, before)
	case v.Enum != "":
		return cli.Begins(cli.Offer(v.EnumSlice(), bare), prefix, before)
	case strings.HasSuffix(tag, "-input"):
		return cli.Begins(spaces.CompleteInputs(ctx, app, strings.TrimSuffix(tag, "-input"), c.args, prefix), prefix,
			before)
	case tag == "version":
		return cli.Begins(bundles.CompleteVersions(ctx, app, c.args), prefix, before)
	case tag == "locked" && slices.Contains(c.flags, "--update"):
		tag = "bundles"
	}
	tag, path := strings.CutSuffix(tag, "|path")
	out := cli.Begins(offered(ctx, app, tag, prefix), prefix, before)
	if path && !strings.Contains(prefix, ":") {
		out = append(out, cli.Candidate{Value: cli.AskFiles})
	}
	return out
}

func bare(value string) (string, string) { return value, "" }

// takes has the tags of arguments that take items.
var takes = map[string]spaces.Taken{
	"ref": {},
	"own": {Own: true},
	"tool": {Kinds: []string{"tool"}, Bare: "tool", Only: func(it *ai.Item) bool {
		return it.Model.Tool != nil && !it.Model.Tool.Primitive
	}},
	"directive": {Kinds: []string{"directive"}, Bare: "directive"},
	"test":      {Kinds: []string{"tool", "directive"}, Bare: "tool"},
	"skill": {Kinds: []string{"tool", "directive"}, Only: func(it *ai.Item) bool {
		_, imported := skill.NameOf(it.Ref)
		return imported || it.Ref.Kind == "directive"
	}},
	"run": {Kinds: []string{"tool", "directive"}, Bare: "directive", Only: func(it *ai.Item) bool {
		return it.Ref.Kind == "directive" || graph.Is(it.Model.Tool)
	}},
}

// offered returns the values of a tag "complete". If they can't be read, it offers none.
func offered(ctx context.Context, app *cli.App, tag, prefix string) []cli.Candidate {
	var known policy.Sections
	if au, err := paths.Paths(app).RootPolicy(); err == nil {
		known = au.Side.Policy.Sections()
	}
	if taken, ok := takes[tag]; ok {
		return spaces.CompleteRefs(ctx, app, taken, prefix)
	}
	switch tag {
	case "kind":
		return spaces.CompleteKinds(ctx, app)
	case "space":
		return []cli.Candidate{{Value: "project", Help: ".ai of the project"},
			{Value: "user", Help: ".ai of the user"}, {Value: "system", Help: "the library and bundles"}}
	case "ext":
		return cli.Offer([]string{"py", "sh", "js", "yaml", "star"}, bare)
	case "bundle":
		return spaces.CompleteBundles(ctx, app)
	case "installed":
		return bundles.CompleteInstalled(ctx, app)
	case "locked", "pinned", "required", "bundles":
		return completeLocked(app, tag, prefix)
	case "object":
		return paths.CompleteObjects(app)
	case "key":
		keys, _ := trusts.KeyLines(app)
		return cli.Offer(keys, func(k trust.KeyState) (string, string) {
			return k.Name, "key " + paths.Short(k.Fingerprint)
		})
	case "trusted":
		return cli.Offer(known.Keys, func(k policy.Key) (string, string) { return k.Name, k.Owner })
	case "rule":
		return cli.Offer(known.Rules, func(r policy.Rule) (string, string) { return r.Glob, "" })
	case "list":
		return cli.Offer(known.Lists, func(l policy.Source) (string, string) { return l.Name, l.From })
	case "secret":
		return secrets.CompleteSecrets(app)
	case "mcp":
		return catalogs.CompleteServers(ctx, app)
	case "token":
		return serves.CompleteTokens(app)
	case "step":
		return builds.CompleteSteps(app)
	case "call":
		return audits.CompleteCalls(ctx, app, prefix)
	case "request", "pending":
		return approvals.CompleteRequests(ctx, app, tag == "pending")
	case "thread":
		return threads.CompleteThreads(app, prefix)
	case "active":
		return operations.CompleteActive(ctx, app)
	case "cache":
		return stores.CompleteCaches()
	case "topic":
		topics, _ := DocTopics(ctx)
		return cli.Offer(topics, func(it *ai.Item) (string, string) { return topicOf(it), it.Model.Title })
	case "schema":
		return append(cli.Offer(fileSchemas(), func(f schemaLine) (string, string) { return f.Name, "" }),
			cli.Offer(SchemasOf(app.Commands), func(t namedType) (string, string) { return t.Name, "" })...)
	}
	return nil
}

// awaits returns the flag whose value is the next word, as after "--store" and "-qC", or nil.
func awaits(node *kong.Node, word string) *kong.Flag {
	if !strings.HasPrefix(word, "--") {
		word = "-" + word[len(word)-1:] // the last of several letters
	}
	if flag := flagOf(node, word); flag != nil && !flag.IsBool() {
		return flag
	}
	return nil
}

// flagOf returns the flag of a command with the name "--name" or "-x", or nil.
func flagOf(node *kong.Node, name string) *kong.Flag {
	for _, group := range node.AllFlags(true) {
		for _, flag := range group {
			if name == "--"+flag.Name || flag.Short != 0 && name == "-"+string(flag.Short) {
				return flag
			}
		}
	}
	return nil
}

// completeLocked offers the bundles that rye.yaml requires (what is "required"), or entries of the lock: "locked"
// all, "pinned" only items, "bundles" only bundles and the library, which rye lock --update takes.
func completeLocked(a *cli.App, what, prefix string) (out []cli.Candidate) {
	locked, err := paths.OpenLock(a, false)
	if err != nil {
		return nil
	}
	defer locked.Close()
	if what == "required" {
		return cli.Offer(locked.Yaml.Requires, func(r ryeyaml.Requirement) (string, string) { return r.ID, r.Text })
	}
	if locked.Old == nil {
		return nil
	}
	if what != "pinned" {
		out = cli.Offer(locked.Old.Bundles, func(b lockfile.Bundle) (string, string) { return b.ID, b.Version })
	}
	if what == "bundles" {
		return append(out, cli.Candidate{Value: lock.Library, Help: "the library"})
	}
	out = append(out, completePins(locked.Old.Pins, prefix)...)
	if what == "locked" {
		out = append(out, cli.Offer(locked.Old.Artifacts, func(p lockfile.Artifact) (string, string) {
			return workspace.PackageName(p), workspace.UsedAsPackage
		})...)
	}
	return slices.Compact(out) // a version of a package has many files
}

// completePins offers the refs of pinned items for a word that has a kind, otherwise the kinds and the ids that name
// one item.
func completePins(pins []lockfile.Pin, prefix string) (out []cli.Candidate) {
	if strings.Contains(prefix, ":") {
		return cli.Offer(pins, func(p lockfile.Pin) (string, string) { return p.Ref.String(), p.From })
	}
	ids, kinds := map[string]int{}, map[string]bool{}
	for _, p := range pins {
		if !kinds[p.Ref.Kind] {
			kinds[p.Ref.Kind] = true
			out = append(out, cli.Candidate{Value: p.Ref.Kind + ":", Help: "locked items"})
		}
		ids[p.Ref.ID]++
	}
	for _, p := range pins {
		if ids[p.Ref.ID] == 1 {
			out = append(out, cli.Candidate{Value: p.Ref.ID, Help: p.From})
		}
	}
	return out
}
