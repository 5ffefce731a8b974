package stores

import "github.com/rye-build/rye/cmd/rye/cli"

// Commands lists the commands of this package, in the order in which the help shows them.
func Commands() []cli.Command {
	return []cli.Command{
		{
			Path: "store", Group: "store", Help: "Work with the object store.",
			Aka: []string{"cas", "objects"},
			More: "An OBJECT is a digest (blake3: and 64 digits), at least the first four digits of one, or the " +
				"name of a ref. OBJECT:PATH is the file or directory at PATH in a tree. Abbreviated digests are " +
				"only for reading; rye always writes whole ones.",
		},
		{
			Path: "store put", Group: "store", Help: "Store files and directories and print their digests.",
			More: "A directory becomes a tree, whose digest covers everything in it; a file, or \"-\" for standard " +
				"input, becomes a blob. The objects are durable when the digest is printed. Files that have not " +
				"changed since the last put are not read again, except with --paranoid. Without a ref, gc removes " +
				"the objects later.\n\n" +
				"Examples:\n\n" +
				"    rye store put --ref app ./app\n" +
				"    rye store put a.txt b.txt\n" +
				"    tar -c . | rye store put -",
			Aka:    []string{"store add", "store import", "put"},
			New:    func() cli.Runner { return new(storePutRun) },
			Schema: "store-put/2", Output: storePutAnswer{},
		},
		{
			Path: "store cat", Group: "store", Help: "Write an object's verified bytes.",
			More: "A tree is written as text. The bytes are verified while they are written, so only exit status 0 " +
				"means that all of them are right.\n\n" +
				"Examples:\n\n" +
				"    rye store cat app:README.md\n" +
				"    rye store cat 9f2c41d07a33",
			Aka:    []string{"cat", "store get"},
			New:    func() cli.Runner { return new(storeCatRun) },
			Schema: "store-cat/1", Output: storeCatAnswer{},
		},
		{
			Path: "store list", Group: "store", Help: "List a tree or all objects.",
			More: "With an OBJECT it lists the entries of that tree; without, everything in the store, " +
				"unordered.\n\n" +
				"Examples:\n\n" +
				"    rye store list app\n" +
				"    rye store list app:lib\n" +
				"    rye store list --json",
			New:    func() cli.Runner { return new(storeLsRun) },
			Schema: "store-ls/1", Output: storeLsAnswer{},
		},
		{
			Path: "store stat", Group: "store", Help: "Show an object's kind and size, or the store's.",
			More:   "Examples:\n\n    rye store stat\n    rye store stat app",
			Aka:    []string{"store info", "store show"},
			New:    func() cli.Runner { return new(storeStatRun) },
			Schema: "store-stat/1", Output: storeStatAnswer{},
		},
		{
			Path: "store tree", Group: "store", Help: "List a tree recursively.",
			More:   "Examples:\n\n    rye store tree app\n    rye store tree app:lib --json",
			New:    func() cli.Runner { return new(storeTreeRun) },
			Schema: "store-tree/1", Output: storeTreeAnswer{},
		},
		{
			Path: "store checkout", Quiet: true, Group: "store", Help: "Write a verified tree to a directory.",
			More: "DIR must be missing or empty, except with --force. The tree is written beside it and renamed " +
				"when every byte is verified, so DIR is complete or unchanged. DIR can't be in a store, in the " +
				"user space or in rye's state directory.\n\n" +
				"Examples:\n\n" +
				"    rye store checkout app ./copy\n" +
				"    rye store checkout app:lib ./lib --force",
			Aka:    []string{"checkout", "store export", "store extract"},
			New:    func() cli.Runner { return new(storeCheckoutRun) },
			Schema: "store-checkout/1", Output: storeCheckoutAnswer{},
		},
		{
			Path: "store refs", Group: "store", Help: "List refs, or set or delete one.",
			More: "A ref is a name for an object. gc keeps everything that can be reached from a ref. With " +
				"--expect the change fails with CONFLICT unless the ref names that object now (\"none\": unless " +
				"the ref doesn't exist). Changes need whole digests, not prefixes.\n\n" +
				"Examples:\n\n" +
				"    rye store refs\n" +
				"    rye store refs stable --set app\n" +
				"    rye store refs app --delete --expect blake3:…",
			Aka:    []string{"store tag", "store branch"},
			New:    func() cli.Runner { return new(storeRefsRun) },
			Schema: "store-refs/1", Output: storeRefsAnswer{},
		},
		{
			Path: "store fsck", Group: "store", Help: "Read and hash every object in the store.",
			More: "fsck uses no cache and changes nothing without --repair or --repair-from. --repair removes " +
				"damaged objects, so that you can put them again, and rebuilds lost indexes; --repair-from also " +
				"copies lost objects from another store.\n\n" +
				"Examples:\n\n" +
				"    rye store fsck\n" +
				"    rye store fsck --repair-from /mnt/backup/store",
			Aka:    []string{"fsck", "store check", "store verify"},
			New:    func() cli.Runner { return new(storeFsckRun) },
			Schema: "store-fsck/1", Output: storeFsckAnswer{},
		},
		{
			Path: "store gc", Quiet: true, Group: "store", Help: "Remove unreachable objects.",
			More: "It removes objects that an earlier gc found unreachable at least --grace ago; --grace 0s " +
				"removes all unreachable objects at once. Other processes may use the store meanwhile. Objects of " +
				"a rye.lock stay as long as that file exists.\n\n" +
				"Examples:\n\n" +
				"    rye store gc --dry-run\n" +
				"    rye store gc --grace 0s",
			Aka:    []string{"gc", "prune", "store prune"},
			New:    func() cli.Runner { return new(storeGcRun) },
			Schema: "store-gc/2", Output: storeGcAnswer{},
		},
		{
			Path: "store repack", Quiet: true, Group: "store", Help: "Merge small packs into large ones.",
			More: "Writers merge packs too; repack continues until nothing more can be " +
				"merged.\n\nExamples:\n\n    rye store repack",
			Aka:    []string{"store optimise", "store optimize", "store compact"},
			New:    func() cli.Runner { return new(storeRepackRun) },
			Schema: "store-repack/2", Output: storeRepackAnswer{},
		},
		{
			Path: "store reindex", Quiet: true, Group: "store",
			Help:   "Rebuild missing or damaged indexes from the packs.",
			More:   "Examples:\n\n    rye store reindex",
			New:    func() cli.Runner { return new(storeReindexRun) },
			Schema: "store-reindex/1", Output: storeReindexAnswer{},
		},
		{Path: "cache", Group: "store", Help: "List and clear caches.",
			More: "Every cache has its own limit and removes the least recently used entries first. Clearing a " +
				"cache loses no data."},
		{
			Path: "cache list", Group: "store", Help: "List caches.",
			More: "Examples:\n\n" +
				"    rye cache list\n" +
				"    rye -v store put DIR    (hits and misses of one run)",
			New: func() cli.Runner { return new(cacheLsRun) }, Schema: "cache-ls/1", Output: cacheLsAnswer{},
		},
		{
			Path: "cache clear", Quiet: true, Group: "store", Help: "Clear all caches or one of them.",
			Aka: []string{"cache rm", "cache clean", "cache prune"},
			More: "Examples:\n\n" +
				"    rye cache clear\n" +
				"    rye cache clear search",
			New: func() cli.Runner { return new(cacheClearRun) }, Schema: "cache-clear/1", Output: cacheClearAnswer{},
		},
	}
}
