// Package git is a read-only client for git repositories, which verifies every object that it reads.
//
// How a call goes through here: Resolve runs git ls-remote and picks the revision's commit (parseRefs, choose). Fetch
// runs git init and git fetch in a private directory, while watch limits its size, and open starts git cat-file.
// Commit.Copy looks up the path tree by tree (find, parseTree), and object hashes the answer of git.
//
//	client := git.New(git.Options{Run: run, Dir: private, Reach: web.Reach})
//	id, err := client.Resolve(ctx, "https://git.acme.example/style.git", "main")
//	commit, err := client.Fetch(ctx, "https://git.acme.example/style.git", id)
//	defer commit.Close()
//	exec, err := commit.Copy(ctx, file, ".ai/bundles/acme/style/manifest.yaml", most)
//
// The program git, version 2.37 or newer, only speaks its protocol and unpacks: ls-remote, init, fetch, cat-file. The
// caller starts it (Runner); this package decides on its arguments and environment and verifies its answers.
//
// # Restrictions
//
// Nothing is ever checked out: the caller's files are read as objects, one by one. So filters, attributes, hooks,
// line ends and LFS have no effect, and .gitmodules is an ordinary file.
//
//	settings     none but those here: not the system's, not the user's, no HOME and so no .netrc. Hooks are in no
//	             directory, credentials come from no helper, git never asks for a password, nothing is collected
//	             or maintained behind the fetch
//	protocols    https alone (GIT_ALLOW_PROTOCOL): no ext, no file, no ssh, no http, wherever a name leads
//	redirects    none, so that no server sends git to the inside of a network; with that go the alternates of the
//	             old protocol without a server's part
//	servers      those alone that the caller lets be dialled (Reach), at the numbers that it has looked up: what a
//	             name leads to a moment later doesn't matter
//	arguments    an address begins with https:// and stands behind "--", as does a revision, which is a commit
//	             or begins with refs/: neither is ever an option
//	repositories made for one fetch, of one commit and without its parents, in a directory that no other user can
//	             read, and removed when the commit is closed; what a process that died left there is removed a day
//	             later
//
// # Verification
//
// The package doesn't trust git's answers. It hashes every object, from the commit over the trees to the file, and
// compares the hash with the requested name. SHA-1 is weak, so the caller doesn't rely on it: bundles are signed and
// pinned by rye's own digests. SHA-1 only identifies the commit.
//
// Only regular files are read: a symbolic link, a submodule, a directory in place of a file, and a malformed tree are
// refused. Paths are compared byte by byte.
//
// # Limits
//
// A fetch has at most MaxFetched bytes on the disk and an hour; a server that sends less than 1,000 bytes a second
// for half a minute is disconnected. The caller limits the size of a file; a tree has at most MaxTree bytes, and a
// path 32 trees. Error output of git may contain a server's text: it is cut at 2 KiB and quoted.
package git
