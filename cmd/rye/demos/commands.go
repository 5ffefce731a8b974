// Package demos has the demonstrations: what rye is for, in a temporary project.
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
