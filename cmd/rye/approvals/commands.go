package approvals

import "github.com/rye-build/rye/cmd/rye/cli"

// Commands lists the commands of this package, in the order in which the help shows them.
func Commands() []cli.Command {
	return []cli.Command{
		{
			Path: "approvals", Group: "run", Help: "List the requests that wait for an approval.",
			More: "If a policy requires approval for a call, rye creates a request (rye docs approvals). Without arguments, rye lists the requests of all " +
				"projects that can still be answered or used. With a request it shows that one and its parameters, with secrets masked. Give the id of a " +
				"request, or its first characters.\n\nExamples:\n\n    rye approvals\n    rye approvals 3f2a9c1e\n    rye approvals --all --json",
			Aka: []string{"requests", "pending"},
			New: func() cli.Runner { return new(listRun) }, Schema: "approvals/1", Output: listAnswer{},
		},
		{
			Path: "approve", Quiet: true, Group: "run", Help: "Approve a call that waits for an answer.",
			More: "The process that waits makes the call, once: a thread continues, or an MCP server makes the call. It checks everything again and refuses " +
				"a tool that has changed since. An approval that is not used in time expires.\n\nIf the policy says separate: true, another user than the " +
				"one who made the request must approve it.\n\nExamples:\n\n    rye approve 3f2a9c1e",
			Aka: []string{"accept", "allow"},
			New: func() cli.Runner { return new(approveRun) }, Schema: "approve/2", Output: answer{},
		},
		{
			Path: "deny", Quiet: true, Group: "run", Help: "Deny a call that waits for an answer.",
			More: "The call is refused, and the caller gets the reason.\n\nExamples:\n\n    rye deny 3f2a9c1e\n" +
				"    rye deny 3f2a9c1e --reason \"refund it by hand\"",
			Aka: []string{"reject", "refuse"},
			New: func() cli.Runner { return new(denyRun) }, Schema: "deny/2", Output: answer{},
		},
	}
}
