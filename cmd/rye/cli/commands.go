package cli

import (
	"context"

	"github.com/rye-build/rye/exec/primitive/function"
)

// A Command is one line of the table that everything about commands is read from: the grammar, the help,
// the completion, the schemas and what is suggested when somebody types something else.
type Command struct {
	Path   string        // the words typed after rye: "version", "store put"
	Group  string        // the heading it stands under in the help
	Help   string        // one line
	More   string        // paragraphs and indented examples, shown by "rye help COMMAND"
	Aka    []string      // what other tools call it: typing one of these is answered with path
	Hidden bool          // not for people
	New    func() Runner // its flags and arguments as kong tags; nil for a group of commands
	Schema string        // the name of its output, "NAME/N"; changes to an output of one N are additions
	Output Answer        // a zero value of its output

	Functions func(a *App) function.Functions // of the command that runs tools: what they may have rye do, by name
}

// A Runner is a parsed command line. It returns what it found, or why not; where it returns both, the
// answer is the evidence for the error.
type Runner interface {
	Run(ctx context.Context, a *App) (Answer, error)
}

// An Answer is what a command found. --json writes it as it marshals, which must be an object; text writes
// it for people. A nil answer is for commands that have written their data themselves.
type Answer interface {
	Text(t *Terminal)
}
