// Package git answers: what does a repository have at this commit?
//
//	client := git.New(git.Options{Run: run, Dir: private, Reach: web.Reach})
//	id, err := client.Resolve(ctx, "https://git.acme.example/style.git", "main")
//	commit, err := client.Fetch(ctx, "https://git.acme.example/style.git", id)
//	defer commit.Close()
//	exec, err := commit.Copy(ctx, file, ".ai/bundles/acme/style/manifest.yaml", most)
//
// The program git, of version 2.37 or newer, does nothing here but speak its protocol and unpack: ls-remote, init,
// fetch, cat-file. Who starts it is the caller's matter (Runner); how it is started, and what is believed of its
// answers, is this package's.
//
// # What git can't be brought to do
//
// Nothing is ever checked out: files are read as objects, one by one, those that the caller names. So no filter, no
// attribute, no hook, no line end and no LFS has a part in it, and .gitmodules is a file like others.
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
// # What is believed
//
// That a commit has these files is not git's word. Every object is hashed here, from the commit over the trees to the
// file, and has to have the name by which it was asked for. SHA-1 is weak, and the caller doesn't rest on it: bundles
// are signed, and pinned by digests of ours. It says which commit was meant.
//
// A file is a regular file. A symbolic link, a submodule, a directory where a file was named, and a tree that git
// itself wouldn't write are refused. A path is looked for as it is, in bytes.
//
// # Limits
//
// A fetch has at most MaxFetched bytes on the disk and an hour; a server that sends less than 1,000 bytes a second for
// half a minute is left. An object has no more bytes than the caller allows; a tree MaxTree, a path 32 trees. What git
// says about an error is cut at 2 KiB, and is the text of a stranger: it is shown quoted.
package git
