// The types of the table of commands.

package cli

import (
	"context"

	"github.com/rye-build/rye/exec/primitive/function"
)

// A Command is one entry of the table of commands. Grammar, help, completion, schemas and the suggestions for
// mistyped words all come from it.
type Command struct {
	Path   string        // the words typed after rye: "version", "store put"
	Group  string        // its heading in the help
	Help   string        // one line: an imperative of at most 12 words
	More   string        // paragraphs and indented examples, shown by "rye help COMMAND"
	Aka    []string      // names that other tools use: rye suggests Path for them
	Hidden bool          // left out of help and completion
	Quiet  bool          // its text only reports what was done, so --quiet omits it
	New    func() Runner // flags and arguments as kong tags; nil for a group of commands
	Schema string        // name of its output, "NAME/N"; under the same N, fields may only be added
	Output Answer        // a zero value of its output

	Functions func(a *App) function.Functions // for exec: functions of rye that tools may call, by name
}

// A Runner is a parsed command line. Run may return an answer together with an error; JSON then has both.
type Runner interface {
	Run(ctx context.Context, a *App) (Answer, error)
}

// An Answer is a command's result. --json marshals it into an object; Text prints it for people. It is nil if the
// command has written its data itself.
type Answer interface {
	Text(t *Terminal)
}
