package audits

import "github.com/rye-build/rye/cmd/rye/cli"

// Commands lists the commands of this package, in the order in which the help shows them.
func Commands() []cli.Command {
	return []cli.Command{
		{
			Path: "audit", Group: "run", Help: "Inspect and verify the log of calls.",
			Aka: []string{"log", "history", "journal"},
			More: "Each call is recorded before it begins, in audit/ of the state directory, and signed with a key of this machine. Your own key signs " +
				"the machine's key: automatically if it has no passphrase, otherwise with rye audit vouch. Parameters and results are recorded only as " +
				"digests.",
		},
		{
			Path: "audit list", Group: "run", Help: "List recorded calls.",
			More: "The most recent call comes first. An \"unfinished\" call is still running, or its process died and its outcome is unknown. " +
				"rye audit export prints everything recorded about every call.\n\nExamples:\n\n    rye audit list\n" +
				"    rye audit list --since 2h --status failed --status timeout\n    rye audit list --ref 'tool:acme/**' --last 10 --json",
			Aka: []string{"audit ls", "audit log"},
			New: func() cli.Runner { return new(auditListRun) }, Schema: "audit-list/1", Output: auditListAnswer{},
		},
		{
			Path: "audit show", Group: "run", Help: "Show everything recorded about a call.",
			More: "CALL is its id, a prefix of it, or SEGMENT/LINE, its position in the log. The log doesn't hold input and output, only the digests of " +
				"the parameters (without secrets) and of the result.\n\nExamples:\n\n    rye audit show 01k9\n    rye audit show 01k9 --json",
			Aka: []string{"audit cat", "audit inspect"},
			New: func() cli.Runner { return new(auditShowRun) }, Schema: "audit-show/1", Output: auditShowAnswer{},
		},
		{
			Path: "audit verify", Group: "run", Help: "Verify the audit log or receipts.",
			More: "Without RECEIPT it reads the whole log: each line must follow the one before, each segment must exist, and each checkpoint must be " +
				"signed by a trusted machine. It reports the first bad line of each file. A removed end of the log can't be detected: lines of a segment " +
				"after its last checkpoint, or lines of the head with all that they record. So save the printed head position elsewhere and pass it to a " +
				"later run: --seen takes the position, a file written by --json, or a receipt.\n\nA RECEIPT is verified with public keys alone: one of " +
				"them must have signed it, or the key of the machine that signed it. The receipts of nested calls are found by their digests in DIR: \"rye exec --receipt\" keeps them in this machine's.\n\n" +
				"The keys are your own and this machine's, or only those of --key. If anything is wrong, the exit status is 1.\n\nExamples:\n\n" +
				"    rye audit verify\n    rye audit verify --json > seen.json\n    rye audit verify --seen seen.json\n" +
				"    rye audit verify receipt.json --key alice.pem --receipts ./receipts",
			Aka: []string{"audit check"},
			New: func() cli.Runner { return new(auditVerifyRun) }, Schema: "audit-verify/1", Output: &auditVerified{},
		},
		{
			Path: "audit export", Group: "run", Help: "Export recorded calls as JSON lines.",
			More: "Each line is one call, in the order in which they ended, process by process; unfinished calls come last. Without --ref and " +
				"--status, the steps of requests for approvals and the questions of agents to registries follow. If a segment is damaged, the " +
				"rest of it is left out, the damage is reported, and the exit status is 1.\n\nExamples:\n\n" +
				"    rye audit export --since 2026-11-01 --until 2026-12-01 -o november.jsonl\n    rye audit export --status failed | head",
			Aka: []string{"audit dump"},
			New: func() cli.Runner {
				return new(auditExportRun)
			}, Schema: "audit-export/1", Output: auditExportAnswer{},
		},
		{
			Path: "audit stats", Group: "run", Help: "Count calls by item, outcome and duration.",
			More: "Examples:\n\n    rye audit stats --since 7d\n    rye audit stats --ref 'tool:acme/**' --json",
			Aka:  []string{"audit summary"},
			New:  func() cli.Runner { return new(auditStatsRun) }, Schema: "audit-stats/1", Output: auditStatsAnswer{},
		},
		{
			Path: "audit vulnerable", Group: "run", Help: "List past calls of what an advisory covers now.",
			More: "It compares the bundles that came from registries, as the log has them for each call, with the advisories " +
				"of these registries that rye trust update has read last. An advisory that was withdrawn doesn't count. If there " +
				"is a call, the exit status is 1.\n\nExamples:\n\n    rye trust update\n    rye audit vulnerable\n" +
				"    rye audit vulnerable --since 30d --json",
			New: func() cli.Runner { return new(auditVulnerableRun) }, Schema: "audit-vulnerable/1",
			Output: auditVulnerableAnswer{},
		},
		{
			Path: "audit prune", Group: "run", Help: "Remove old calls from the audit log.",
			More: "Removes whole segments in which nothing is later than --before. A segment holds the calls of one process. The log must be " +
				"verified, and --export must name a file that rye audit export has written and that holds every call to be removed. A line " +
				"that this machine signs names the segments and the export, so that rye audit verify still proves the rest and says what was " +
				"removed. Keep the export.\n\nExamples:\n\n    rye audit prune --before 2026-08-01 --dry-run\n" +
				"    rye audit export --until 2026-08-01 -o july.jsonl\n    rye audit prune --before 2026-08-01 --export july.jsonl",
			New: func() cli.Runner { return new(auditPruneRun) }, Schema: "audit-prune/1", Output: auditPruned{},
		},
		{
			Path: "audit vouch", Quiet: true, Group: "run", Help: "Sign this machine's key with your own.",
			More: "A key of this machine signs the log and receipts, so that signing needs no passphrase. Your own key signs the machine's key once. " +
				"Every receipt contains that signature, so others can verify receipts with your public key. If your key has no passphrase, this happens " +
				"when the first call is recorded. Otherwise use this command, also to change the key or the name, which is for people.\n\nExamples:\n\n" +
				"    rye audit vouch\n    rye audit vouch --key release --name build-7",
			Aka: []string{"audit enroll"},
			New: func() cli.Runner { return new(auditVouchRun) }, Schema: "audit-vouch/1", Output: auditVouchAnswer{},
		},
	}
}
