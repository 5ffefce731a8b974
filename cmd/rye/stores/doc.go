// Package stores has the commands for the object store, rye store, and for the caches, rye cache.
//
// How a command goes through here: for a command that reads an object, objectArg.read opens the store with
// paths.ReadStore, resolves the argument with paths.Resolve, and calls the command's function for the object. If
// that meets a damaged object, paths.Healing repairs it from .ai/vendor and calls the function again. Commands that
// write open the store with paths.MakeStore (put) or paths.HaveStore (gc, refs, repack, reindex) and call one
// method of disk.Store; storePutRun.put imports files in one batch. The cache commands go through the list of
// rebuildables.
package stores
