// Package locks has the commands for a project's lock: lock, add, remove, update, outdated, diff, vendor, fetch and
// restore.
//
// How a command goes through here: Commands lists the commands with their runners. For rye lock, lockRun.Run calls
// lock, which checks the flags with checkFlags and answers --check from the cache with cachedAnswer. Otherwise it
// locks the project against other processes with paths.Alone, opens the lock with paths.OpenLock, and calls make.
// make calls update.Make, which makes the lock and writes it, and warn prints what the user should know.
// LockAnswer.Text prints the changes. add and remove open the project with openForEdit, edit rye.yaml in memory,
// and end in the same make.
package locks
