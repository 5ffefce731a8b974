package bundles

import "github.com/rye-build/rye/cmd/rye/cli"

// Commands lists the commands of this package, in the order in which the help shows them.
func Commands() []cli.Command {
	return []cli.Command{
		{
			Path: "bundle", Group: "bundles", Help: "Create, verify and exchange bundles.",
			Aka: []string{"bundles", "package", "packages"},
			More: "A bundle is a signed list of files. bundle.yaml says which files belong to it. rye bundle create signs the list and writes it to " +
				".ai/bundles/ID/manifest.yaml, which you commit; rye bundle export writes everything to one file. Users verify it with a policy, or with " +
				"its signers' keys.\n\nA BUNDLE is one of these: an id, as in acme/deploy (of the project, installed, or in the store); ID@VERSION or a " +
				"digest (blake3:…) in the store; a project's directory or manifest.yaml; an archive, with \"-\" for standard input; or rye/std, the " +
				"library in the binary.\n\nExamples:\n\n    rye bundle create\n    rye bundle verify acme/deploy\n    rye bundle export acme/deploy\n" +
				"    rye bundle verify acme-deploy-1.4.0.tar.zst --signer release.pem\n    rye bundle install acme-deploy-1.4.0.tar.zst",
		},
		{
			Path: "bundle create", Quiet: true, Group: "bundles",
			Help: "Create a bundle from the project's items and sign it.",
			More: "bundle.yaml in the project lists what belongs to the bundle. Without it, the bundle has the items with the id ID or below it. All files " +
				"are put into the store and checked; then their list is signed and written to .ai/bundles/ID/manifest.yaml. Every problem is reported " +
				"and then nothing is written: each item must be valid and signed by a key that the policy accepts; a file that seems to contain a secret " +
				"is refused. Unchanged files are not read again, except with --paranoid.\n\n" +
				"In a directory with plugin.json it signs the plugin, and needs no bundle.yaml (rye docs plugins). It shows what each MCP server runs and " +
				"may do, asks, and starts the server to pin its tools, unless the plugin is unchanged.\n\n" +
				"--sign REF signs these items first, as rye sign does. --sign alone signs items that this key signed before and that have changed " +
				"since: it shows the changes and asks.\n\nExamples:\n\n    rye bundle create\n    rye bundle create acme/deploy --dry-run\n" +
				"    rye bundle create --sign\n    rye bundle create --sign tool:acme/fetch 'directive:acme/*'",
			Aka: []string{"bundle make", "bundle build", "bundle new", "pack"},
			New: func() cli.Runner {
				return new(BundleCreateRun)
			}, Schema: "bundle-create/1", Output: &BundleCreated{},
		},
		{
			Path: "bundle verify", Group: "bundles", Help: "Verify a bundle's files and signatures.",
			More: "It reads every byte and uses no cache. It checks the signatures and the expiry of the manifest, the digest, size, type and mode of " +
				"every file, each item's own signature, and that no file is missing or extra. It reports every problem with what was expected; the exit " +
				"status is then 1.\n\nThe policy decides which signatures count. --trust FILE uses another policy; --signer uses only the given keys and " +
				"reads nothing in the home directory. --require asks for valid evidence: sbom, provenance. --statement FILE is provenance outside the " +
				"bundle, written by rye bundle attest: it must be about this manifest and signed by a key that may sign the bundle.\n\nA missing " +
				"required bundle is a warning, and with --closed a failure. A v1 bundle verifies if the policy accepts v1 for its name and its items; " +
				"its files are checked by digest, and extra files are ignored.\n\nThe proof that a registry's log has the bundle is checked without the " +
				"registry, if it lies beside the archive as ARCHIVE.tlog-proof or was kept with the bundle: one that doesn't fit is a failure, and one of " +
				"a log whose key is unknown is shown as not checked (rye docs registry-trust).\n\nExamples:\n\n    rye bundle verify\n" +
				"    rye bundle verify acme/deploy --allow-extra\n    rye bundle verify deploy.tar.zst --statement provenance.json \\\n        --require provenance\n" +
				"    rye bundle verify deploy.tar.zst --signer alice.pem --signer bob.pem \\\n        --threshold 2\n    rye bundle verify rye/std",
			Aka: []string{"bundle check", "bundle audit"},
			New: func() cli.Runner { return new(BundleVerifyRun) }, Schema: "bundle-verify/1", Output: &BundleReport{},
		},
		{
			Path: "bundle inspect", Group: "bundles",
			Help: "Show a bundle's contents and the permissions it declares.",
			More: "It reads the whole bundle without verifying, running or writing anything. It lists what can be executed, and every host, path, secret " +
				"and capability that the items name. rye bundle verify shows who signed it.\n\nExamples:\n\n    rye bundle inspect deploy.tar.zst\n" +
				"    rye bundle inspect acme/deploy --json",
			Aka: []string{"bundle show", "bundle info", "bundle cat"},
			New: func() cli.Runner {
				return new(BundleInspectRun)
			}, Schema: "bundle-inspect/1", Output: &BundleInspection{},
		},
		{
			Path: "bundle list", Group: "bundles",
			Help: "List the project's bundles, installed bundles and the library.",
			More: "It reads the manifests without verifying them. --all also lists the bundles in the store.\n\nExamples:\n\n" +
				"    rye bundle list\n    rye bundle list --all --json",
			Aka: []string{"bundle ls"},
			New: func() cli.Runner { return new(BundleListRun) }, Schema: "bundle-list/1", Output: BundleList{},
		},
		{
			Path: "bundle diff", Group: "bundles", Help: "Compare two bundles: files, interfaces and permissions.",
			More: "It compares the manifests, and the parameters, permissions and text of the items, without verifying them. With --check the exit " +
				"status is 1 if a change breaks users of the bundle.\n\nExamples:\n\n    rye bundle diff acme/deploy@1.3.0\n" +
				"    rye bundle diff old.tar.zst new.tar.zst --json",
			Aka: []string{"bundle compare", "bundle changes"},
			New: func() cli.Runner { return new(bundleDiffRun) }, Schema: "bundle-diff/1", Output: &BundleDiff{},
		},
		{
			Path: "bundle cosign", Quiet: true, Group: "bundles", Help: "Add a signature to a bundle's manifest.",
			More: "The bundle is verified first, except for the signatures of its manifest. Other signatures stay, and no id changes. The bundle must be " +
				"in the project or in the store. With --statement it also signs a provenance statement that travels beside the bundle, which needs as " +
				"many signatures as the manifest; a statement that the manifest names needs one.\n\nExamples:\n\n    rye bundle cosign acme/deploy\n    rye bundle cosign acme/deploy --key release\n" +
				"    rye bundle cosign acme/deploy --statement provenance.json",
			Aka: []string{"bundle sign", "cosign"},
			New: func() cli.Runner {
				return new(bundleCosignRun)
			}, Schema: "bundle-cosign/1", Output: bundleCosigned{},
		},
		{
			Path: "bundle export", Group: "bundles", Help: "Write a bundle to an archive.",
			More: "The archive (.tar.zst) holds the manifest with its signatures and every file, verified while it is written. The same bundle gives the " +
				"same bytes. Without -o the file is ID-VERSION.tar.zst in the working directory, with \"-\" for each \"/\"; \"-o -\" writes to standard " +
				"output. If a registry's log has exactly this archive, the proof of that is written beside it, as FILE.tlog-proof.\n\nExamples:\n\n    rye bundle export acme/deploy\n    rye bundle export acme/deploy -o - | ssh host rye bundle import -",
			Aka: []string{"bundle save", "bundle pack"},
			New: func() cli.Runner { return new(bundleExportRun) }, Schema: "bundle-export/1", Output: bundleExport{},
		},
		{
			Path: "bundle index", Quiet: true, Group: "bundles",
			Help: "Create or update the index of a directory of archives.",
			More: "The index (index.yaml) is a signed list of the bundles whose archives (.tar.zst, .rye) are in DIR or below it. Projects use the " +
				"directory, or the https address of its index.yaml, as a source of bundles.\n\nEvery archive is verified first; if one is refused, " +
				"nothing is written. A listed version never changes: another bundle with the same id and version is refused. Each change raises the " +
				"counter of the index; without a change, nothing is written. A project accepts an index if its policy lets the key sign index:NAME. The " +
				"signatures of the bundles are still required.\n\nExamples:\n\n    rye bundle index dist --name acme/bundles\n" +
				"    rye bundle index dist --expires 2027-01-31 --key release",
			Aka: []string{"bundle publish", "index"},
			New: func() cli.Runner { return new(bundleIndexRun) }, Schema: "bundle-index/1", Output: bundleIndexed{},
		},
		{
			Path: "bundle import", Quiet: true, Group: "bundles",
			Help: "Verify an archive and import it into the store.",
			More: "The manifest is verified before anything else is read. The bundle gets its name in the store only after everything is verified, as by " +
				"rye bundle verify. To use it, run rye bundle install.\n\nGive a v1 bundle as the directory that holds its .ai; the policy must accept " +
				"v1 for its name.\n\nExamples:\n\n    rye bundle import deploy.tar.zst\n    rye bundle import - --signer release.pem < deploy.tar.zst",
			Aka: []string{"bundle load", "bundle unpack"},
			New: func() cli.Runner { return new(bundleImportRun) }, Schema: "bundle-import/1", Output: bundleImport{},
		},
		{
			Path: "bundle install", Quiet: true, Group: "bundles",
			Help: "Verify a bundle and install it for use outside projects.",
			More: "The installed version of a bundle is one file in the user space, .ai/bundles/ID/manifest.yaml, which is replaced atomically. The " +
				"files stay in the store, and rye bundle rollback goes back to earlier versions. An id or an archive never installs an older version; a " +
				"digest or ID@VERSION does.\n\nExamples:\n\n    rye bundle install deploy.tar.zst\n    rye bundle install acme/deploy\n" +
				"    rye bundle install blake3:…",
			Aka: []string{"install", "bundle add", "bundle update"},
			New: func() cli.Runner {
				return new(bundleInstallRun)
			}, Schema: "bundle-install/1", Output: bundleInstalled{},
		},
		{
			Path: "bundle rollback", Quiet: true, Group: "bundles", Help: "Go back to an earlier installed version.",
			More: "The default version is the latest one that is older than the installed one. It asks first, since later fixes are lost; " +
				"the version is verified as rye bundle install does.\n\nExamples:\n\n    rye bundle rollback acme/deploy\n" +
				"    rye bundle rollback acme/deploy 1.3.0 --yes",
			Aka: []string{"rollback", "bundle downgrade", "bundle undo"},
			New: func() cli.Runner {
				return new(bundleRollbackRun)
			}, Schema: "bundle-rollback/1", Output: bundleInstalled{},
		},
		{
			Path: "bundle remove", Quiet: true, Group: "bundles",
			Help: "Uninstall a bundle and forget its earlier versions.",
			More: "It asks first. The rollback protection stays. A digest removes a bundle from the store instead; installed bundles keep their files. " +
				"The next rye store gc removes the files that nothing else uses.\n\nExamples:\n\n" +
				"    rye bundle remove acme/deploy\n    rye bundle remove blake3:… --yes",
			Aka: []string{"bundle rm", "bundle uninstall", "bundle delete"},
			New: func() cli.Runner { return new(bundleRemoveRun) }, Schema: "bundle-remove/1", Output: bundleRemoved{},
		},
		{
			Path: "bundle sbom", Group: "bundles", Help: "Write a bundle's bill of materials as CycloneDX or SPDX.",
			More: "It lists the content of the manifest and reads no other file; the same bundle gives the same bytes. Its time is that of the manifest's " +
				"first signature, or SOURCE_DATE_EPOCH. --embed writes it beside the project's manifest and adds it there, for rye bundle verify " +
				"--require sbom. The manifest then has a new id and is signed again.\n\nExamples:\n\n    rye bundle sbom acme/deploy > sbom.json\n" +
				"    rye bundle sbom --format spdx -o sbom.spdx.json\n    rye bundle sbom --embed",
			Aka: []string{"sbom", "bundle bom"},
			New: func() cli.Runner { return new(bundleSbomRun) }, Schema: "bundle-sbom/1", Output: bundleEvidence{},
		},
		{
			Path: "bundle attest", Group: "bundles", Help: "Create signed provenance for a bundle.",
			More: "It writes an in-toto statement with SLSA provenance in a DSSE envelope, about this bundle and its bundle.yaml. Without --embed the " +
				"statement names the manifest's id. --embed writes it beside the project's manifest and adds it there, for rye bundle verify --require " +
				"provenance. The manifest is then signed again.\n\nExamples:\n\n    rye bundle attest --embed\n" +
				"    rye bundle attest acme/deploy --builder https://ci.example.com/release \\\n        -o provenance.json",
			Aka: []string{"attest", "bundle provenance"},
			New: func() cli.Runner {
				return new(bundleAttestRun)
			}, Schema: "bundle-attest/1", Output: bundleEvidence{},
		},
	}
}
