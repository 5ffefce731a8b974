package main

import (
	"context"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// completeCommand is what the completion scripts call: "rye __complete -- WORD…" with the words typed after
// rye, the last of them the one to complete, "" when nothing of it is typed. It answers with one candidate
// a line, VALUE, a tab and what it is; ":files" and ":dirs" ask the shell for its own.
func completeCommand() command {
	return command{
		path: "__complete", help: "Answer a completion script.", hidden: true,
		new: func() runner { return new(completeRun) }, schema: "complete/1", output: completeAnswer{},
	}
}

type completeRun struct {
	Words []string `arg:"" optional:"" blank:"" help:"The words typed so far."`
}

type completeAnswer struct {
	Candidates []candidate `json:"candidates"`
}

// A candidate is one way to go on.
type candidate struct {
	Value string `json:"value"`
	Help  string `json:"help"`
}

const (
	askFiles = ":files"
	askDirs  = ":dirs"
)

// A completer is a command that knows the values of its flags and arguments, for instance the refs of a
// store. name is the flag's or argument's, prefix what is typed of it; what doesn't begin with it is left
// out by the caller.
type completer interface {
	complete(ctx context.Context, a *app, name, prefix string) []candidate
}

func (c *completeRun) run(ctx context.Context, a *app) (answer, error) {
	words := c.Words
	if len(words) == 0 {
		words = []string{""}
	}
	model := newGrammar(new(globals), a.commands).Model.Node
	ans := completeAnswer{Candidates: []candidate{}}
	for _, cand := range walk(model, words[:len(words)-1]).candidates(ctx, a, words[len(words)-1]) {
		// Tab and line end are the protocol's own.
		if !strings.ContainsAny(cand.Value, "\t\r\n") {
			ans.Candidates = append(ans.Candidates, cand)
		}
	}
	return ans, nil
}

func (c completeAnswer) text(t *terminal) {
	for _, cand := range c.Candidates {
		t.printf("%s\t%s\n", cand.Value, cand.Help)
	}
}

// A cursor is where the words before the one to complete have led.
type cursor struct {
	root   *kong.Node
	node   *kong.Node
	flag   *kong.Flag // waits for its value
	flags  []string   // given, as they were typed
	args   []string   // positional arguments given
	closed bool       // after --: no more flags
}

// walk follows the words. It forgives what the parser would refuse.
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
			i := slices.IndexFunc(c.node.Children, func(n *kong.Node) bool { return n.Name == word })
			if i < 0 {
				c.args = append(c.args, word)
			} else {
				c.node, c.args = c.node.Children[i], nil
			}
		}
	}
	return c
}

// candidates returns the ways to complete a word here.
func (c cursor) candidates(ctx context.Context, a *app, word string) []candidate {
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
		return begins(c.flagNames(), word, "")
	case len(c.node.Children) > 0:
		return begins(c.commands(), word, "")
	}
	if n := len(c.node.Positional); n > 0 {
		arg := c.node.Positional[min(len(c.args), n-1)]
		if len(c.args) < n || arg.IsCumulative() {
			return c.values(ctx, a, arg, word, "")
		}
	}
	return nil
}

func (c cursor) commands() (out []candidate) {
	for _, child := range c.node.Children {
		if !child.Hidden {
			out = append(out, candidate{child.Name, child.Help})
		}
	}
	return out
}

func (c cursor) flagNames() (out []candidate) {
	for _, group := range c.node.AllFlags(true) {
		for _, flag := range group {
			out = append(out, candidate{"--" + flag.Name, flag.Help})
		}
	}
	return out
}

// values returns the values of a flag or argument: files where its tag says complete:"file" or "dir", items, kinds
// and spaces where it says "ref", "own" (of this user), "kind" or "space", bundles where it says "bundle", commands where it says "command", what rye.lock names or rye.yaml requires where it
// says "locked", "pinned" (items alone) or "required", those of its enum, or what the command knows. before is what stands in the same word.
func (c cursor) values(ctx context.Context, a *app, v *kong.Value, prefix, before string) []candidate {
	switch v.Tag.Get("complete") {
	case "file":
		return []candidate{{askFiles, ""}}
	case "dir":
		return []candidate{{askDirs, ""}}
	case "ref", "own":
		out := begins(a.completeRefs(ctx, prefix, v.Tag.Get("complete") == "own"), prefix, before)
		if !strings.Contains(prefix, ":") {
			out = append(out, candidate{askFiles, ""}) // a path is as good
		}
		return out
	case "bundle":
		return append(begins(a.completeBundles(ctx), prefix, before), candidate{askFiles, ""})
	case "command":
		return begins(append(walk(c.root, c.args).commands(), topics(c.args)...), prefix, before)
	case "locked", "pinned", "required":
		what := v.Tag.Get("complete")
		if slices.Contains(c.flags, "--update") {
			what = "bundles"
		}
		return begins(a.completeLocked(what), prefix, before)
	case "kind":
		return begins(a.completeKinds(ctx), prefix, before)
	case "space":
		return begins([]candidate{{"project", ".ai of the project"}, {"user", ".ai of the user"}, {"system", "the library and bundles"}}, prefix, before)
	}
	var out []candidate
	if v.Enum != "" {
		for _, value := range v.EnumSlice() {
			out = append(out, candidate{value, ""})
		}
	} else if known, ok := target[completer](c.node); ok {
		out = known.complete(ctx, a, v.Name, prefix)
	}
	return begins(out, prefix, before)
}

// begins returns the candidates that begin with prefix, with before put in front.
func begins(all []candidate, prefix, before string) (out []candidate) {
	for _, c := range all {
		if strings.HasPrefix(c.Value, prefix) {
			out = append(out, candidate{before + c.Value, c.Help})
		}
	}
	return out
}
