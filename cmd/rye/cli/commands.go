package cli

import (
	"context"

	"github.com/rye-build/rye/exec/primitive/function"
)

// A Command is one line of the table that everything about commands is read from: grammar, help, completion, schemas
// and suggestions for mistyped words.
type Command struct {
	Path   string        // the words typed after rye: "version", "store put"
	Group  string        // its heading in the help
	Help   string        // one line: an imperative of at most 12 words
	More   string        // paragraphs and indented examples, shown by "rye help COMMAND"
	Aka    []string      // names that other tools use: rye suggests Path for them
	Hidden bool          // left out of help and completion
	Quiet  bool          // its text only says what was done, so --quiet leaves it out
	New    func() Runner // flags and arguments as kong tags; nil for a group of commands
	Schema string        // name of its output, "NAME/N"; without a new N fields are only added
	Output Answer        // a zero value of its output

	Functions func(a *App) function.Functions // for exec: functions of rye that tools may call, by name
}

// A Runner is a parsed command line. Run may return an answer with an error: the evidence for it.
type Runner interface {
	Run(ctx context.Context, a *App) (Answer, error)
}

// An Answer is a command's result. --json marshals it, into an object; Text writes it for people. It is nil for
// commands that have written their data themselves.
type Answer interface {
	Text(t *Terminal)
}
