// Errors about a wrong command line, with suggestions.

package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/suggest"
	"github.com/rye-build/rye/exec/audit/redact"
)

// usageFault converts kong's error about a command line. For a wrong word it adds suggestions and, if there is only
// one, the corrected command line.
func usageFault(cmds []Command, args []string, bad *kong.ParseError) *fault.Error {
	node := bad.Context.Model.Node
	if s := bad.Context.Selected(); s != nil {
		node = s
	}
	path := pathOf(node)
	name := strings.TrimSpace(program.Name + " " + path)
	text := bad.Unwrap().Error()
	failure := fault.New(fault.Validation, "%s", text).Try(strings.TrimSpace(program.Name + " help " + path))
	if word, ok := offender(text, "unexpected argument "); ok {
		failure.On("argument", word).Text = fmt.Sprintf("%q is one argument too many for %q", word, name)
		switch {
		case path == "auth set":
			return valueTyped(args)
		case len(node.Children) > 0:
			failure.Text = fmt.Sprintf("%q has no command %q", name, word)
			meant(failure, args, word, meantCommands(cmds, path, word))
		case strings.Contains(word, "=") && pairFlag(node) != "":
			meant(failure, args, word, []string{pairFlag(node) + " " + fault.Quote(word)})
		case slices.Contains(FlagNames(node), "--"+word):
			meant(failure, args, word, []string{"--" + word})
		case len(node.Positional) > 0:
			failure.Because("flags go before or after all arguments, not between them")
		}
	} else if word, ok := offender(text, "unknown flag "); ok {
		failure.On("argument", word).Text = fmt.Sprintf("%q has no flag %q", name, word)
		guesses := suggest.Names(word, FlagNames(node))
		if path, ok := aka(cmds, word); ok && node.Parent == nil { // a command can't follow another one
			guesses = []string{path}
		}
		meant(failure, args, word, guesses)
		if len(guesses) == 0 && len(node.Positional) > 0 {
			failure.Because(`arguments that begin with "-" go after "--"`)
		}
	} else if strings.Contains(text, ": time: missing unit ") {
		flag, _, _ := strings.Cut(text, ":")
		_, value, _ := strings.Cut(text, ": expected duration but got ")
		value, _, _ = strings.Cut(value, ": time: ")
		failure.Text = fmt.Sprintf("%s: %s has no unit", flag, value)
		failure.Because("a time is written like 30s, 10m or 2h")
	} else if strings.Contains(text, `must be one of "",`) { // "" is the flag's absence
		failure.Text = strings.Replace(text, `must be one of "",`, "must be one of ", 1)
	} else if len(node.Children) > 0 && strings.HasPrefix(text, "expected ") {
		failure.Text = fmt.Sprintf("%q needs a command", name)
		for _, c := range node.Children {
			if !c.Hidden && (node.Parent != nil || slices.Contains(program.Daily, c.Name)) {
				failure.Because(fmt.Sprintf("%-12s %s", c.Name, c.Help))
			}
		}
	}
	return failure
}

// pairFlag returns the flag of a command that takes NAME=VALUE, or "".
func pairFlag(node *kong.Node) string {
	switch names := FlagNames(node); {
	case slices.Contains(names, "--param"):
		return "-p"
	case slices.Contains(names, "--input"):
		return "-i"
	}
	return ""
}

// valueTyped is the error for a secret on the command line. It doesn't repeat the secret.
func valueTyped(args []string) *fault.Error {
	failure := fault.New(fault.Validation, "the value of a secret can't be an argument").
		Because("rye auth set reads it from a prompt or from standard input",
			"the value that you typed is in your shell's history now: remove it there, or replace the secret")
	i := slices.Index(args, "set") + 1
	if i < len(args) && !strings.HasPrefix(args[i], "-") {
		return failure.Try(fault.Command("rye auth set", args[i]))
	}
	return failure.Try("rye help auth set")
}

// offender returns the word in kong's message, without kong's own suggestion.
func offender(text, prefix string) (string, bool) {
	word, ok := strings.CutPrefix(text, prefix)
	if i := strings.LastIndex(word, ", did you mean "); i >= 0 {
		word = word[:i]
	}
	return word, ok
}

// meant adds the guesses for a mistyped word to f. A single guess becomes a hint: the corrected command line.
func meant(f *fault.Error, args []string, word string, guesses []string) {
	if len(guesses) == 0 {
		return
	}
	f.On("did_you_mean", guesses).Because("did you mean " + strings.Join(guesses, ", ") + "?")
	i := slices.IndexFunc(args, func(arg string) bool { return arg == word || strings.HasPrefix(arg, word+"=") })
	if len(guesses) == 1 && i >= 0 {
		line := quoteArgs(args)
		line[i] = guesses[0] + strings.TrimPrefix(line[i], fault.Quote(word))
		f.Hint = []string{program.Name + " " + strings.Join(line, " ")}
	}
}

// JoinArgs quotes a command line for the shell, to be shown. It masks the values of secrets.
func JoinArgs(args []string) string { return strings.Join(quoteArgs(args), " ") }

func quoteArgs(args []string) []string {
	out := redact.Args(args)
	for i, arg := range out {
		out[i] = fault.Quote(arg)
	}
	return out
}

// meantCommands returns the commands that word may mean below parent: a command that other tools call so, a command
// of this name in another group, or one with a similar name.
func meantCommands(cmds []Command, parent, word string) []string {
	if path, ok := aka(cmds, strings.TrimSpace(parent+" "+word)); ok {
		return []string{strings.TrimPrefix(path, parent+" ")}
	}
	var here, elsewhere []string
	for _, command := range cmds {
		if command.Hidden {
			continue
		}
		up, last := "", command.Path
		if i := strings.LastIndexByte(command.Path, ' '); i >= 0 {
			up, last = command.Path[:i], command.Path[i+1:]
		}
		if up == parent {
			here = append(here, last)
		} else if last == word && parent == "" {
			elsewhere = append(elsewhere, command.Path)
		}
	}
	if len(elsewhere) > 0 {
		return elsewhere
	}
	return suggest.Names(word, here)
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

// Value returns the value of an optional flag: a pointer, so that 0 differs from no flag. Without the flag it is 0.
func Value[T any](flag *T) (value T) {
	if flag != nil {
		value = *flag
	}
	return value
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
