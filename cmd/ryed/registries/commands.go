package registries

import "github.com/rye-build/rye/cmd/rye/cli"

// Commands lists the commands of this package, in the order in which the help shows them.
func Commands() []cli.Command {
	return []cli.Command{
		{Path: "registry", Group: "registry", Help: "Serve a registry of bundles, and manage its accounts."},
		{
			Path: "registry serve", Group: "registry", Help: "Serve a registry of bundles.",
			More: "The data directory holds everything: accounts, versions, the log, archives and the private keys. The " +
				"first start makes it and needs --name, which never changes. Back it up: a registry that loses its log " +
				"can't go on under the same name.\n\n" +
				"Only this machine can connect, unless there is a certificate (--tls-cert, --tls-key) or a proxy that " +
				"has one (--behind-proxy). With --json, one line says where the server listens and which keys clients " +
				"will see.\n\nWith --database and --objects several processes serve one registry: what changes is in " +
				"PostgreSQL, files are in a bucket, and each process has the same keys in its data directory.\n\nExamples:\n\n" +
				"    ryed registry serve --data /srv/registry --name registry.example.com --behind-proxy\n" +
				"    ryed registry serve --data /srv/registry --database postgres://ryed@db/registry " +
				"--objects s3://s3.example.com/registry\n" +
				"    ryed registry serve --data ./registry --name localhost --listen 127.0.0.1:0 --json",
			New: func() cli.Runner { return new(serveRun) }, Schema: "registry-serve/1", Output: listening{},
		},
		{
			Path: "registry verify", Group: "registry", Help: "Compare a registry's files with its rows.",
			More: "It makes the log and the indexes again from the rows, reads every archive, and names what differs. " +
				"It exits 1 if something does.\n\nExamples:\n\n    ryed registry verify --data /srv/registry",
			New: func() cli.Runner { return new(verifyRun) }, Schema: "registry-verify/1", Output: verified{},
		},
		{
			Path: "registry mirror", Group: "registry", Help: "Copy what clients read to a directory.",
			More: "Any web server can serve the directory, and clients verify it as they do the registry. Run it again " +
				"to bring the copy up to date.\n\nExamples:\n\n" +
				"    ryed registry mirror /srv/www/registry --data /srv/registry",
			New: func() cli.Runner { return new(mirrorRun) }, Schema: "registry-mirror/1", Output: mirrored{},
		},
		{
			Path: "registry backup", Group: "registry", Help: "Copy what can't be made again to a directory.",
			More: "The rows are those of one moment, and each archive is compared with its digest while it is copied; " +
				"the registry may be served meanwhile. Run it again to bring the copy up to date: archives that are " +
				"there aren't copied again. The copy has the private keys unless --without-keys is given.\n\n" +
				"It exits 1 if the registry has lost something that its rows name.\n\nExamples:\n\n" +
				"    ryed registry backup /backup/registry --data /srv/registry\n" +
				"    ryed registry backup /backup/registry --data /srv/registry --without-keys",
			New: func() cli.Runner { return new(backupRun) }, Schema: "registry-backup/1", Output: backedUp{},
		},
		{
			Path: "registry restore", Group: "registry", Help: "Make a registry from a backup, in an empty place.",
			More: "The log, the proofs and the indexes are made again from the backup's rows, under the checkpoint that " +
				"it has. The registry serves them, and signs nothing new until it knows that nothing newer was ever " +
				"shown: all its witnesses say so, or you give the newest checkpoint that a mirror or a client has " +
				"(--seen: the file log/checkpoint of a mirror, or a .tlog-proof). If a newer one exists, its entries " +
				"are lost: restore a newer backup, or begin a new log.\n\nA restore that was interrupted goes on when " +
				"it is made again.\n\nExamples:\n\n" +
				"    ryed registry restore /srv/registry --from /backup/registry --seen /mirror/log/checkpoint\n" +
				"    ryed registry restore /srv/registry --seen acme.tlog-proof\n" +
				"    ryed registry restore /srv/registry --from /backup/registry --new-log --name registry2.example.com",
			New: func() cli.Runner { return new(restoreRun) }, Schema: "registry-restore/1", Output: restored{},
		},
		{
			Path: "registry rotate", Group: "registry", Help: "Replace the key of a registry's log.",
			More: "Stop every process that serves the registry first. The log goes on: its entries stay, and the new key " +
				"signs from then on. Clients see an alarm until a person follows the rotation, a document that both " +
				"keys have signed. With --database, copy keys/log.pem to the data directory of each process.\n\n" +
				"After an interruption, run it again, or serve the registry.\n\nExamples:\n\n" +
				"    ryed registry rotate --data /srv/registry",
			New: func() cli.Runner { return new(rotateRun) }, Schema: "registry-rotate/1", Output: rotated{},
		},
		{
			Path: "registry audit", Group: "registry", Help: "List who published and changed what.",
			More: "It shows the entries of the log, which everybody can read, and what happened to accounts and tokens, " +
				"which only the host sees.\n\nExamples:\n\n" +
				"    ryed registry audit --data /srv/registry --since 7d\n" +
				"    ryed registry audit --data /srv/registry --account ada --json\n" +
				"    ryed registry audit --data /srv/registry --of acme/base",
			New: func() cli.Runner { return new(auditRun) }, Schema: "registry-audit/1", Output: audited{},
		},
		{Path: "registry advisory", Group: "registry", Help: "Manage the advisories of a registry."},
		{
			Path: "registry advisory add", Group: "registry",
			Help: "Add or revise an advisory about versions of a bundle.",
			More: "FILE is a document in OSV's format about one bundle, with ecosystem \"rye\"; the flags replace what it says, " +
				"or describe the advisory without it. The registry sets its times and, if it has none, its id. An id that exists " +
				"is revised.\n\nEach advisory is an entry of the log, and stands in the signed list that clients read with rye " +
				"trust update. It only refuses: from which severity is said by a client's policy.\n\nExamples:\n\n" +
				"    ryed registry advisory add --data /srv/registry --bundle acme/base --versions '<1.4.2' --severity high " +
				"--kind vulnerable --summary 'Templates run what they read'\n" +
				"    ryed registry advisory add advisory.json --data /srv/registry",
			New: func() cli.Runner { return new(advisoryAddRun) }, Schema: "registry-advisory/1",
			Output: advisoryAnswer{},
		},
		{
			Path: "registry advisory list", Group: "registry", Help: "List the advisories of a registry.",
			More: "Examples:\n\n    ryed registry advisory list --data /srv/registry",
			New:  func() cli.Runner { return new(advisoryListRun) }, Schema: "registry-advisory-list/1",
			Output: advisoryListAnswer{},
		},
		{
			Path: "registry advisory withdraw", Group: "registry",
			Help: "Withdraw an advisory, so that it counts no more.",
			More: "It stays in the list, with the time at which it was withdrawn.\n\nExamples:\n\n" +
				"    ryed registry advisory withdraw RYE-2026-0001 --data /srv/registry",
			New: func() cli.Runner { return new(advisoryWithdrawRun) }, Schema: "registry-advisory/1",
			Output: advisoryAnswer{},
		},
		{
			Path: "registry takedown", Group: "registry", Help: "Remove a version for secrets or malware.",
			More: "Its archive is removed, whenever it was published and whatever requires it; its number is never given again. " +
				"The log keeps that it was there, and an advisory says why it is gone.\n\nExamples:\n\n" +
				"    ryed registry takedown acme/base@1.4.0 --reason malware --data /srv/registry",
			New: func() cli.Runner { return new(takedownRun) }, Schema: "registry-advisory/1",
			Output: advisoryAnswer{},
		},
		{Path: "registry account", Group: "registry", Help: "Manage the accounts of a registry."},
		{
			Path: "registry account add", Quiet: true, Group: "registry", Help: "Add an account.",
			More: "Examples:\n\n    ryed registry account add ada --data /srv/registry",
			New:  func() cli.Runner { return new(accountAddRun) }, Schema: "registry-account-add/1",
			Output: accountAnswer{},
		},
		{
			Path: "registry account invite", Group: "registry", Help: "Print a link that makes a passkey for an account.",
			More: "The link counts once, for an hour, and replaces an earlier one. Passkeys that the account has stay: " +
				"it may have several. There are no passwords.\n\nExamples:\n\n" +
				"    ryed registry account invite ada --data /srv/registry",
			New: func() cli.Runner { return new(accountInviteRun) }, Schema: "registry-account-invite/1",
			Output: linkAnswer{},
		},
		{
			Path: "registry account reset", Group: "registry", Help: "Remove an account's passkeys, sessions and tokens.",
			More: "It prints a link for a new passkey, as invite does. This is the only recovery for a person who has " +
				"lost all passkeys, and what to do when one was stolen. What the account published stays.\n\n" +
				"Examples:\n\n    ryed registry account reset ada --data /srv/registry",
			New: func() cli.Runner { return new(accountResetRun) }, Schema: "registry-account-reset/1",
			Output: linkAnswer{},
		},
		{
			Path: "registry account disable", Quiet: true, Group: "registry", Help: "End an account's tokens.",
			More: "Its sessions and links end, too. What it published stays.\n\nExamples:\n\n    ryed registry account disable ada --data /srv/registry",
			New:  func() cli.Runner { return new(accountDisableRun) }, Schema: "registry-account-disable/1",
			Output: accountAnswer{},
		},
		{Path: "registry token", Group: "registry", Help: "Manage the tokens of a registry's accounts."},
		{
			Path: "registry token add", Group: "registry", Help: "Create a token of an account and show it once.",
			More: "The account keeps it with rye login, or a pipeline in RYE_REGISTRY_TOKEN. The registry keeps its " +
				"digest.\n\nExamples:\n\n" +
				"    ryed registry token add ada --data /srv/registry --scope owner --scope publish\n" +
				"    ryed registry token add ci --data /srv/registry --names 'acme/**' --life 720h",
			New: func() cli.Runner { return new(tokenAddRun) }, Schema: "registry-token-add/1", Output: tokenAdded{},
		},
	}
}
