package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rye-build/rye/cmd/rye/initcmd"
)

// A docBlock is a fenced block of a page of the documentation. A block marked "console" holds command lines, each
// behind "$ ", with the output below it; TestDocs runs it. A block marked "text" is only shown: an excerpt of a file,
// or what needs another machine or service. Its command lines stand behind "$ " too.
type docBlock struct {
	mark     string
	line     int // of its first line, counted in the page's body
	commands []docCommand
}

// A docCommand is one command line. It goes on after a backslash, and until the end of a here-document.
type docCommand struct {
	text string
	line int
	want []string // the output; in it "…" is any text, and alone on a line any lines. Empty: any output.
}

// fails reports whether the page shows the error that the command ends with.
func (c docCommand) fails() bool {
	return slices.ContainsFunc(c.want, func(line string) bool { return strings.Contains(line, "error: ") })
}

// docBlocks returns the blocks of a page, and what is wrong with how they are written.
func docBlocks(body string) (blocks []docBlock, wrong []string) {
	var block *docBlock
	complain := func(line int, what string) { wrong = append(wrong, fmt.Sprintf("line %d: %s", line, what)) }
	blank, more, end := true, "", ""
	for i, line := range strings.Split(body, "\n") {
		fence := line[:len(line)-len(strings.TrimLeft(line, "`"))] // a longer one holds a shorter one
		switch {
		case more != "": // the line belongs to the command above it
			command := &block.commands[len(block.commands)-1]
			command.text += "\n" + line
			if more == `\` {
				more = goesOn(line)
			} else if line == more {
				more = ""
			}
		case block == nil && len(fence) > 2:
			mark := line[len(fence):]
			if block, end = (&docBlock{mark: mark, line: i + 1}), fence; mark != "console" && mark != "text" {
				complain(i+1, fmt.Sprintf("a block marked %q, want console or text", mark))
			}
		case block != nil && line == end:
			blocks, block = append(blocks, *block), nil
		case block == nil:
			if blank && strings.HasPrefix(line, "    ") {
				complain(i+1, "an indented block, want one between ``` marked console or text")
			}
		default:
			if command, ok := strings.CutPrefix(line, "$ "); ok {
				block.commands = append(block.commands, docCommand{text: command, line: i + 1})
				more = goesOn(command)
			} else if block.mark == "console" && len(block.commands) == 0 {
				complain(i+1, "a console block begins with a command, behind \"$ \"")
			} else if n := len(block.commands); n > 0 && block.mark == "console" {
				block.commands[n-1].want = append(block.commands[n-1].want, line)
			}
		}
		blank = line == ""
	}
	if block != nil {
		complain(block.line, "the block has no end")
	}
	return blocks, wrong
}

// goesOn returns what ends the command that begins with the line: the word of its here-document, a backslash for the
// next line, or "" if the command is complete.
func goesOn(line string) string {
	if _, rest, ok := strings.Cut(line, "<<'"); ok {
		word, _, _ := strings.Cut(rest, "'")
		return word
	}
	if strings.HasSuffix(line, `\`) {
		return `\`
	}
	return ""
}

// onlyShown are the pages with commands in a text block, which no test runs, and what these commands need.
var onlyShown = map[string]string{
	"answers":          "the web",
	"approvals":        "a thread that waits for a person",
	"backup":           "a home with years of work, and a second machine",
	"lock":             "a bundle with a new signer: the page release runs it",
	"mcp-servers":      "servers of npm and of other hosts, and a browser to sign in",
	"oci":              "a registry",
	"operations":       "a thread that runs or hangs: the script thread_cancel runs them",
	"packages":         "the registries of npm and PyPI",
	"plugins":          "servers that a person agrees to start: the script plugin_servers runs them",
	"policy":           "the digest and the revocation list of someone else",
	"registry-host":    "a browser, and a second machine: the scripts registry_accounts and registry_backup run them",
	"registry-release": "several owners and a pipeline: the scripts registry_release and registry_pipeline run them",
	"registry-private": "a login with a browser: the script registry_private runs the rest",
	"secrets":          "a browser to sign in",
	"serve":            "a server that runs until it is stopped, and Claude Code",
	"skills":           "skills on disk and on the web",
	"sources":          "hosts of bundles",
	"speed":            "a checkout of rye, and an hour",
	"threads":          "a model that writes a tool",
	"transcripts":      "the thread of another machine",
	"wasm":             "a compiler",
	"what-to-commit":   "a repository with a main branch: the script journey_clone runs them",
}

// TestDocBlocks: every block of the documentation is marked as one that TestDocs runs, or as one that is only shown.
func TestDocBlocks(t *testing.T) {
	topics, err := initcmd.DocTopics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	run := 0
	for _, it := range topics {
		blocks, wrong := docBlocks(it.Model.Body)
		for _, what := range wrong {
			t.Errorf("%s: %s", it.ID, what)
		}
		if slices.ContainsFunc(blocks, func(b docBlock) bool { return b.mark == "console" }) {
			run++
		}
		name := strings.TrimPrefix(it.ID, "rye/")
		shows := slices.ContainsFunc(blocks, func(b docBlock) bool { return b.mark == "text" && len(b.commands) > 0 })
		if shows != (onlyShown[name] != "") {
			t.Errorf("%s: has commands in a text block: %v; in onlyShown it has the reason %q", it.ID, shows,
				onlyShown[name])
		}
	}
	if run < 49 {
		t.Errorf("only %d pages have commands that run", run)
	}
	for body, want := range map[string]int{
		"```\nx\n```\n": 1, "```sh\nx\n```\n": 1, "a\n\n    rye ls\n": 1, "```console\nls\n```\n": 1, "```text\n": 1,
		"```text\nx\n```\n": 0, "```console\n$ ls\nx\n```\n": 0, "- a\n    b\n": 0, "````text\n```xml\n```\n````\n": 0,
		"```console\n$ cat >f <<'EOF'\n```\n$ no\nEOF\nx\n```\n": 0,
	} {
		if _, wrong := docBlocks(body); len(wrong) != want {
			t.Errorf("%q: %q, want %d", body, wrong, want)
		}
	}
}
