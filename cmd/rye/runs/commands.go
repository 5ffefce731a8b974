package runs

import (
	"context"

	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/exec/primitive/function"
)

// Commands lists the commands of this package, in the order in which the help shows them. Tools may call functions.
// After rye run --write, lock brings the project's lock up to date.
func Commands(functions func(*cli.App) function.Functions,
	lock func(context.Context, *cli.App) (bool, error)) []cli.Command {
	return []cli.Command{
		{
			Path: "exec", Group: "run", Help: "Run a pinned tool in a sandbox.",
			More: "With a lock, rye runs the locked files and refuses a working tree that differs. rye diff shows " +
				"the difference, --pinned ignores the working tree, and --dev runs this one tool from the working " +
				"tree with the rights of an unsigned tool. Without a rye.yaml, the tool runs from .ai.\n\n" +
				"Give each parameter as -p NAME=VALUE, before or after the tool, or all of them as JSON with " +
				"--params. Words without -p are refused, also after --. rye exec REF --help lists the parameters " +
				"of a tool.\n\n" +
				"Every call is logged: rye audit list.\n\n" +
				"Examples:\n\n" +
				"    rye exec acme/fetch -p url=https://example.com -p retries=3\n" +
				"    rye exec acme/fetch --params @call.json --timeout 30s\n" +
				"    rye exec acme/fetch --help\n" +
				"    rye exec acme/fetch --dry-run\n" +
				"    rye exec acme/fetch --receipt call.receipt.json\n" +
				"    rye exec acme/watch --sink jsonl:events.jsonl",
			Aka: []string{"execute", "x", "call", "start"},
			New: func() cli.Runner { return new(execRun) }, Schema: "exec/1", Output: execAnswer{},
			Functions: functions,
		},
		{
			Path: "run", Group: "run", Help: "Run a directive with a model, or a state graph.",
			More: "The model follows the directive under its permissions and limits, and may use only what is " +
				"pinned. Everything that happens is recorded in a signed transcript below .ai/threads.\n\n" +
				"--model takes a tier (fast, general, high, max), a model, PROVIDER/MODEL, or replay:THREAD, " +
				"which takes the model's answers from a recorded thread: its id, an export or a recording. Set " +
				"the key of a provider with rye auth set.\n\n" +
				"--write takes the file that a directive returns, such as rye/agent/create_tool: it shows the " +
				"file, asks, writes it and signs it, as rye new does.\n\n" +
				"rye run tool:ID runs a state graph, which has no model: rye docs graphs.\n\n" +
				"Examples:\n\n" +
				"    rye run acme/review -i topic=parser\n" +
				"    rye run acme/review --limit turns=5 --limit spend=0.10\n" +
				"    rye run acme/review -i topic=parser --async\n" +
				"    rye run acme/review --model high --json\n" +
				"    rye run rye/agent/create_tool -i id=acme/count -i purpose=wordcount --write",
			New: func() cli.Runner { return &runRun{lock: lock} }, Schema: "run/2", Output: runAnswer{},
		},
		{
			Path: "test", Group: "run", Help: "Run the examples of tools and the recordings of directives.",
			More: "A tool lists its examples, calls with their expected results, under examples: (rye docs " +
				"tool-format). rye makes each call like rye exec: pinned by the lock, in the sandbox, and logged. " +
				"Only the project is a temporary one with the example's files.\n\n" +
				"Recordings lie beside a directive (rye docs transcripts). rye runs the directive again from " +
				"each, without a model and without executing anything, and compares every event.\n\n" +
				"Without arguments it tests all tools and directives of the project. If anything fails, the exit " +
				"status is 1.\n\n" +
				"Examples:\n\n" +
				"    rye test\n" +
				"    rye test tool:acme/fetch\n" +
				"    rye test directive:acme/review\n" +
				"    rye test 'tool:acme/**' -j 1\n" +
				"    rye test tool:acme/fetch --dev",
			New: func() cli.Runner { return new(testRun) }, Schema: "test/1", Output: &testAnswer{},
		},
	}
}

// ThreadCommands lists the commands below "rye thread" that run something.
func ThreadCommands() []cli.Command {
	return []cli.Command{
		{
			Path: "thread resume", Group: "run", Help: "Continue a thread, or an ended one with a message.",
			More: "The thread continues at the exact turn: what happened is taken from its transcript, and " +
				"nothing is done twice. A tool call that was running when the process died is repeated only if " +
				"the tool just reads; otherwise the model learns that the outcome is unknown.\n\n" +
				"A thread that reached a limit needs a higher one.\n\n" +
				"A thread that has ended is continued with --message: a new thread begins with what was said, and " +
				"with TEXT. It may do at most what the old one could, and has what is left of its limits.\n\n" +
				"Examples:\n\n" +
				"    rye thread resume acme/deploy-1795000000-k3v9q\n" +
				"    rye thread resume acme/deploy-1795000000-k3v9q --limit turns=40 \\\n        --limit spend=2\n" +
				"    rye thread resume acme/deploy-1795000000-k3v9q \\\n        --message \"Now do the same for staging.\"",
			Aka: []string{"thread continue"},
			New: func() cli.Runner { return new(resumeRun) }, Schema: "thread-resume/2", Output: runAnswer{},
		},
		{
			Path: "thread handoff", Group: "run", Help: "Hand the work of a thread over to a new one.",
			More: "The new thread begins with a summary of what was done and the last turns, as when a thread has " +
				"filled its context window. An interrupted thread becomes continued; one that has ended keeps its " +
				"state. The new thread may do at most what the old one could, and has what is left of its limits. " +
				"--message says what to do next.\n\n" +
				"Examples:\n\n" +
				"    rye thread handoff acme/deploy-1795000000-k3v9q\n" +
				"    rye thread handoff acme/deploy-1795000000-k3v9q \\\n        --message \"Only the tests are left.\"",
			New: func() cli.Runner { return new(handoffRun) }, Schema: "thread-handoff/2", Output: runAnswer{},
		},
		{
			Path: "thread replay", Group: "run", Help: "Run a thread again from its record and compare.",
			More: "The directive, the loop and the configuration are those of now. Answers of the model and " +
				"results of tools come from the record, nothing is executed, and nothing is written. Every event " +
				"is compared, but for times, ids and signatures. The first that differs is shown with its turn, " +
				"and the exit status is 1.\n\n" +
				"Examples:\n\n" +
				"    rye thread replay acme/deploy-1795000000-k3v9q\n" +
				"    rye thread replay deploy.tar.zst",
			New: func() cli.Runner { return new(replayRun) }, Schema: "thread-replay/1", Output: replayAnswer{},
		},
	}
}
