package trusts

import (
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
)

// Commands lists the commands of this package, in the order in which the help shows them.
func Commands() []cli.Command {
	return []cli.Command{
		{
			Path: "key", Group: "trust", Help: "Manage signing keys.",
			Aka: []string{"keys"},
			More: "Keys are in keys/ of the user space, readable only by you. rye signs with --key NAME, else " +
				cli.EnvKey +
				" (PEM, with " + cli.EnvPassphrase +
				"), else the default key. The policy says which keys are trusted: see rye trust.",
		},
		{
			Path: "key new", Quiet: true, Group: "trust", Help: "Create a key.",
			More: "The first key is trusted in your policy for the names ** except rye/**. If the key exists but " +
				"the policy doesn't, only the policy is created. Later keys may sign nothing until you run rye " +
				"trust add. --passphrase protects the file with " +
				cli.EnvPassphrase + ", or asks for a passphrase.\n\n" +
				"Examples:\n\n" +
				"    rye key new\n" +
				"    rye key new --owner 'Acme Ltd'\n" +
				"    rye key new release --passphrase",
			Aka: []string{"key create", "key generate", "keygen"},
			New: func() cli.Runner { return new(KeyNewRun) }, Schema: "key-new/1", Output: KeyNewAnswer{},
		},
		{
			Path: "key list", Group: "trust", Help: "List your keys.",
			More: "* marks the key that signs by default.\n\nExamples:\n\n    rye key list\n    rye key list --json",
			Aka:  []string{"key ls"},
			New:  func() cli.Runner { return new(keyListRun) }, Schema: "key-list/1", Output: KeyListAnswer{},
		},
		{
			Path: "key show", Group: "trust", Help: "Show a key's public half, fingerprint and names.",
			More: "Without NAME it shows the key that signs. Others trust the public half with rye trust add.\n\n" +
				"Examples:\n\n" +
				"    rye key show\n" +
				"    rye key show release --json",
			Aka: []string{"key fingerprint", "key info"},
			New: func() cli.Runner { return new(keyShowRun) }, Schema: "key-show/1", Output: keyShowAnswer{},
		},
		{
			Path: "key export", Group: "trust", Help: "Print a public key, or write a private key to a file.",
			More: "The public key goes to standard output as PEM, for others to trust. --private asks first and " +
				"then writes the private key to FILE, which must not exist; only you can read it. A key with a " +
				"passphrase keeps it.\n\n" +
				"Examples:\n\n" +
				"    rye key export > alice.pem\n" +
				"    rye key export release --private backup.pem",
			New: func() cli.Runner { return new(keyExportRun) }, Schema: "key-export/1", Output: keyExportAnswer{},
		},
		{
			Path: "key import", Quiet: true, Group: "trust", Help: "Import a private key.",
			More: "FILE is a private key (PEM, PKCS#8, Ed25519), with or without a passphrase; \"-\" is standard " +
				"input. A passphrase stays the same, and --passphrase adds one to a key without. To trust another " +
				"person's public key, use rye trust add.\n\n" +
				"Examples:\n\n" +
				"    rye key import backup.pem\n" +
				"    rye key import backup.pem release --passphrase",
			Aka: []string{"key add"},
			New: func() cli.Runner { return new(keyImportRun) }, Schema: "key-import/1", Output: keyShowAnswer{},
		},
		{
			Path: "key rotate", Quiet: true, Group: "trust",
			Help: "Create a key to replace an old one, with a rotation document.",
			More: "Both keys sign the document, which changes nothing by itself. Everyone who trusts the old key, " +
				"you included, runs rye trust add --rotation FILE within 90 days. If the rule requires more " +
				"signatures, the owners of the other keys sign the document too: rye sign FILE --as " +
				"rotation:RULE. The old key stays until rye key remove.\n\n" +
				"Examples:\n\n" +
				"    rye key rotate\n" +
				"    rye key rotate release --rule 'acme/**' --out rotation.yaml",
			New: func() cli.Runner { return new(keyRotateRun) }, Schema: "key-rotate/1", Output: keyRotateAnswer{},
		},
		{
			Path: "key remove", Quiet: true, Group: "trust", Help: "Delete a key.",
			More: "It asks first. Without a copy the key can never sign again. Its signatures stay valid, and the " +
				"policy stays unchanged.\n\n" +
				"Examples:\n\n" +
				"    rye key remove old\n" +
				"    rye key remove old --yes",
			Aka: []string{"key rm", "key delete"},
			New: func() cli.Runner { return new(keyRemoveRun) }, Schema: "key-remove/1", Output: keyShowAnswer{},
		},
		{
			Path: "trust", Group: "trust", Help: "Manage trusted keys and the names they may sign.",
			Aka: []string{"policy"},
			More: "The policy is policy.yaml in the user space, or the file that --trust names for one command. " +
				"The project's own policy, .ai/policy.yaml, can forbid but never allow. " + cli.EnvTrust +
				"=blake3:… uses it instead of yours, if it has this id.\n\n" +
				"Commands that change a policy show the difference, ask, and keep comments.",
		},
		{
			Path: "trust add", Quiet: true, Group: "trust", Help: "Trust a key, or apply a key rotation.",
			More: "KEY is a public key: a PEM file, \"-\" for standard input, or its 43 characters. Compare the " +
				"fingerprint with its owner over another channel than the one the key came by.\n\n" +
				"--names says which names the key may sign, as in 'acme/**' or 'tool:acme/*'; without it the key " +
				"may sign nothing. If a rule for these names exists, the key is added to it. A key in the policy " +
				"is given by its name, without --owner, to add names or to change --expires. --from takes a " +
				"signer's key from a bundle's archive.\n\n" +
				"Exactly one rule decides about a name: the most specific one. So a new rule takes its names away " +
				"from other keys; rye warns if your own keys lose some.\n\n" +
				"--rotation applies a rotation document, which the old keys and the new one signed (rye key " +
				"rotate). That of a registry's log changes the key in rye.yaml, once the log has shown that it " +
				"continues.\n\n" +
				"Examples:\n\n" +
				"    rye trust add alice.pem --owner 'Alice <alice@acme.example>' \\\n        --names 'acme/**'\n" +
				"    rye trust add default --names 'acme/**' --threshold 2\n" +
				"    rye trust add alice --expires 2028-01-31\n" +
				"    rye trust add --rotation rotation.yaml",
			Aka: []string{"trust import", "trust key"},
			New: func() cli.Runner { return new(trustAddRun) }, Schema: "trust-change/1", Output: paths.TrustChange{},
		},
		{
			Path: "trust list", Group: "trust", Help: "Show trusted keys, revocations and execution rules.",
			More: "Examples:\n\n    rye trust list\n    rye trust list --json\n    rye --trust team.yaml trust list",
			Aka:  []string{"trust ls", "trust show"},
			New:  func() cli.Runner { return new(trustListRun) }, Schema: "trust-list/1", Output: TrustListAnswer{},
		},
		{
			Path: "trust revoke", Quiet: true, Group: "trust", Help: "Revoke a key or a digest.",
			More: "Give a key by its name in the policy, its fingerprint or the first digits of it, or the key " +
				"itself. Give a digest (blake3:…) of a file, with or without its signatures, of a tree or of a " +
				"document. From then on it is refused, whatever the policy says elsewhere and whenever it was " +
				"signed.\n\n" +
				"Examples:\n\n" +
				"    rye trust revoke alice --reason 'laptop stolen'\n" +
				"    rye trust revoke blake3:… --reason 'deletes the home directory'",
			New: func() cli.Runner {
				return new(trustRevokeRun)
			}, Schema: "trust-change/1", Output: paths.TrustChange{},
		},
		{
			Path: "trust remove", Quiet: true, Group: "trust", Help: "Remove a key or another entry from the policy.",
			More: "Removing a key also removes it from the rules that name it. If a rule then couldn't reach its " +
				"threshold, remove or change the rule first. A removed key is unknown, not revoked: see rye trust " +
				"revoke. When a rule is removed, the next most specific one decides.\n\n" +
				"Examples:\n\n" +
				"    rye trust remove alice\n" +
				"    rye trust remove --from names 'acme/**'",
			Aka: []string{"trust rm", "trust delete"},
			New: func() cli.Runner {
				return new(trustRemoveRun)
			}, Schema: "trust-change/1", Output: paths.TrustChange{},
		},
		{
			Path: "trust update", Quiet: true, Group: "trust",
			Help: "Update the revocation lists and advisories that the policy names.",
			More: "An issue is accepted if the key that the policy names signed it, and it is fresh and not older " +
				"than the previous one. rye keeps the last good issue. When that is older than max-age, " +
				"everything is refused, unless the policy says stale: warn.\n\n" +
				"Lists come from https addresses and files; paths are relative to the policy's directory. --from " +
				"FILE reads one that you downloaded yourself. If only the project's policy names a list, rye " +
				"doesn't fetch it from this machine or a private network.\n\n" +
				"The advisories of the registries under \"advisories\" are read and kept in the same way: their list is " +
				"signed by the registry's key in rye.yaml, and the registry's log has each of them.\n\n" +
				"Examples:\n\n" +
				"    rye trust update\n" +
				"    rye trust update acme --from revoked.yaml",
			Aka: []string{"trust refresh", "trust fetch"},
			New: func() cli.Runner {
				return new(trustUpdateRun)
			}, Schema: "trust-update/1", Output: trustUpdateAnswer{},
		},
	}
}
