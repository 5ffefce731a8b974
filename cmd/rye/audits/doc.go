// Package audits has the commands for the audit log and receipts: "rye audit list", show, verify, export, stats,
// prune and vouch.
//
// How a command goes through here: Dirs finds the log, the receipts and the machine's key. The flags --since,
// --until, --ref and --status become an audit.Filter (auditFilter.filter), and EachCall visits the calls that
// match; it continues after damage and returns that as problems, which damaged turns into the command's error. rye
// audit verify instead collects the trusted keys with AuditKeys and passes them to audit.Verify for the log, or to
// verifyReceipts.
package audits
