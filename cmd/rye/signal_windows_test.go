package main

import "github.com/rye-build/rye/cmd/rye/cli"

// waitCommand is needed only where a process can be sent a signal.
func waitCommand() cli.Command {
	return cli.Command{Path: "wait", New: func() cli.Runner { return new(cli.VersionRun) }}
}
