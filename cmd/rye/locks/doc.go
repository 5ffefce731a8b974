// Package locks has the commands for a project's lock: lock, add, remove, update, outdated, diff, vendor, fetch and
// restore.
package locks
