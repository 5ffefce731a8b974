package prune

import "github.com/rye-build/rye/cmd/rye/cli"

// Commands lists the commands of this package, in the order in which the help shows them.
func Commands() []cli.Command {
	return []cli.Command{
		{
			Path: "thread prune", Group: "run", Help: "Remove the records of old threads.",
			More: "Removes the directories of threads that ended before --keep, and of the threads that they are " +
				"related to: parents, children, and those that continue them. All of them must have ended. State, " +
				"cost and the last signed digest remain, so that rye thread list, cost and verify still know the " +
				"thread. A transcript that can't be verified is kept. Export what others may need first. rye shows " +
				"what would go, and asks; --yes answers.\n\n" +
				"Examples:\n\n" +
				"    rye thread prune --keep 90d --dry-run\n" +
				"    rye thread prune --keep 90d --all --yes",
			New: func() cli.Runner { return new(threadPruneRun) }, Schema: "thread-prune/1", Output: threadPruned{},
		},
	}
}
