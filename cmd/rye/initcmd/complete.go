// The hidden command rye __complete.

package initcmd

import (
	"context"
	"slices"
	"strings"

	"github.com/rye-build/rye/ai"
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
	c := cursor{root: root, node: root}
	for _, word := range words {
		switch {
		case c.flag != nil:
			c.flag = nil
		case word == "--" && !c.closed:
			c.closed = true
		case len(word) > 1 && word[0] == '-' && !c.closed:
			name, _, _ := strings.Cut(word, "=")
			c.flags = append(c.flags, name)
			c.flag = awaits(c.node, word)
		default:
			i := slices.IndexFunc(c.node.Children, func(n *kong.Node) bool {
				return n.Name == word || slices.Contains(n.Aliases, word)
			})
			if i < 0 {
				c.args = append(c.args, word)
			} else {
				c.node, c.args = c.node.Children[i], nil
			}
		}
	}
	return c
}

// candidates returns the completions of a word.
func (c cursor) candidates(ctx context.Context, a *cli.App, word string) []cli.Candidate {
	name, value, valued := strings.Cut(word, "=")
	switch {
	case c.flag != nil:
		return c.values(ctx, a, c.flag.Value, word, "")
	case strings.HasPrefix(word, "--") && valued && !c.closed:
		if flag := flagOf(c.node, name); flag != nil && !flag.IsBool() {
			return c.values(ctx, a, flag.Value, value, name+"=")
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
			return c.values(ctx, a, arg, word, "")
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
// "file" and "dir", offered knows the other tags. before is the part of the same word before the value, such as
// "--flag=".
func (c cursor) values(ctx context.Context, a *cli.App, v *kong.Value, prefix, before string) []cli.Candidate {
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
		return cli.Begins(spaces.CompleteInputs(ctx, a, strings.TrimSuffix(tag, "-input"), c.args, prefix), prefix,
			before)
	case tag == "locked" && slices.Contains(c.flags, "--update"):
		tag = "bundles"
	}
	out := cli.Begins(offered(ctx, a, tag, prefix), prefix, before)
	if tag == "bundle" || (tag == "ref" || tag == "own") && !strings.Contains(prefix, ":") {
		out = append(out, cli.Candidate{Value: cli.AskFiles}) // these arguments may be paths too
	}
	return out
}

func bare(value string) (string, string) { return value, "" }

// offered returns the values of a tag "complete". If they can't be read, it offers none.
func offered(ctx context.Context, a *cli.App, tag, prefix string) []cli.Candidate {
	var known policy.Sections
	if au, err := paths.Paths(a).RootPolicy(); err == nil {
		known = au.Side.Policy.Sections()
	}
	switch tag {
	case "ref", "own": // own: items that this user may change
		return spaces.CompleteRefs(ctx, a, prefix, tag == "own")
	case "directive":
		return spaces.CompleteIDs(ctx, a, tag, prefix)
	case "kind":
		return spaces.CompleteKinds(ctx, a)
	case "space":
		return []cli.Candidate{{Value: "project", Help: ".ai of the project"},
			{Value: "user", Help: ".ai of the user"}, {Value: "system", Help: "the library and bundles"}}
	case "ext":
		return cli.Offer([]string{"py", "sh", "js", "yaml", "star"}, bare)
	case "bundle":
		return spaces.CompleteBundles(ctx, a)
	case "version":
		return bundles.CompleteVersions(ctx, a)
	case "locked", "pinned", "required", "bundles":
		return completeLocked(a, tag)
	case "object":
		return paths.CompleteObjects(a)
	case "key":
		keys, _ := trusts.KeyLines(a)
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
		return secrets.CompleteSecrets(a)
	case "mcp":
		return catalogs.CompleteServers(ctx, a)
	case "token":
		return serves.CompleteTokens(a)
	case "step":
		return builds.CompleteSteps(a)
	case "call":
		return audits.CompleteCalls(ctx, a, prefix)
	case "request":
		return approvals.CompleteRequests(ctx, a)
	case "thread":
		return append(threads.CompleteThreads(a, prefix), cli.Candidate{Value: cli.AskFiles})
	case "cache":
		return stores.CompleteCaches()
	case "topic":
		topics, _ := DocTopics(ctx)
		return cli.Offer(topics, func(it *ai.Item) (string, string) { return topicOf(it), it.Model.Title })
	case "schema":
		return append(cli.Offer(fileSchemas(), func(f schemaLine) (string, string) { return f.Name, "" }),
			cli.Offer(SchemasOf(a.Commands), func(t namedType) (string, string) { return t.Name, "" })...)
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
func completeLocked(a *cli.App, what string) (out []cli.Candidate) {
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
	out = append(out, cli.Offer(locked.Old.Pins, func(p lockfile.Pin) (string, string) {
		return p.Ref.String(), p.From
	})...)
	if what == "locked" {
		out = append(out, cli.Offer(locked.Old.Artifacts, func(p lockfile.Artifact) (string, string) {
			return workspace.PackageName(p), workspace.UsedAsPackage
		})...)
	}
	return slices.Compact(out) // a version of a package has many files
}
