// Package legacy is the reader of locks in the first format, and compares their pins with the current tools.
//
// How a call goes through here: Read finds the lock files below .ai and parses each (Parse). Lock.Check then compares
// the tool and each link of its chain with the integrities that the caller computes by Integrity.
//
// Trees from before rye have a lock for each tool, which is read here and never written:
//
//	.ai/lockfiles/rye/file-system/write@1.0.0.lock.json
//
//	{
//	  "lockfile_version": 1,
//	  "generated_at": "2026-02-18T08:25:21.344139+00:00",
//	  "root": {
//	    "tool_id": "rye/file-system/write",
//	    "version": "1.0.0",
//	    "integrity": "5c1f…"
//	  },
//	  "resolved_chain": [
//	    {
//	      "item_id": "rye/file-system/write",
//	      "space": "system:rye-os",
//	      "tool_type": "python",
//	      "executor_id": "rye/core/runtimes/python/script",
//	      "integrity": "5c1f…"
//	    },
//	    …
//	  ],
//	  "registry": null,
//	  "verified_deps": null
//	}
//
// Such a lock pins one version of the tool, 0.0.0 if the tool has none. integrity is the digest in a tool's signature
// of the first format (package sign, rule V1Tool), in 64 hexadecimal digits: SHA-256 of the text without its
// signature lines and the lines "#!/" above and below them, with every line end made LF. So it covers neither those
// signature lines and the lines "#!/" above and below them, with every line end made LF. So it doesn't cover those
// lines, nor the other files of a tool. The lock isn't signed. It has one use: when the first rye.lock of a tree is
// made, rye shows which bytes differ from those that ran before.
// # Files
//
// Every regular file below lockfiles whose name ends in .lock.json is read, at any depth: at most 10,000, each with
// at most 1 MiB. It is JSON by package jcs, so duplicate names, text after the end and too deep nesting are errors.
// lockfile_version is 1. root with its three texts, generated_at and resolved_chain are required, and so are
// item_id, space and integrity in each of at most 64 links; tool_type and executor_id may be null or absent. Ids
// are those of items today, and a space is "project", "user", or "system:" and a bundle. The name of the file must
// match root. Other members are ignored, as they were before.
//
// The program that wrote these files ignored unreadable locks. Here they are errors.
package legacy
