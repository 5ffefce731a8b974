package remotes

import "github.com/rye-build/rye/cmd/rye/cli"

// Commands lists the commands of this package, in the order in which the help shows them.
func Commands() []cli.Command {
	return []cli.Command{
		{
			Path: "bundle push", Quiet: true, Group: "bundles",
			Help: "Push a bundle to an OCI registry or image layout.",
			More: "It sends what the registry lacks, with the signatures and evidence as referrers, and sets the " +
				"tag last. Without a tag, the tag is the bundle's version. oci-layout:DIR writes a directory that " +
				"can be carried to a machine without a network.\n\n" +
				"Examples:\n\n" +
				"    rye bundle push oci://registry.example.com/acme/deploy\n" +
				"    rye bundle push acme/deploy oci://registry.example.com/acme/deploy:stable\n" +
				"    rye bundle push acme/deploy oci-layout:stick",
			Aka: []string{"bundle upload", "push"},
			New: func() cli.Runner { return new(bundlePushRun) }, Schema: "bundle-push/1", Output: bundlePushed{},
		},
		{
			Path: "bundle pull", Quiet: true, Group: "bundles",
			Help: "Pull a bundle from an OCI registry or image layout.",
			More: "It is verified as by rye bundle import, and what the store has already is not fetched again. " +
				"Without a tag, it takes the newest version. A tag that goes back to an earlier version, or names " +
				"another bundle under the same version, is refused. It goes into the store: to use it, run rye " +
				"bundle install; for a file, rye bundle export; for another registry or layout, rye bundle " +
				"push.\n\n" +
				"Examples:\n\n" +
				"    rye bundle pull oci://registry.example.com/acme/deploy:1.4.0\n" +
				"    rye bundle pull oci-layout:stick --signer release.pem",
			Aka: []string{"bundle download", "pull"},
			New: func() cli.Runner { return new(bundlePullRun) }, Schema: "bundle-pull/1", Output: bundlePulled{},
		},
	}
}
