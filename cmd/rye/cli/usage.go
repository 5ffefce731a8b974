package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/near"
)

// usageFault turns kong's refusal of a command line into a fault: which word is wrong, what was probably meant,
// and a line to paste. Its code is always VALIDATION_FAILED; CONFIG_ERROR is for variables and files.
func usageFault(cmds []Command, args []string, bad *kong.ParseError) *fault.Error {
	node := bad.Context.Model.Node
	if s := bad.Context.Selected(); s != nil {
		node = s
	}
	name := strings.TrimSpace("rye " + pathOf(node))
	text := bad.Unwrap().Error()
	f := &fault.Error{Code: fault.Validation, Text: text, Hint: []string{strings.TrimSpace("rye help " + pathOf(node))}}
	if word, ok := offender(text, "unexpected argument "); ok {
		f.Details = map[string]any{"argument": word}
		switch last := len(node.Positional) - 1; {
		case len(node.Children) > 0:
			f.Text = fmt.Sprintf("%q has no command %q", name, word)
			Meant(f, args, word, meantCommands(cmds, pathOf(node), word))
			return f
		case last >= 0 && node.Positional[last].IsCumulative():
			f.Why = []string{"flags go before or after all arguments, not between them"}
		case strings.Contains(word, "=") && slices.Contains(FlagNames(node), "--param"):
			Meant(f, args, word, []string{"-p " + fault.Quote(word)})
		case slices.Contains(FlagNames(node), "--"+word):
			Meant(f, args, word, []string{"--" + word})
		}
		f.Text = fmt.Sprintf("%q is one argument too many for %q", word, name)
		return f
	}
	if word, ok := offender(text, "unknown flag "); ok {
		f.Text = fmt.Sprintf("%q has no flag %q", name, word)
		f.Details = map[string]any{"argument": word}
		path, other := aka(cmds, word)
		switch guesses := near.Names(word, FlagNames(node)); {
		case other && node.Parent == nil: // behind a command there is no room for another
			Meant(f, args, word, []string{path})
		case len(guesses) == 0 && len(node.Positional) > 0 && !strings.HasPrefix(word, "--"):
			f.Why = []string{`arguments that begin with "-" go after "--"`}
		default:
			Meant(f, args, word, guesses)
		}
		return f
	}
	switch {
	case len(node.Children) > 0 && strings.HasPrefix(text, "expected "):
		f.Text = fmt.Sprintf("%q needs a command", name)
		for _, c := range node.Children {
			if !c.Hidden && (node.Parent != nil || slices.Contains(daily, c.Name)) {
				f.Why = append(f.Why, fmt.Sprintf("%-12s %s", c.Name, c.Help))
			}
		}
	case strings.HasSuffix(text, `got "EOL" (<EOL>)`):
		flag, _, _ := strings.Cut(text, ":")
		f.Text = fmt.Sprintf("%s needs a value", flag)
	case strings.HasPrefix(text, `expected "<`), strings.HasPrefix(text, "missing positional arguments "):
		f.Text = fmt.Sprintf("%q needs %s", name, strings.Trim(text[strings.IndexByte(text, '<'):], `"`))
	}
	return f
}

// offender returns the word that kong's message is about, without kong's own suggestion.
func offender(text, prefix string) (string, bool) {
	word, ok := strings.CutPrefix(text, prefix)
	if i := strings.LastIndex(word, ", did you mean "); i >= 0 {
		word = word[:i]
	}
	return word, ok
}

// Meant adds the guesses for a mistyped word to f. A single guess becomes the command to paste.
func Meant(f *fault.Error, args []string, word string, guesses []string) {
	if len(guesses) == 0 {
		return
	}
	f.Details["did_you_mean"] = guesses
	f.Why = append(f.Why, "did you mean "+strings.Join(guesses, ", ")+"?")
	if len(guesses) > 1 {
		return
	}
	line := []string{"rye"}
	for i, arg := range args {
		flag, value, _ := strings.Cut(arg, "=")
		switch {
		case arg == word:
			line = append(append(line, guesses[0]), quoteArgs(args[i+1:])...)
		case flag == word:
			line = append(append(line, guesses[0]+"="+fault.Quote(value)), quoteArgs(args[i+1:])...)
		default:
			line = append(line, fault.Quote(arg))
			continue
		}
		f.Hint = []string{strings.Join(line, " ")}
		return
	}
}

// JoinArgs quotes a command line for the shell.
func JoinArgs(args []string) string { return strings.Join(quoteArgs(args), " ") }

func quoteArgs(args []string) []string {
	out := make([]string, len(args))
	for i, arg := range args {
		out[i] = fault.Quote(arg)
	}
	return out
}

// meantCommands returns the commands below parent that word may mean: another tool's name for one, the same word in
// another group, or a typing mistake.
func meantCommands(cmds []Command, parent, word string) []string {
	if path, ok := aka(cmds, strings.TrimSpace(parent+" "+word)); ok {
		return []string{strings.TrimPrefix(path, parent+" ")}
	}
	var here, elsewhere []string
	for _, c := range cmds {
		if c.Hidden {
			continue
		}
		up, last := "", c.Path
		if i := strings.LastIndexByte(c.Path, ' '); i >= 0 {
			up, last = c.Path[:i], c.Path[i+1:]
		}
		if up == parent {
			here = append(here, last)
		} else if last == word && parent == "" {
			elsewhere = append(elsewhere, c.Path)
		}
	}
	if len(elsewhere) > 0 {
		return elsewhere
	}
	return near.Names(word, here)
}

// aka returns the command that other tools call words, the group included: "key create" is "key new".
func aka(cmds []Command, words string) (string, bool) {
	for _, c := range cmds {
		if slices.Contains(c.Aka, words) {
			return c.Path, true
		}
	}
	return "", false
}

// FlagNames returns the flags of a command as they are typed.
func FlagNames(node *kong.Node) []string {
	var names []string
	for _, group := range node.AllFlags(true) {
		for _, flag := range group {
			names = append(names, "--"+flag.Name)
			if flag.Tag.Negatable != "" {
				names = append(names, "--no-"+flag.Name)
			}
		}
	}
	return names
}
