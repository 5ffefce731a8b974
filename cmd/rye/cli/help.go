// The commands rye help and rye version in the table, and the pages of help.

package cli

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/alecthomas/kong"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/suggest"
)

// Commands lists the commands of this package, in the order in which the help shows them.
func Commands() []Command {
	return []Command{
		{
			Path: "help", Group: "start", Help: "Explain a command or a topic: commands, errors, environment.",
			More: "Examples:\n\n    rye help exec\n    rye help commands\n    rye help environment --json",
			Aka:  []string{"man", "usage", "commands"},
			New:  func() Runner { return new(helpRun) }, Schema: "help/1", Output: helpAnswer{},
		},
		{
			Path: "version", Group: "start", Help: "Print the version.",
			More:   versionHelp,
			Aka:    []string{"--version", "-V", "about"},
			New:    func() Runner { return new(VersionRun) },
			Schema: "version/1", Output: versionAnswer{},
		},
	}
}

type helpRun struct {
	Words []string `arg:"" optional:"" name:"command" complete:"command" help:"Command or topic."`
}

// helpAnswer is a page of help. Its lists are the same on every page, for programs.
type helpAnswer struct {
	Page        string           `json:"text"`
	Commands    []helpLine       `json:"commands"`
	Codes       []fault.Line     `json:"codes"`
	Exits       []fault.ExitLine `json:"exits"`
	Environment []variableLine   `json:"environment"`
}

type helpLine struct {
	Command string `json:"command"`
	Help    string `json:"help"`
	Schema  string `json:"schema"`
}

type variableLine struct {
	Name string `json:"name"`
	Help string `json:"help"`
}

// variables lists every environment variable that rye reads.
func variables() []variableLine {
	return []variableLine{
		{"RYE_STORE", "the directory of the object store, unless --store is given"},
		{EnvOffline, "any value but 0 and false: never use the network, like --offline"},
		{EnvMirrors, "mirrors of OCI registries, asked first: HOST=MIRROR[/PREFIX], separated by spaces"},
		{EnvTrust, "the id (blake3:…) of the project's policy.yaml, to use instead of your own policy"},
		{EnvKey, "the private key (PEM) to sign with, unless --key is given"},
		{EnvPassphrase, "the passphrase of private keys, instead of a question"},
		{"RYE_REGISTRY_TOKEN", "the token for a registry of bundles, instead of that of rye login"},
		{"RYE_ID_TOKEN", "the token of a pipeline's run, as GitLab gives it, for rye publish"},
		{"USER_SPACE", "the directory whose .ai is the user space; default: the home directory"},
		{"SOURCE_DATE_EPOCH", "the time to write, in seconds since 1970, instead of the current time"},
		{"NO_COLOR", "disable colour"},
		{"CLICOLOR_FORCE", "colour even without a terminal"},
		{"TERM", "dumb: no colour and no progress line"},
		{"CI", "no progress line; items must be locked to run, and --dev and --unlocked are refused"},
		{"LC_ALL, LC_CTYPE, LANG", "the terminal's character set; nothing else depends on the locale"},
		{"XDG_DATA_HOME, XDG_STATE_HOME, XDG_CACHE_HOME", "the directories of store, state and caches on Linux"},
		{"HTTPS_PROXY, NO_PROXY", "the proxy for https, and the hosts to reach without it"},
		{"SSL_CERT_FILE, SSL_CERT_DIR", "trusted certificates instead of the system's"},
	}
}

func (h *helpRun) Run(_ context.Context, app *App) (Answer, error) {
	ans := newHelp(app.Commands)
	switch strings.Join(h.Words, " ") {
	case "commands":
		ans.Page = commandsPage(app.Commands)
		return ans, nil
	case "errors":
		ans.Page = errorsPage()
		return ans, nil
	case "environment":
		ans.Page = environmentPage()
		return ans, nil
	}
	kctx, err := kong.Trace(NewGrammar(new(Globals), app.Commands), h.Words)
	if err == nil {
		err = kctx.Error
	}
	if err != nil {
		topics := []string{"commands", "errors", "environment"}
		for _, c := range app.Commands {
			topics = append(topics, c.Path)
		}
		topic := strings.Join(h.Words, " ")
		f := fault.New(fault.NotFound, "no help for %q", topic).Try(program.Name + " help")
		if path, ok := aka(app.Commands, topic); ok {
			f.Hint = []string{program.Name + " help " + path}
		} else if meant := suggest.Names(topic, topics); len(meant) > 0 {
			f.Hint = []string{program.Name + " help " + meant[0]}
		}
		return nil, f
	}
	return helpOf(app.Commands, kctx), nil
}

// Topics offers the pages of help that are not about one command, as the first word after rye help.
func Topics(words []string) []Candidate {
	if len(words) > 0 {
		return nil
	}
	return []Candidate{{"commands", "every command"}, {"errors", "codes and exit statuses"},
		{"environment", "variables"}}
}

// helpOf returns the page of the command that kctx selected, or the front page.
func helpOf(cmds []Command, kctx *kong.Context) helpAnswer {
	ans := newHelp(cmds)
	ans.Page = usage(kctx)
	if kctx.Selected() == nil {
		_, flags, _ := strings.Cut(ans.Page, "\nGlobal flags:\n")
		ans.Page = frontPage(cmds, flags)
	}
	// A group that is also a command runs without a subcommand.
	if path, _, group := strings.Cut(strings.TrimPrefix(ans.Page, "Usage: "+program.Name+" "), " <command>"); group &&
		slices.ContainsFunc(cmds, func(c Command) bool { return c.Path == path && c.New != nil }) {
		ans.Page = strings.Replace(ans.Page, "<command>", "[<command>]", 1)
	}
	return ans
}

// frontPage fits on one screen: the daily commands, the names of the others by group, and the global flags.
func frontPage(cmds []Command, flags string) string {
	var text strings.Builder
	fmt.Fprintf(&text, "Usage: %s <command> [flags]\n\n%s\n\nEvery day:\n", program.Name, program.About)
	for _, path := range program.Daily {
		c, _ := find(cmds, path)
		fmt.Fprintf(&text, "  %-9s %s\n", path, c.Help)
	}
	text.WriteString("\nMore:\n")
	group := ""
	for _, c := range cmds {
		switch {
		case c.Hidden || strings.Contains(c.Path, " ") || slices.Contains(program.Daily, c.Path):
		case c.Group == group:
			fmt.Fprintf(&text, ", %s", c.Path)
		default:
			if group != "" {
				text.WriteByte('\n')
			}
			group = c.Group
			fmt.Fprintf(&text, "  %-9s %s", heading(group), c.Path)
		}
	}
	return text.String() + "\n\nGlobal flags:\n" + flags +
		"\nExit status: 0 done, 1 no or failed, 2 wrong usage, 3 not found, 4 refused, 130 interrupted.\n" +
		strings.ReplaceAll("See also: rye help COMMAND, rye help commands, rye help errors, rye help environment\n",
			"rye ", program.Name+" ")
}

// commandsPage lists every command under its group.
func commandsPage(cmds []Command) string {
	var text strings.Builder
	group := ""
	for _, command := range cmds {
		if command.Hidden || command.New == nil {
			continue
		}
		if command.Group != group {
			group = command.Group
			fmt.Fprintf(&text, "%s\n", heading(group))
		}
		name := command.Path
		if other := alias(cmds, command.Path); other != "" {
			name += " (" + other + ")"
		}
		fmt.Fprintf(&text, "  %-20s %s\n", name, command.Help)
	}
	return text.String()
}

func newHelp(cmds []Command) helpAnswer {
	ans := helpAnswer{Codes: fault.Table(), Exits: fault.Exits(), Environment: variables(), Commands: []helpLine{}}
	for _, c := range cmds {
		if !c.Hidden && c.New != nil {
			ans.Commands = append(ans.Commands, helpLine{c.Path, c.Help, c.Schema})
		}
	}
	return ans
}

func errorsPage() string {
	var text strings.Builder
	text.WriteString("Exit statuses:\n\n")
	for _, e := range fault.Exits() {
		fmt.Fprintf(&text, "  %-4d %s\n", e.Exit, e.Help)
	}
	text.WriteString(
		"\nA command that asks a question (a check) exits with 1 whatever the code. Any other status is a failure.\n" +
			"\nError codes with their status; * means that the same command may succeed later:\n\n")
	for _, c := range fault.Table() {
		mark := " "
		if c.Retryable {
			mark = "*"
		}
		fmt.Fprintf(&text, "  %-21s %-3s %s %s\n", c.Code, strconv.Itoa(c.Exit), mark, c.Help)
	}
	return text.String()
}

func environmentPage() string {
	var b strings.Builder
	b.WriteString(
		"Variables with an effect; an empty one counts as unset, and an unknown RYE_ variable is refused:\n\n")
	for _, v := range variables() {
		fmt.Fprintf(&b, "  %s\n      %s\n", v.Name, v.Help)
	}
	return b.String()
}

func (h helpAnswer) Text(t *Terminal) { t.Printf("%s", Styled(h.Page)) }

// An explainer is a command whose help also explains its arguments.
type explainer interface {
	Explain(ctx context.Context, a *App) (string, error)
}

// explained puts a command's explanation of the arguments in front of its help, if it is an explainer. Invalid
// arguments give the plain page.
func explained(ctx context.Context, host Host, term *Terminal, cmds []Command, args []string,
	page helpAnswer) (helpAnswer,
	error) {
	plain := slices.DeleteFunc(slices.Clone(args), func(arg string) bool { return arg == "--help" || arg == "-h" })
	inv, err := Parse(cmds, plain)
	if err != nil || inv.Runner == nil {
		return page, nil // no arguments to explain
	}
	e, ok := inv.Runner.(explainer)
	if !ok {
		return page, nil
	}
	a, err := NewApp(host, term, inv.Globals, cmds)
	if err != nil {
		return page, err
	}
	a.Args = plain
	more, err := e.Explain(ctx, a)
	if err == nil {
		page.Page = strings.TrimPrefix(more, "\n") + "\n" + page.Page
	}
	return page, err
}
