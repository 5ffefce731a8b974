// Package demos has the command "rye demo", which shows rye's job in a temporary project.
//
// How a demonstration goes through here: demoRun.Run makes a temporary directory and takes the lines of script, or
// with --agent those of agentScript, whose model is startModel. play carries out one line: it changes files (does),
// runs a command line in this process (rye, cli.Run) and fails if the exit status or the output isn't the expected
// one.
package demos

import "github.com/rye-build/rye/cmd/rye/cli"

// Commands lists the commands of this package.
func Commands() []cli.Command {
	return []cli.Command{
		{
			Path: "demo", Group: "start", Help: "Sign, lock, run and tamper in a temporary project.",
			More: "It works in a temporary directory with its own keys and removes both. Every command shown really runs; if one ends unexpectedly, rye " +
				"demo fails.\n\nWith --agent two directives run, one as the child of the other. Their model is a script in this process, so no service and no key are " +
				"needed. A tool is changed while they run, and refused. The transcript is then verified with a public key alone, and the thread is run again " +
				"from its record.\n\nExamples:\n\n    rye demo\n    rye demo --agent",
			Aka: []string{"example", "tour"},
			New: func() cli.Runner { return new(demoRun) }, Schema: "demo/2", Output: demoAnswer{},
		},
	}
}
