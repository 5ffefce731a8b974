// Package locks has the commands for a project's lock: lock, add, remove, update, outdated, diff, why, tree, vendor, fetch and restore.
package locks
