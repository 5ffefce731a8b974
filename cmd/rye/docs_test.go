package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/initcmd"
)

// What the documentation, the README and the help texts show of rye is a command line that rye takes: every command,
// flag and number of arguments.
func TestShownCommands(t *testing.T) {
	topics, err := initcmd.DocTopics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	shown := 0
	check := func(where, text string) {
		parse := func(code string) {
			for _, args := range shellLines(code) {
				shown++
				if _, err := cli.Parse(commands(), args); err != nil {
					t.Errorf("%s: %q: %v", where, args, err)
				}
			}
		}
		blocks, _ := docBlocks(text)
		for _, block := range blocks {
			for _, command := range block.commands {
				first, _, _ := strings.Cut(strings.ReplaceAll(command.text, "\\\n", " "), "\n")
				parse(first)
			}
		}
		for line := range strings.Lines(strings.ReplaceAll(text, "\\\n", " ")) {
			if code, ok := strings.CutPrefix(line, "    "); ok {
				parse(code)
			}
			for _, span := range codeSpans.FindAllStringSubmatch(line, -1) {
				shown++
				checkSpan(t, where, strings.Fields(span[1]))
			}
		}
	}
	for _, it := range topics {
		check(it.Ref.String(), it.Model.Body)
	}
	check("README.md", string(readme))
	for _, c := range commands() {
		_, examples, _ := strings.Cut(c.More, "Examples:\n")
		if check("rye help "+c.Path, examples); examples == "" && c.More != "" && len(c.Path) > 0 && c.New != nil &&
			!c.Hidden && c.Path != "demo" {
			t.Errorf("rye help %s has no example", c.Path)
		}
	}
	if shown < 400 {
		t.Errorf("only %d command lines are shown", shown)
	}
}

// TestDesignPage: every package that rye docs design names is there, and explains itself.
func TestDesignPage(t *testing.T) {
	topics, err := initcmd.DocTopics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(topics, func(it *ai.Item) bool { return it.ID == "rye/design" })
	named := regexp.MustCompile("\\| `([a-z/0-9]+)` \\|").FindAllStringSubmatch(topics[i].Model.Body, -1)
	for _, n := range named {
		files, _ := filepath.Glob(filepath.Join("..", "..", filepath.FromSlash(n[1]), "*.go"))
		explained := slices.ContainsFunc(files, func(name string) bool {
			b, err := os.ReadFile(name)
			return err == nil && regexp.MustCompile(`(?m)^(//|/\*\n)\s*Package \w+ `).Match(b)
		})
		if !explained {
			t.Errorf("%s has no package comment", n[1])
		}
	}
	if len(named) < 25 {
		t.Errorf("only %d packages are named", len(named))
	}
}

var (
	codeSpans = regexp.MustCompile("`rye ([^`]+)`")
	bareWord  = regexp.MustCompile(`^[a-z0-9-]+$`)
)

// checkSpan wants what stands in a sentence to begin with a command, or a group of them. In "rye trust add, list" each
// is one of the group.
func checkSpan(t *testing.T, where string, words []string) {
	known := func(words []string) bool {
		path := strings.Join(words, " ")
		return slices.ContainsFunc(commands(), func(c cli.Command) bool {
			return c.Path == path || strings.HasPrefix(c.Path, path+" ")
		})
	}
	group := 0 // how many words stand before the list, if it is one
	for group < len(words) && bareWord.MatchString(words[group]) {
		group++
	}
	switch {
	case strings.HasPrefix(words[0], "-"):
		return
	case group < len(words) && strings.HasSuffix(words[group], ","):
		for _, name := range words[group:] {
			if path := append(slices.Clone(words[:group]), strings.TrimSuffix(name, ",")); !known(path) {
				t.Errorf("%s: there is no command %q", where, path)
			}
		}
	case group == 0 || !known(words[:1]):
		t.Errorf("%s: there is no command %q", where, words)
	case !known(words[:min(2, group)]) && !slices.ContainsFunc(commands(), func(c cli.Command) bool {
		return c.Path == words[0]
	}):
		t.Errorf("%s: there is no command %q", where, words[:2])
	}
}

// shellLines are the command lines of rye in a line of a shell, without "rye". What stands behind two spaces says what
// it does.
func shellLines(line string) (all [][]string) {
	line, _, _ = strings.Cut(strings.TrimRight(line, "\n"), "  ")
	line, _, _ = strings.Cut(line, " # ")
	var words []string
	stop := func() {
		if len(words) > 0 && words[0] == "rye" {
			all = append(all, words[1:])
		}
		words = nil
	}
	tokens := shellWords.FindAllString(line, -1)
	for i := 0; i < len(tokens); i++ {
		switch w := tokens[i]; {
		case w[0] == '|' || w[0] == '&':
			stop()
		case w[0] == '<' || w[0] == '>':
			i++ // the file
		case len(words) == 0 && strings.Contains(w, "="): // a variable
		default:
			words = append(words, strings.NewReplacer("'", "", `"`, "").Replace(w))
		}
	}
	stop()
	return all
}

var shellWords = regexp.MustCompile(`(?:'[^']*'|"[^"]*"|[^\s|<>&'"])+|[|<>&]+`)
