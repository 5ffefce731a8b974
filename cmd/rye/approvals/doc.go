// Package approvals has the commands "rye approvals", "rye approve" and "rye deny", which list and answer the
// requests that a policy makes for a call.
//
// How an answer goes through here: approveRun.Run or denyRun.Run calls step. It opens the audit log and the
// requests with change, finds the request by its id or a prefix (approval.Find), and lets approval.Local.Do record
// the answer. A process that waits for the request then makes the call. listRun.Run only reads: it opens the
// requests without a log.
package approvals
