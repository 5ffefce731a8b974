// Package explain has the commands that explain a lock: "rye why", "rye tree" and "rye licences".
//
// How a question goes through here: whyRun.Run opens the lock (paths.OpenLock) and calls graph, which computes the
// closure of the locked roots from their pinned bytes (closure.Close) and turns its uses into edges. whyBundle,
// whyPackage or usersOf answers from them, and lockGraph.path finds a shortest path from a root. rye tree walks the
// same graph; rye licences reads only bundles and packages.
package explain
