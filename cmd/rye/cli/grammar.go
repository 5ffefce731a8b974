// The grammar of the command line, built with kong.

package cli

import (
	"bytes"
	"errors"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/alecthomas/kong"

	"github.com/rye-build/rye/cas/fault"
)

// Globals are the flags of every command.
type Globals struct {
	Help      helpFlag `short:"h" help:"Show help."`
	JSON      bool     `name:"json" help:"Print one line of JSON, errors included."`
	Quiet     bool     `short:"q" help:"Print only data, warnings and errors."`
	Verbose   bool     `short:"v" help:"Print details, and counters at the end."`
	Debug     bool     `group:"Global flags:" help:"Print the causes of an error."`
	NoColor   bool     `group:"Global flags:" help:"Disable colour."`
	Yes       bool     `short:"y" help:"Answer yes to every question."`
	Project   string   `short:"C" placeholder:"DIR" complete:"dir" help:"Run as if started in DIR."`
	Store     string   `placeholder:"DIR" complete:"dir" help:"Use the object store in DIR."`
	Offline   bool     `help:"Never use the network."`
	PlainHTTP bool     `name:"plain-http" group:"Global flags:" help:"Allow http addresses beyond this machine; signatures still count."`
	Trust     string   `placeholder:"FILE" complete:"file" help:"Use the policy in FILE instead of your own."`
}

// Placed adds this call's -C, --store and --trust to a command in a hint, so that it works on the same project. It
// leaves commands that need none of them unchanged, and rye init, whose argument is its place.
func (g Globals) Placed(line string) string {
	rest, ours := strings.CutPrefix(line, "rye ")
	word, _, _ := strings.Cut(rest, " ")
	if !ours || slices.Contains([]string{"docs", "help", "init", "version"}, word) {
		return line
	}
	places := ""
	for _, p := range []struct{ flag, long, value string }{{"-C", "--project", g.Project},
		{"--store", "--store", g.Store}, {"--trust", "--trust", g.Trust}} {
		if p.value != "" && !slices.ContainsFunc(strings.Fields(rest), func(word string) bool {
			word = strings.TrimPrefix(word, "'") // fault.Quote quotes with '
			return strings.HasPrefix(word, p.flag) || strings.HasPrefix(word, p.long)
		}) {
			places += p.flag + " " + fault.Quote(p.value) + " "
		}
	}
	return "rye " + places + rest
}

// place completes the hints of an error. A hint that is only a flag becomes the command line with this flag. Other
// hints go through Placed, unless they repeat the command line.
func (a *App) place(f *fault.Error) *fault.Error {
	for i, hint := range f.Hint {
		if strings.HasPrefix(hint, "--") {
			f.Hint[i] = a.With(hint)
		} else if !strings.Contains(hint, JoinArgs(a.Args)) {
			f.Hint[i] = a.Globals.Placed(hint)
		}
	}
	return f
}

// helpFlag stops the parser before it checks arguments, so that --help works with an incomplete command line.
type helpFlag bool

// errHelp stops the parser at --help. No user sees its text.
var errHelp = errors.New("help asked for")

// BeforeReset is called by kong before it checks the arguments.
func (helpFlag) BeforeReset() error { return errHelp }

// Invocation is a parsed command line.
type Invocation struct {
	Globals Globals
	Command Command
	Runner  Runner
	Help    *kong.Context // with --help: the command that it is about; else nil
}

// Parse parses a command line. Its error suggests the word that was probably meant.
func Parse(cmds []Command, args []string) (*Invocation, error) {
	for _, arg := range args { // kong would replace invalid characters
		if !utf8.ValidString(arg) {
			return nil, fault.New(fault.Validation, "the argument %q isn't UTF-8", arg).On("argument", arg)
		}
	}
	inv := new(Invocation)
	few := Narrow(cmds, args)
	kctx, err := NewGrammar(&inv.Globals, few).Parse(args)
	if err != nil && len(few) < len(cmds) {
		// Suggestions and help need all commands. The result doesn't count if it is a command below another one that
		// runs: kong would accept the flags of both.
		inv.Globals = Globals{}
		all, other := NewGrammar(&inv.Globals, cmds).Parse(args)
		if other != nil || !slices.ContainsFunc(cmds, func(c Command) bool {
			return c.New != nil && c.leads(pathOf(all.Selected()))
		}) {
			kctx, err = all, other
		}
	}
	var bad *kong.ParseError
	if errors.As(err, &bad) {
		if errors.Is(err, errHelp) {
			inv.Help = bad.Context
			return inv, nil
		}
		return nil, usageFault(cmds, args, bad)
	}
	if err != nil {
		return nil, err
	}
	node := kctx.Selected()
	inv.Command, _ = find(cmds, pathOf(node))
	for _, p := range kctx.Path {
		if p.Flag != nil && p.Flag.Target.Kind() == reflect.Slice && p.Flag.Target.Len() == 0 {
			return nil, fault.New(fault.Validation, "--%s: empty value (is a variable unset?)", p.Flag.Name)
		}
	}
	inv.Runner = node.Target.Addr().Interface().(Runner)
	return inv, nil
}

// readText reads the text of a flag or an argument and refuses an empty one: "--trust $FILE" with an unset variable
// must not mean the user's policy, nor "store put $DIR" the working directory. The tag "blank" allows empty text.
func readText(ctx *kong.DecodeContext, target reflect.Value) error {
	if ctx.Scan.Peek().IsEOL() {
		return errors.New("needs a value")
	}
	err := ctx.Scan.PopValueInto("text", target.Addr().Interface())
	if err == nil && target.Len() == 0 && !ctx.Value.Tag.Has("blank") {
		return errors.New("empty value (is a variable unset?)")
	}
	return err
}

// find returns the command with this path.
func find(cmds []Command, path string) (Command, bool) {
	i := slices.IndexFunc(cmds, func(c Command) bool { return c.Path == path })
	if i < 0 {
		return Command{}, false
	}
	return cmds[i], true
}

// Narrow returns the commands whose words occur in args in order, and their groups. If no command is among them it
// returns all. Parsing with these gives the same result at a tenth of the cost: kong takes 50 µs to build the model
// of a command (measured).
func Narrow(cmds []Command, args []string) []Command {
	var few []Command
	runs := false
	for _, command := range cmds {
		rest, ok := args, true
		words := strings.Fields(command.Path)
		for i, word := range words {
			other := ""
			if i == len(words)-1 {
				other = alias(cmds, command.Path)
			}
			i := slices.IndexFunc(rest, func(arg string) bool { return arg == word || arg == other && other != "" })
			if i < 0 {
				ok = false
				break
			}
			rest = rest[i+1:]
		}
		if ok {
			few = append(few, command)
			runs = runs || command.New != nil
		}
	}
	if !runs {
		return cmds
	}
	for i, c := range few {
		if slices.ContainsFunc(few, func(o Command) bool { return o.New != nil && c.leads(o.Path) }) {
			few[i].New = nil // args name a command below it, so here it is only a group
		}
	}
	return slices.DeleteFunc(few, func(c Command) bool {
		return c.New == nil && !slices.ContainsFunc(few, func(o Command) bool {
			return o.New != nil && c.leads(o.Path)
		})
	})
}

// leads reports whether path belongs to a command below c.
func (c Command) leads(path string) bool { return strings.HasPrefix(path, c.Path+" ") }

// words maps the last word of a command to its alias.
var words = map[string]string{"list": "ls", "ls": "list", "remove": "rm", "rm": "remove"}

// alias returns the other name of a command's last word, or "" if it has none or another command has that name.
func alias(cmds []Command, path string) string {
	i := strings.LastIndexByte(path, ' ') + 1
	if other, ok := words[path[i:]]; ok && !slices.ContainsFunc(cmds, func(c Command) bool {
		return c.Path == path[:i]+other
	}) {
		return other
	}
	return ""
}

// pathOf returns the path of a command's node without the alias that kong appends.
func pathOf(node *kong.Node) string {
	path, _, _ := strings.Cut(node.Path(), " (")
	return path
}

// NewGrammar builds kong's model of the commands. It panics on a mistake in the table; a test builds the whole
// table.
func NewGrammar(globals *Globals, cmds []Command) *kong.Kong {
	options := []kong.Option{
		kong.Name(program.Name),
		kong.Description(program.About),
		kong.NoDefaultHelp(),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, FlagsLast: true, WrapUpperBound: helpWidth}),
		kong.Writers(new(bytes.Buffer), new(bytes.Buffer)),
		kong.KindMapper(reflect.String, kong.MapperFunc(readText)),
		kong.PostBuild(func(k *kong.Kong) error {
			for _, flag := range k.Model.Flags {
				flag.Group = &kong.Group{Key: "global", Title: "Global flags:"}
			}
			nest(k.Model.Node, cmds)
			return nil
		}),
	}
	for _, c := range cmds {
		var target any = new(struct{})
		if c.New != nil {
			target = c.New()
		}
		var tags []string
		if c.Hidden {
			tags = append(tags, `hidden:""`)
		}
		options = append(options, kong.DynamicCommand(c.Path, c.Help, heading(c.Group), target, tags...))
	}
	return kong.Must(globals, options...)
}

// helpWidth is the width of help text, the same on every terminal.
const helpWidth = 100

// heading returns the heading of a group of commands: "items" becomes "Items:".
func heading(group string) string {
	if group == "" {
		return ""
	}
	return strings.ToUpper(group[:1]) + group[1:] + ":"
}

// nest moves the nodes of commands such as "store put" below the node of "store", because kong's dynamic commands
// are all on one level.
func nest(root *kong.Node, cmds []Command) {
	nodes := root.Children
	root.Children = nil
	for i, node := range nodes {
		node.Detail = cmds[i].More
		if other := alias(cmds, node.Name); other != "" {
			node.Aliases = []string{other}
		}
		parent := root
		for {
			j := slices.IndexFunc(parent.Children, func(n *kong.Node) bool {
				return strings.HasPrefix(node.Name, n.Name+" ")
			})
			if j < 0 {
				break
			}
			parent = parent.Children[j]
			node.Name = node.Name[len(parent.Name)+1:]
		}
		above := *parent
		if parent != root {
			above.Flags = nil // a child must not accept the flags of its parent
		}
		node.Parent = &above
		parent.Children = append(parent.Children, node)
	}
}

// usage returns kong's help for the selected command.
func usage(kctx *kong.Context) string {
	var b bytes.Buffer
	kctx.Kong.Stdout = &b
	_ = kctx.PrintUsage(false) // a Buffer takes everything
	return b.String()
}
