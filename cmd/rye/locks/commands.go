package locks

import (
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/lock/restore"
)

// Commands lists the commands of this package, in the order in which the help shows them.
func Commands() []cli.Command {
	return []cli.Command{
		{
			Path: "add", Quiet: true, Group: "lock", Help: "Add a bundle or an item to the project and lock it.",
			More: "All items of the bundle are locked with it; use: in rye.yaml narrows that. An item, given by " +
				"its ref, is added to roots: in rye.yaml.\n\n" +
				"A bundle has one source. --from names a project's directory, an archive, its https address, a " +
				"git repository at a branch, tag or commit, or a repository of an OCI registry (also given " +
				"instead of the id). --index names the address or directory of an index of versions (rye bundle " +
				"index). Without a range the bundle must be the newest version or a later compatible one. For a " +
				"bundle that is already in rye.yaml, this replaces its range or source.\n\n" +
				"An MCP server with skills, given as mcp+https://HOST/PATH, is asked for them: without WHAT they " +
				"are listed, and WHAT or --all adds them. rye checks each file, makes the items of rye import skill, " +
				"asks you, signs the items with your key and locks them.\n\n" +
				"A host, given as https://HOST without a path, is asked for its catalogue and its index of skills: " +
				"without WHAT they are listed, and WHAT is added in the way of its type. See rye docs sources.\n\n" +
				"Examples:\n\n" +
				"    rye add acme/base --index https://bundles.acme.example/index.yaml\n" +
				"    rye add acme/base@^2.1 --index ../bundles\n" +
				"    rye add acme/notes --from ../notes\n" +
				"    rye add acme/style --from git+https://git.acme.example/style.git@main\n" +
				"    rye add oci://registry.example.com/acme/notes\n" +
				"    rye add mcp+https://skills.acme.example/mcp pdf-forms\n" +
				"    rye add https://acme.example pdf-forms\n" +
				"    rye add tool:rye/web/webfetch",
			Aka: []string{"require", "get"},
			New: func() cli.Runner { return new(addRun) }, Schema: "add/1", Output: &changeAnswer{},
		},
		{
			Path: "remove", Quiet: true, Group: "lock", Help: "Remove bundles and roots from the project.",
			More: "It removes requirements, given by bundle ids, and roots, given by refs or globs, from " +
				"rye.yaml, and what only they needed from the lock. It is refused while another item uses one of " +
				"the bundle's items.\n\n" +
				"Examples:\n\n" +
				"    rye remove acme/base\n" +
				"    rye remove acme/base tool:acme/base/fetch\n" +
				"    rye remove acme/base --dry-run",
			Aka: []string{"drop", "unrequire", "uninstall"},
			New: func() cli.Runner { return new(removeRun) }, Schema: "remove/1", Output: &changeAnswer{},
		},
		{
			Path: "update", Quiet: true, Group: "lock",
			Help: "Update bundles to the newest versions that rye.yaml allows.",
			More: "Without a name it updates all of them, like rye lock --update. rye outdated lists newer " +
				"versions. For one that rye.yaml doesn't allow, change the range: rye add acme/base@^3.\n\n" +
				"--cooldown 7d leaves out versions that registries published within a week, so that others find first what is " +
				"wrong with them. Time counts from when you met the registry at the earliest: what it says of the time before " +
				"isn't proven. What is locked stays.\n\n" +
				"Examples:\n\n" +
				"    rye update\n" +
				"    rye update acme/base\n" +
				"    rye update --cooldown 7d\n" +
				"    rye update --dry-run",
			Aka: []string{"upgrade", "up"},
			New: func() cli.Runner { return new(updateRun) }, Schema: "lock/1", Output: &LockAnswer{},
		},
		{
			Path: "outdated", Group: "lock", Help: "List bundles that have newer versions.",
			More: "ALLOWED is the newest version that all ranges allow, which rye update uses; LATEST is the " +
				"newest of all. The exit status is 1 if there is anything to update.\n\n" +
				"Examples:\n\n" +
				"    rye outdated\n" +
				"    rye outdated --json",
			New: func() cli.Runner { return new(outdatedRun) }, Schema: "outdated/1", Output: outdatedAnswer{},
		},
		{
			Path: "lock", Quiet: true, Group: "lock", Help: "Pin every item that the project can reach.",
			More: "rye.yaml lists the project's requirements and roots. rye.lock pins the bytes: the version of " +
				"each bundle, and for each item its digest, signers, interface and permissions. Only what must " +
				"change is changed: versions stay unless --update names them. Every item must be valid and signed " +
				"as the policy requires.\n\n" +
				"rye refuses what would weaken the lock, and shows it: another signer, an older signature format, " +
				"wider grants, a higher risk, another source. --accept NAME allows it for one item or bundle.\n\n" +
				"--check, for pipelines, changes nothing, uses no network, and exits with 1 if the lock is out of " +
				"date; with --format sarif or markdown it writes a report (see rye docs ci). --resolve chooses " +
				"versions again, and repairs a lock with the conflict markers of a git merge. --sign REF signs " +
				"items first, as rye sign does. --sign alone signs items that this key signed before and that " +
				"have changed since: it shows the changes and asks.\n\n" +
				"Examples:\n\n" +
				"    rye lock\n" +
				"    rye lock --check\n" +
				"    rye lock --update acme/base\n" +
				"    rye lock --sign tool:acme/fetch\n" +
				"    rye lock --accept acme/base",
			Aka: []string{"freeze", "pin"},
			New: func() cli.Runner { return new(lockRun) }, Schema: "lock/1", Output: &LockAnswer{},
		},
		{
			Path: "diff", Group: "lock", Help: "Compare the project with its lock.",
			More: "Without arguments it compares the working tree with rye.lock, with a REF only that item. With " +
				"one file it compares that lock with the project's, with two files the first with the second. " +
				"Create such a file with git show main:rye.lock > old.lock. For items it shows changes of " +
				"parameters, permissions and text.\n\n" +
				"Examples:\n\n" +
				"    rye diff\n" +
				"    rye diff tool:acme/fetch\n" +
				"    rye diff old.lock\n" +
				"    rye diff old.lock new.lock --json",
			Aka: []string{"compare", "changes", "status"},
			New: func() cli.Runner { return new(diffRun) }, Schema: "diff/1", Output: &lockDiff{},
		},
		{
			Path: "vendor", Quiet: true, Group: "lock",
			Help: "Copy everything locked into .ai/vendor, to be committed.",
			More: "A clone with .ai/vendor needs no store, no network and no home directory, only a policy to " +
				"trust. There are few files, unchanged ones aren't rewritten, and two branches that both vendored " +
				"merge without a conflict. Missing objects are fetched first, as rye fetch does. --check changes " +
				"nothing, and exits with 1 if something is missing, damaged or not in the lock. Bundles from " +
				"registries have the proofs of their logs beside them, which both check.\n\n" +
				"Examples:\n\n" +
				"    rye vendor\n" +
				"    rye vendor --check\n" +
				"    git add .ai/vendor",
			New: func() cli.Runner {
				return new(vendorRun)
			}, Schema: "vendor/1", Output: VendorAnswer{VendorResult: &restore.VendorResult{}},
		},
		{
			Path: "fetch", Quiet: true, Group: "lock", Help: "Download everything that the lock names.",
			More: "Vendored objects come from .ai/vendor, bundles from the sources in the lock, and the project's " +
				"own items from the project. Everything is verified before it is stored. rye.yaml and rye.lock " +
				"stay unchanged.\n\n" +
				"Examples:\n\n" +
				"    rye fetch\n" +
				"    rye fetch --offline",
			Aka: []string{"download", "sync"},
			New: func() cli.Runner { return new(fetchRun) }, Schema: "fetch/1", Output: FetchAnswer{},
		},
		{
			Path: "restore", Quiet: true, Group: "lock", Help: "Restore items to their locked content.",
			More: "The bytes come from .ai/vendor or the store. All files of a tool are restored, or none. Other " +
				"files in its directory that aren't in the lock stay, and are reported. The previous content goes " +
				"into the store, and its digest is printed: rye store cat gets it back.\n\n" +
				"Examples:\n\n" +
				"    rye restore tool:acme/fetch\n" +
				"    rye restore '**' --dry-run",
			Aka: []string{"revert", "reset"},
			New: func() cli.Runner {
				return new(restoreRun)
			}, Schema: "restore/1", Output: restoreAnswer{RestoreResult: &restore.RestoreResult{}},
		},
	}
}
