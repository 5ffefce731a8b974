// Package peers holds tests against libraries that are too heavy for the module of rye: here other people's
// code says whether we got their formats right. It has a module of its own, so that nothing of it is ever
// built into rye.
//
// The Remote Execution API is pinned to a commit, because its module has no releases that the go command
// would order.
package peers
