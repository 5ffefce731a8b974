package starts

import (
	"context"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/places"
	"github.com/rye-build/rye/cmd/rye/spaces"
	"github.com/rye-build/rye/lock"
	"github.com/rye-build/rye/lock/workspace"
)

// CompleteCommand answers the completion scripts: "rye __complete -- WORD…" with the words typed after rye, the last of
// which is to be completed. It prints one candidate a line: value, tab, description; ":files" and ":dirs" ask the shell
// for its own.
func CompleteCommand() cli.Command {
	return cli.Command{
		Path: "__complete", Help: "Answer a completion script.", Hidden: true,
		New: func() cli.Runner { return new(completeRun) }, Schema: "complete/1", Output: completeAnswer{},
	}
}

type completeRun struct {
	Words []string `arg:"" optional:"" blank:"" help:"Words typed so far."`
}

type completeAnswer struct {
	Candidates []cli.Candidate `json:"candidates"`
}

func (c *completeRun) Run(ctx context.Context, a *cli.App) (cli.Answer, error) {
	words := c.Words
	if len(words) == 0 {
		words = []string{""}
	}
	model := cli.NewGrammar(new(cli.Globals), a.Commands).Model.Node
	ans := completeAnswer{Candidates: []cli.Candidate{}}
	for _, cand := range walk(model, words[:len(words)-1]).candidates(ctx, a, words[len(words)-1]) {
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

// A cursor is where the words before the one to complete lead.
type cursor struct {
	root   *kong.Node
	node   *kong.Node
	flag   *kong.Flag // waits for its value
	flags  []string   // given, as they were typed
	args   []string   // positional arguments given
	closed bool       // after --: no more flags
}

// walk follows the words and ignores mistakes.
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
			i := slices.IndexFunc(c.node.Children, func(n *kong.Node) bool { return n.Name == word || slices.Contains(n.Aliases, word) })
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

// values completes a flag or argument by its tag "complete": "file", "dir", "ref", "own" (refs of this user), "kind",
// "space", "bundle", "command", "locked", "pinned" (locked items) or "required" (by rye.yaml); else by its enum or what
// the command knows. The text before is part of the same word.
func (c cursor) values(ctx context.Context, a *cli.App, v *kong.Value, prefix, before string) []cli.Candidate {
	switch v.Tag.Get("complete") {
	case "file":
		return []cli.Candidate{{Value: cli.AskFiles, Help: ""}}
	case "dir":
		return []cli.Candidate{{Value: cli.AskDirs, Help: ""}}
	case "ref", "own":
		out := cli.Begins(spaces.CompleteRefs(ctx, a, prefix, v.Tag.Get("complete") == "own"), prefix, before)
		if !strings.Contains(prefix, ":") {
			out = append(out, cli.Candidate{Value: cli.AskFiles, Help: ""}) // a path is as good
		}
		return out
	case "bundle":
		return append(cli.Begins(spaces.CompleteBundles(ctx, a), prefix, before), cli.Candidate{Value: cli.AskFiles, Help: ""})
	case "command":
		return cli.Begins(append(walk(c.root, c.args).commands(), cli.Topics(c.args)...), prefix, before)
	case "locked", "pinned", "required":
		what := v.Tag.Get("complete")
		if slices.Contains(c.flags, "--update") {
			what = "bundles"
		}
		return cli.Begins(completeLocked(a, what), prefix, before)
	case "kind":
		return cli.Begins(spaces.CompleteKinds(ctx, a), prefix, before)
	case "space":
		return cli.Begins([]cli.Candidate{{Value: "project", Help: ".ai of the project"}, {Value: "user", Help: ".ai of the user"}, {Value: "system", Help: "the library and bundles"}}, prefix, before)
	}
	var out []cli.Candidate
	if v.Enum != "" {
		for _, value := range v.EnumSlice() {
			out = append(out, cli.Candidate{Value: value, Help: ""})
		}
	} else if known, ok := cli.Target[cli.Completer](c.node); ok {
		out = known.Complete(ctx, a, v.Name, prefix)
	}
	return cli.Begins(out, prefix, before)
}

// awaits returns the flag whose value the next word is, as after "--store" and "-qC", or nil.
func awaits(node *kong.Node, word string) *kong.Flag {
	if !strings.HasPrefix(word, "--") {
		word = "-" + word[len(word)-1:] // the last of several letters
	}
	if flag := flagOf(node, word); flag != nil && !flag.IsBool() {
		return flag
	}
	return nil
}

// flagOf returns the flag of a command called "--name" or "-x", or nil.
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

// completeLocked offers what rye.yaml requires, or what the lock names: "locked" is all of it, "pinned" items, "bundles"
// what can be updated.
func completeLocked(a *cli.App, what string) (out []cli.Candidate) {
	l, err := places.OpenLock(a, false)
	if err != nil {
		return nil
	}
	defer l.Close()
	if what == "required" {
		for _, r := range l.Yaml.Requires {
			out = append(out, cli.Candidate{Value: r.ID, Help: r.Text})
		}
		return out
	}
	if l.Old == nil {
		return nil
	}
	if what != "pinned" {
		for _, b := range l.Old.Bundles {
			out = append(out, cli.Candidate{Value: b.ID, Help: b.Version})
		}
	}
	if what == "bundles" {
		return append(out, cli.Candidate{Value: lock.Library, Help: "the library"})
	}
	for i := range l.Old.Pins {
		p := &l.Old.Pins[i]
		out = append(out, cli.Candidate{Value: p.Ref.String(), Help: p.From})
	}
	if what == "locked" {
		for _, p := range l.Old.Artifacts {
			out = append(out, cli.Candidate{Value: workspace.PackageName(p), Help: workspace.UsedAsPackage})
		}
	}
	return slices.Compact(out) // a version has many wheels
}
