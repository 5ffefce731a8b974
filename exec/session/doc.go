// Package session is an open workspace that runs calls: every door (the command line, servers, threads) uses it.
//
// # How a call goes through here
//
// Session.Call opens the source of the item (resolve: pinned, dev or unlocked), and refuses an item that differs from
// the lock (mayRun, drift). prepare lets the kernel resolve the call, and asks the policies (consent.Check). If a
// person has to approve it, prepareApproved resolves it once more: the policies and files of that moment count. Then
// exec.Target.Prepare and exec.Plan.Run do the rest. Item, Items, Search and Config read from the same sources, and
// Consent asks about a graph.
package session
