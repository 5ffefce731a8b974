package threads

import "github.com/rye-build/rye/cmd/rye/cli"

// Commands lists the commands of this package, in the order in which the help shows them.
func Commands() []cli.Command {
	return []cli.Command{
		{
			Path: "thread", Group: "run", Help: "Inspect, steer and verify threads.",
			More: "A thread is one run of a directive by a model, or of a state graph. Its transcript is in " +
				".ai/threads/ID: what the model was asked, what it answered, what was called, and how the thread " +
				"ended, signed with a key of this machine. See rye docs transcripts.",
		},
		{
			Path: "thread list", Group: "run", Help: "List threads with state and cost.",
			More: "Lists the threads of this project, newest first: state, cost with that of children, and start. " +
				"A thread whose process died is interrupted, and one whose directory is gone is lost.\n\n" +
				"Examples:\n\n" +
				"    rye thread list\n" +
				"    rye thread list --state interrupted --all",
			Aka: []string{"thread ls", "threads"},
			New: func() cli.Runner { return new(listRun) }, Schema: "thread-list/1", Output: listed{},
		},
		{
			Path: "thread show", Group: "run", Help: "Show the transcript of a thread.",
			More: "THREAD is an id, the directory of a thread, an export, or a transcript.jsonl, also one of rye " +
				"1. Markdown begins with a header in YAML. A transcript that can't be verified is shown with a " +
				"warning.\n\n" +
				"Examples:\n\n" +
				"    rye thread show acme/deploy-1795000000-k3v9q\n" +
				"    rye thread show deploy.tar.zst --format markdown > deploy.md",
			New: func() cli.Runner { return new(showRun) }, Schema: "thread-show/1", Output: shown{},
		},
		{
			Path: "thread logs", Group: "run", Help: "List the events of a thread, one a line.",
			More: "THREAD is an id, the directory of a thread, an export, or a transcript.jsonl, also one of rye " +
				"1. With --follow it waits for further events until the thread has ended or was interrupted. " +
				"Signatures are not checked: use rye thread verify.\n\n" +
				"Examples:\n\n" +
				"    rye thread logs acme/deploy-1795000000-k3v9q -f\n" +
				"    rye thread logs acme/deploy-1795000000-k3v9q --events | jq .type",
			Aka: []string{"thread tail", "thread log", "thread events"},
			New: func() cli.Runner { return new(logsRun) }, Schema: "thread-logs/1", Output: logged{},
		},
		{
			Path: "thread cost", Group: "run", Help: "Add up what threads have cost.",
			More: "It counts the model calls in the transcripts of the project, or of the threads that you name. " +
				"Days are in UTC. A child's calls are in its own transcript, so no call counts twice, and a " +
				"thread that took its answers from a record has cost nothing. Dollars are exact; in JSON, spend " +
				"is in billionths of a dollar.\n\n" +
				"Examples:\n\n" +
				"    rye thread cost\n" +
				"    rye thread cost --by day,model --csv > cost.csv\n" +
				"    rye thread cost --by directive",
			Aka: []string{"thread costs", "thread spend"},
			New: func() cli.Runner { return new(costRun) }, Schema: "thread-cost/1", Output: &costs{},
		},
		{
			Path: "thread verify", Group: "run", Help: "Verify the transcript of a thread.",
			More: "THREAD is an id, the directory of a thread, an export, or a transcript.jsonl, also one of rye " +
				"1. Every line must follow the one before, and a trusted machine must have signed the last one. " +
				"It prints which directive, tools, policies, lock and model calls gave the result, or the first " +
				"line that was changed. A thread without a signed end isn't accepted unless you pass " +
				"--unfinished: it is running, was interrupted, or its end was removed. To find out whether lines " +
				"were removed, pass an earlier position with --seen.\n\n" +
				"The keys are your own and this machine's, or only those of --key. If anything is wrong, the exit " +
				"status is 1.\n\n" +
				"Examples:\n\n" +
				"    rye thread verify acme/deploy-1795000000-k3v9q\n" +
				"    rye thread verify deploy.tar.zst --key alice.pem",
			Aka: []string{"thread check"},
			New: func() cli.Runner { return new(verifyRun) }, Schema: "thread-verify/1", Output: &verified{},
		},
		{
			Path: "thread export", Group: "run", Help: "Write a thread to one file for others.",
			More: "The file holds the transcript, its large payloads, the lock that the thread ran with, and your " +
				"signature of this machine's key. Others verify it with your public key: rye thread verify FILE " +
				"--key PUBKEY.\n\n" +
				"--recording NAME writes the conversation alone, without what differs from run to run, beside the " +
				"directive: .ai/directives/acme/_recordings/deploy/NAME.jsonl. rye test plays it.\n\n" +
				"Examples:\n\n" +
				"    rye thread export acme/deploy-1795000000-k3v9q -o deploy.tar.zst\n" +
				"    rye thread export acme/deploy-1795000000-k3v9q --recording site",
			New: func() cli.Runner { return new(exportRun) }, Schema: "thread-export/1", Output: exported{},
		},
	}
}
