package operations

import "github.com/rye-build/rye/cmd/rye/cli"

// Commands lists the commands of this package, in the order in which the help shows them.
func Commands() []cli.Command {
	return []cli.Command{
		{
			Path: "thread wait", Group: "run", Help: "Wait until threads have ended.",
			More: "It waits until every thread has completed, failed, or was cancelled, killed or interrupted, " +
				"and exits with the status of the first that has not completed. A thread that waits for an " +
				"approval has not ended. If a thread hands its work over to another, it waits for that one.\n\n" +
				"Examples:\n\n" +
				"    rye thread wait acme/deploy-1795000000-k3v9q\n" +
				"    rye thread wait acme/a-1795000000-k3v9q acme/b-1795000000-r7x2m \\\n        --timeout 10m\n" +
				"    rye thread wait --any acme/a acme/b",
			Aka: []string{"thread join", "wait"},
			New: func() cli.Runner { return new(waitRun) }, Schema: "thread-wait/2", Output: waited{},
		},
		{
			Path: "thread result", Group: "run", Help: "Show what threads returned.",
			More: "Shows the outputs or the result of each thread, and why it failed, without waiting. Of a " +
				"thread that handed its work over, it shows the result of the last thread of its chain; costs are " +
				"those of the whole chain.\n\n" +
				"Examples:\n\n" +
				"    rye thread result acme/deploy-1795000000-k3v9q\n" +
				"    rye thread result --json acme/a-1795000000-k3v9q acme/b-1795000000-r7x2m",
			Aka: []string{"thread results", "thread output"},
			New: func() cli.Runner { return new(resultRun) }, Schema: "thread-result/2", Output: outcomes{},
		},
		{
			Path: "thread cancel", Group: "run", Help: "End a thread at its next safe point.",
			More: "The process that runs the thread lets a model call or a tool that has begun finish, and then " +
				"records that the thread was cancelled. The command does not wait for that. A thread that no " +
				"process runs is cancelled at once, with those below it. Money that was reserved is released.\n\n" +
				"Examples:\n\n" +
				"    rye thread cancel acme/deploy-1795000000-k3v9q\n" +
				"    rye thread cancel acme/deploy-1795000000-k3v9q --reason \"wrong branch\"",
			Aka: []string{"thread stop", "thread abort"},
			New: func() cli.Runner { return new(cancelRun) }, Schema: "thread-cancel/2", Output: ended{},
		},
		{
			Path: "thread kill", Group: "run", Help: "End a thread at once, with all it started.",
			More: "The process that runs the thread stops everything that it does. If it has not done so after " +
				"five seconds, it is killed with all processes below it, unless it also runs a thread that is not " +
				"below this one. A process that only has the same number is never killed. The threads below are " +
				"killed too. A call that was running may have had an effect.\n\n" +
				"Examples:\n\n" +
				"    rye thread kill acme/deploy-1795000000-k3v9q",
			Aka: []string{"thread terminate"},
			New: func() cli.Runner { return new(killRun) }, Schema: "thread-kill/2", Output: ended{},
		},
		{
			Path: "thread tree", Group: "run", Help: "Show a thread and the threads that it started.",
			More: "Shows the children of a thread below it, with state, cost and start. --chain shows the threads " +
				"that do one work one after the other: a thread that has filled its context window hands over to " +
				"the next, and rye thread resume --message goes on with one that has ended.\n\n" +
				"Examples:\n\n" +
				"    rye thread tree\n" +
				"    rye thread tree acme/deploy-1795000000-k3v9q --chain",
			New: func() cli.Runner { return new(treeRun) }, Schema: "thread-tree/2", Output: forest{},
		},
		{
			Path: "thread search", Group: "run", Help: "Search the transcripts of a thread and its chain.",
			More: "Finds a text in what the model was asked and answered, and in what its calls were given and " +
				"returned.\n\n" +
				"Examples:\n\n" +
				"    rye thread search acme/deploy-1795000000-k3v9q rollback\n" +
				"    rye thread search acme/deploy 'error|failed' --regex --max 5",
			Aka: []string{"thread grep", "thread find"},
			New: func() cli.Runner { return new(searchRun) }, Schema: "thread-search/2", Output: found{},
		},
	}
}
