package cli

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/near"
)

// usageFault turns kong's refusal of a command line into ours: which word, what was probably meant, and a
// line to paste. Every such fault is VALIDATION_FAILED, because the arguments don't fit the command's
// declaration; CONFIG_ERROR is for variables and files.
func usageFault(cmds []Command, args []string, bad *kong.ParseError) *fault.Error {
	kctx := bad.Context
	node := kctx.Model.Node
	if s := kctx.Selected(); s != nil {
		node = s
	}
	name := strings.TrimSpace("rye " + pathOf(node))
	f := &fault.Error{Code: fault.Validation, Hint: []string{strings.TrimSpace("rye help " + pathOf(node))}}
	text := bad.Unwrap().Error()
	if word, ok := offender(text, "unexpected argument "); ok {
		f.Details = map[string]any{"argument": word}
		if len(node.Children) == 0 {
			f.Text = fmt.Sprintf("%q is one argument too many for %q", word, name)
			if strings.Contains(word, "=") && slices.Contains(FlagNames(node), "--param") {
				f.Why = []string{"each parameter stands behind a -p of its own"}
				f.Hint = []string{"rye " + JoinArgs(withParams(args, word))}
			}
			if slices.Contains(FlagNames(node), "--"+word) {
				Meant(f, args, word, []string{"--" + word})
			}
			return f
		}
		f.Text = fmt.Sprintf("%q has no command %q", name, word)
		Meant(f, args, word, meantCommands(cmds, pathOf(node), word))
		return f
	}
	if word, ok := offender(text, "unknown flag "); ok {
		f.Text = fmt.Sprintf("%q has no flag %q", name, word)
		f.Details = map[string]any{"argument": word}
		guesses := near.Names(word, FlagNames(node))
		path, other := aka(cmds, word)
		switch {
		case other && node.Parent == nil: // behind a command there is no room for another
			Meant(f, args, word, []string{path})
		case len(guesses) == 0 && takesWords(node) && !strings.HasPrefix(word, "--"):
			minus(f, args, name, word)
		default:
			Meant(f, args, word, guesses)
		}
		return f
	}
	switch {
	case len(node.Children) > 0 && strings.HasPrefix(text, "expected "):
		f.Text = fmt.Sprintf("%q needs a command", name)
		for _, c := range node.Children {
			if !c.Hidden {
				f.Why = append(f.Why, fmt.Sprintf("%-12s %s", c.Name, c.Help))
			}
		}
	case strings.HasSuffix(text, `got "EOL" (<EOL>)`):
		flag, _, _ := strings.Cut(text, ":")
		f.Text = fmt.Sprintf("%s needs a value", flag)
	case strings.HasPrefix(text, `expected "<`), strings.HasPrefix(text, "missing positional arguments "):
		f.Text = fmt.Sprintf("%q needs %s", name, strings.Trim(text[strings.IndexByte(text, '<'):], `"`))
	case !badValue(f, args, text):
		f.Text = text
	}
	return f
}

// badValue is about a flag whose value is no number, or begins with a minus.
func badValue(f *fault.Error, args []string, text string) bool {
	flag, rest, _ := strings.Cut(text, ": expected ")
	kind, rest, ok := strings.Cut(rest, " but got ")
	quoted, err := strconv.QuotedPrefix(rest)
	if !ok || err != nil {
		return false
	}
	value, err := strconv.Unquote(quoted)
	if err != nil {
		return false
	}
	f.Details = map[string]any{"argument": flag, "value": value}
	switch i := slices.Index(args, flag); {
	case strings.HasPrefix(kind, "int ") || strings.HasSuffix(kind, " int"):
		f.Text = fmt.Sprintf("%s needs a whole number that isn't negative, not %q", flag, value)
	case kind == "duration":
		f.Text = fmt.Sprintf("%s needs a time as in 30s or 5m, not %q", flag, value)
	case !strings.HasSuffix(rest, "?"):
		return false
	default:
		f.Text = fmt.Sprintf("%s needs a value, and %q looks like a flag", flag, value)
		if i >= 0 && i+1 < len(args) && !strings.HasPrefix(value, "--") {
			line := slices.Concat(quoteArgs(args[:i]), []string{flag + "=" + fault.Quote(args[i+1])}, quoteArgs(args[i+2:]))
			f.Hint = []string{"rye " + strings.Join(line, " ")}
		}
	}
	return true
}

// takesWords reports whether the arguments of a command are words in which a minus may mean something.
func takesWords(node *kong.Node) bool {
	return slices.ContainsFunc(node.Positional, func(p *kong.Value) bool { return p.Tag.Has("words") })
}

// keyText is the length of a public key as text, of which one in 64 begins with a minus.
const keyText = 43

// minus is about an argument that begins with a minus and is no flag: how it is written if it is none.
func minus(f *fault.Error, args []string, name, word string) {
	i := slices.IndexFunc(args, func(arg string) bool { return strings.HasPrefix(arg, word) })
	if i < 0 {
		return
	}
	f.Text = fmt.Sprintf("%q has no flag %q", name, args[i])
	f.Why = []string{"words that begin with a minus come behind \"--\", and all other words with them"}
	command := strings.Fields(name)[1:]
	flags := slices.ContainsFunc(slices.Delete(slices.Clone(args), i, i+1), func(arg string) bool { return strings.HasPrefix(arg, "-") })
	switch {
	case len(args[i]) == keyText: // which there is one of
		f.Hint = []string{name + " " + JoinArgs(slices.Delete(slices.Clone(args), i, i+1)[len(command):]) + " -- " + args[i]}
	case !flags && len(args) > len(command) && slices.Equal(args[:len(command)], command):
		f.Hint = []string{name + " -- " + JoinArgs(args[len(command):])}
	}
}

// withParams puts -p before word, and before what looks like another parameter behind it.
func withParams(args []string, word string) (out []string) {
	from := max(slices.Index(args, word), 0)
	for i, arg := range args {
		if i >= from && strings.Contains(arg, "=") && !strings.HasPrefix(arg, "-") && (i == from || !strings.HasPrefix(args[i-1], "-")) {
			out = append(out, "-p")
		}
		out = append(out, arg)
	}
	return out
}

// offender returns the word that kong's message is about; kong's own suggestion is cut off.
func offender(text, prefix string) (string, bool) {
	word, ok := strings.CutPrefix(text, prefix)
	if i := strings.LastIndex(word, ", did you mean "); i >= 0 {
		word = word[:i]
	}
	return word, ok
}

// Meant adds what a word was probably meant to be. One guess becomes the line to paste.
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

func JoinArgs(args []string) string { return strings.Join(quoteArgs(args), " ") }

func quoteArgs(args []string) []string {
	out := make([]string, len(args))
	for i, arg := range args {
		out[i] = fault.Quote(arg)
	}
	return out
}

// meantCommands returns the paths below parent that a word may have been meant for: what other tools call
// it, the same word in another place, or a slip of the finger.
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

// aka returns the command that other tools call by words, which begin with the group that the last stands in.
func aka(cmds []Command, words string) (string, bool) {
	for _, c := range cmds {
		if slices.Contains(c.Aka, words) {
			return c.Path, true
		}
	}
	return "", false
}

// FlagNames returns the flags that a command takes, as they are typed.
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
