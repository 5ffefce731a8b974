package main

// waitCommand is needed only where a process can be sent a signal.
func waitCommand() command {
	return command{path: "wait", new: func() runner { return new(versionRun) }}
}
