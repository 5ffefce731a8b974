package approvals

import "github.com/rye-build/rye/cmd/rye/cli"

// Commands lists the commands of this package, in the order in which the help shows them.
func Commands() []cli.Command {
	return []cli.Command{
		{
			Path: "approvals", Group: "run", Help: "List the requests that wait for an approval.",
			More: "A call that a policy asks about makes a request (rye docs approvals). Without arguments, rye lists the requests of all projects that can " +
				"still be answered or used. With a request it shows that one, with its parameters: secrets are masked. Give the id of a request, " +
				"or its first characters.\n\nExamples:\n\n    rye approvals\n    rye approvals 3f2a9c1e\n    rye approvals --all --json",
			Aka: []string{"requests", "pending"},
			New: func() cli.Runner { return new(listRun) }, Schema: "approvals/1", Output: listAnswer{},
		},
		{
			Path: "approve", Quiet: true, Group: "run", Help: "Approve a call that waits for an answer.",
			More: "The call is made once, by what waits for it: a thread goes on, an MCP server makes the call. Whatever asked is checked again in full: a " +
				"tool that has changed since is refused. An approval that is not used in time expires.\n\nWhere the policy says separate: true, who asked " +
				"cannot approve.\n\nExamples:\n\n    rye approve 3f2a9c1e",
			Aka: []string{"accept", "allow"},
			New: func() cli.Runner { return new(approveRun) }, Schema: "approve/1", Output: answer{},
		},
		{
			Path: "deny", Quiet: true, Group: "run", Help: "Deny a call that waits for an answer.",
			More: "The call is refused, and whatever asked gets the reason.\n\nExamples:\n\n    rye deny 3f2a9c1e\n" +
				"    rye deny 3f2a9c1e --reason \"refund it by hand\"",
			Aka: []string{"reject", "refuse"},
			New: func() cli.Runner { return new(denyRun) }, Schema: "deny/1", Output: answer{},
		},
	}
}
