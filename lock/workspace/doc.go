// Package workspace opens a project: its root, rye.yaml, policies, spaces, store and lock, found by a struct of
// paths. The command line and every server use it. It reads no environment variable, no flag, and no file that the
// paths don't lead to.
//
// How a call goes through here: Open finds the project (FindProject, Search.Find) and reads its rye.yaml. Policy
// reads the root policy, the project's policy and their revocation lists. Items opens every visible space, with
// OpenView deciding which items are admitted. OpenLock reads rye.lock; Lock.Open then connects the store and the
// sources of bundles, Set reads all that the lock names, and Write replaces the lock.
package workspace
