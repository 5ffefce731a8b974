package registries

import "github.com/rye-build/rye/cmd/rye/cli"

// Commands lists the commands of this package, in the order in which the help shows them.
func Commands() []cli.Command {
	return []cli.Command{
		{
			Path: "publish", Quiet: true, Group: "registry", Help: "Publish a bundle or an item at a registry.",
			More: "It writes the bundle's archive, verifies it as the registry will, shows what would be sent, and asks " +
				"(--yes in a pipeline). A version never changes: publish the next one instead, or yank this one. The " +
				"account must own the namespace, the first segment of the id (rye owner claim).\n\nOf an item (a " +
				"ref) it makes a bundle of the item and its other files, with the item's version, and signs it. Its id " +
				"is the item's, or that of --as. See rye docs registry.\n\nExamples:\n\n" +
				"    rye publish --registry https://registry.example.com\n" +
				"    rye publish acme/base --dry-run\n" +
				"    rye publish tool:acme/fetch\n" +
				"    rye publish acme/base --stage\n" +
				"    rye --yes publish acme-base-1.2.0.tar.zst",
			Aka: []string{"upload"},
			New: func() cli.Runner { return new(publishRun) }, Schema: "publish/1", Output: published{},
		},
		{
			Path: "yank", Quiet: true, Group: "registry", Help: "Withdraw a version from new locks.",
			More: "No lock takes the version anew. Locks that have it still fetch it, so nothing that runs breaks.\n\n" +
				"Examples:\n\n    rye yank acme/base@1.2.0",
			Aka: []string{"deprecate", "retract"},
			New: func() cli.Runner { return new(yankRun) }, Schema: "yank/1", Output: withdrawn{},
		},
		{
			Path: "unpublish", Quiet: true, Group: "registry", Help: "Remove a version within a day.",
			More: "Within 24 hours, and if no other published bundle requires it, the registry removes the archive. The " +
				"version's number is never given again, and the log keeps that it was there. Later, yank it.\n\n" +
				"Examples:\n\n    rye unpublish acme/base@1.2.0",
			New: func() cli.Runner { return new(unpublishRun) }, Schema: "unpublish/1", Output: withdrawn{},
		},
		{Path: "owner", Group: "registry", Help: "Manage who publishes in a namespace."},
		{
			Path: "owner claim", Group: "registry", Help: "Become the owner of a namespace.",
			More: "A name that is easily mistaken for one of another owner is refused. A namespace that is private from " +
				"the start leaves nothing in the public log, not even its name (rye docs registry-private).\n\n" +
				"Examples:\n\n    rye owner claim acme --registry https://registry.example.com\n" +
				"    rye owner claim acme --visibility private",
			New: func() cli.Runner { return new(ownerClaimRun) }, Schema: "owner-claim/1", Output: ownersAnswer{},
		},
		{
			Path: "owner list", Group: "registry", Help: "List the owners of a namespace.",
			More: "Examples:\n\n    rye owner list acme",
			New:  func() cli.Runner { return new(ownerListRun) }, Schema: "owner-list/1", Output: ownersAnswer{},
		},
		{
			Path: "owner add", Group: "registry", Help: "Add an account to a namespace's owners.",
			More: "Examples:\n\n    rye owner add acme grace",
			New:  func() cli.Runner { return new(ownerAddRun) }, Schema: "owner-add/1", Output: ownersAnswer{},
		},
		{
			Path: "owner remove", Group: "registry", Help: "Remove an account from a namespace's owners.",
			More: "A namespace keeps one owner.\n\nExamples:\n\n    rye owner remove acme grace",
			New:  func() cli.Runner { return new(ownerRemoveRun) }, Schema: "owner-remove/1", Output: ownersAnswer{},
		},
		{
			Path: "owner transfer", Group: "registry", Help: "Give a namespace to another account.",
			More: "The account becomes an owner in your place, in one step. Other owners stay.\n\n" +
				"Examples:\n\n    rye owner transfer acme grace",
			New: func() cli.Runner { return new(ownerTransferRun) }, Schema: "owner-transfer/1",
			Output: ownersAnswer{},
		},
		{
			Path: "owner set", Group: "registry", Help: "Set who must agree to a release, and who may read it.",
			More: "With --approvals K, nothing in the namespace is published or changed before K other owners have " +
				"approved it (rye release approve): no version, no owner, and not K itself. There must be at least one " +
				"owner more.\n\nWith --trusted-only, a bundle is published by its pipelines alone (rye owner publisher).\n\n" +
				"Examples:\n\n    rye owner set acme --approvals 2\n    rye owner set acme/base --trusted-only",
			New: func() cli.Runner { return new(ownerSetRun) }, Schema: "owner-set/1", Output: ownersAnswer{},
		},
		{Path: "owner publisher", Group: "registry", Help: "Manage the pipelines that publish a bundle."},
		{
			Path: "owner publisher add", Group: "registry", Help: "Let a pipeline publish a bundle.",
			More: "Its runs show the registry a token of their issuer (OpenID Connect), so no token of yours lies in the " +
				"pipeline. Repository and owner count by their ids, which never change hands. Name a protected " +
				"environment or a ref: otherwise anyone who may push a branch would publish. Runs for pull and merge " +
				"requests never count. A bundle without a version waits for it for 30 days; that reserves nothing.\n\n" +
				"Examples:\n\n    rye owner publisher add acme/base --environment release \\\n" +
				"        --issuer https://token.actions.githubusercontent.com \\\n" +
				"        --repository acme/base --repository-id 1234 --owner-id 56 \\\n" +
				"        --workflow .github/workflows/release.yml",
			New: func() cli.Runner { return new(publisherAddRun) }, Schema: "owner-publisher-add/1",
			Output: publisherAnswer{},
		},
		{
			Path: "owner publisher list", Group: "registry", Help: "List the pipelines that publish a bundle.",
			More: "Examples:\n\n    rye owner publisher list acme/base",
			New:  func() cli.Runner { return new(publisherListRun) }, Schema: "owner-publisher-list/1",
			Output: publisherList{},
		},
		{
			Path: "owner publisher remove", Group: "registry", Help: "End what lets a pipeline publish.",
			More: "The tokens of its runs end, too.\n\nExamples:\n\n    rye owner publisher remove acme/base 3f2a91c07d5e",
			New:  func() cli.Runner { return new(publisherRemoveRun) }, Schema: "owner-publisher-remove/1",
			Output: publisherAnswer{},
		},
		{Path: "release", Group: "registry", Help: "Approve what is staged at a registry."},
		{
			Path: "release list", Group: "registry", Help: "List what waits for approval.",
			More: "Examples:\n\n    rye release list --registry https://registry.example.com",
			New:  func() cli.Runner { return new(releaseListRun) }, Schema: "release-list/1", Output: releaseList{},
		},
		{
			Path: "release show", Group: "registry", Help: "Show what is staged, and who has approved it.",
			More: "Examples:\n\n    rye release show s4m2kq7tzbvh",
			New:  func() cli.Runner { return new(releaseShowRun) }, Schema: "release-show/1", Output: releaseAnswer{},
		},
		{
			Path: "release approve", Group: "registry", Help: "Approve what is staged.",
			More: "It shows what would be released or changed, and asks. The approval is for these bytes: if something " +
				"else is staged meanwhile, it doesn't count. The last approval that is needed releases all versions at " +
				"once.\n\nWith --sign, it first verifies each archive and adds a signature of your key. The manifest " +
				"stays the same, so no pin changes; earlier approvals don't count any more.\n\nExamples:\n\n" +
				"    rye release approve s4m2kq7tzbvh\n    rye release approve s4m2kq7tzbvh --sign",
			New: func() cli.Runner { return new(releaseApproveRun) }, Schema: "release-approve/1",
			Output: releaseAnswer{},
		},
		{
			Path: "release reject", Quiet: true, Group: "registry", Help: "End what is staged.",
			More: "Examples:\n\n    rye release reject s4m2kq7tzbvh",
			New:  func() cli.Runner { return new(releaseRejectRun) }, Schema: "release-reject/1",
			Output: releaseRejected{},
		},
		{
			Path: "info", Group: "registry", Help: "Show a bundle's versions and owners at a registry.",
			More: "It shows the registry's word. What a lock believes is proven by the registry's log.\n\n" +
				"Examples:\n\n    rye info acme/base",
			Aka: []string{"versions"},
			New: func() cli.Runner { return new(infoRun) }, Schema: "info/1", Output: infoAnswer{},
		},
		{
			Path: "login", Quiet: true, Group: "registry", Help: "Log in at a registry, and keep the token.",
			More: "On a terminal it shows a code. Open the registry's page in a browser, on any machine, sign in with a " +
				"passkey, type the code, check what is asked for, and allow it. Without a terminal it reads a token " +
				"from standard input. It keeps the token where secrets are (rye docs secrets). A pipeline sets " +
				"RYE_REGISTRY_TOKEN instead.\n\nExamples:\n\n" +
				"    rye login https://registry.example.com\n" +
				"    rye login https://registry.example.com --scope publish --names 'acme/**'\n" +
				"    rye login https://registry.example.com < token.txt",
			New: func() cli.Runner { return new(loginRun) }, Schema: "login/1", Output: loggedIn{},
		},
		{
			Path: "logout", Quiet: true, Group: "registry", Help: "End a token and forget it.",
			More: "Examples:\n\n    rye logout https://registry.example.com",
			New:  func() cli.Runner { return new(logoutRun) }, Schema: "logout/1", Output: loggedOut{},
		},
		{
			Path: "whoami", Group: "registry", Help: "Show the account of a registry's token.",
			More: "Examples:\n\n    rye whoami --registry https://registry.example.com",
			New:  func() cli.Runner { return new(whoamiRun) }, Schema: "whoami/1", Output: loggedIn{},
		},
		{Path: "registry", Group: "registry", Help: "Manage an account's tokens at a registry."},
		{Path: "registry token", Group: "registry", Help: "Manage an account's tokens at a registry."},
		{
			Path: "registry token add", Group: "registry", Help: "Create a token of the account and show it once.",
			More: "It needs a token that rye login got in a browser, with the scope owner, and the new one never does " +
				"or lasts more. For a pipeline that lives longer, log in with --life. rye logout leaves the tokens " +
				"that were made.\n\nExamples:\n\n" +
				"    rye registry token add --label ci --names 'acme/**'",
			New: func() cli.Runner { return new(tokenAddRun) }, Schema: "registry-token-add/1", Output: tokenAdded{},
		},
		{
			Path: "registry token list", Group: "registry", Help: "List the tokens of the account.",
			More: "It never shows a token itself.\n\nExamples:\n\n" +
				"    rye registry token list --registry https://registry.example.com",
			New: func() cli.Runner { return new(tokenListRun) }, Schema: "registry-token-list/1", Output: tokenList{},
		},
		{
			Path: "registry token remove", Quiet: true, Group: "registry", Help: "End a token of the account.",
			More: "Examples:\n\n    rye registry token remove 9e043480308e",
			New:  func() cli.Runner { return new(tokenRemoveRun) }, Schema: "registry-token-remove/1",
			Output: tokenRemoved{},
		},
	}
}
