package fault

// The codes. They are never renamed: programs compare them.
const (
	Validation       Code = "VALIDATION_FAILED"
	Schema           Code = "SCHEMA_NOT_FOUND"
	VersionMismatch  Code = "VERSION_MISMATCH"
	ToolNotFound     Code = "TOOL_NOT_FOUND"
	ExecutorNotFound Code = "EXECUTOR_NOT_FOUND"
	Circular         Code = "CIRCULAR_DEPENDENCY"
	TooDeep          Code = "CHAIN_TOO_DEEP"
	Failed           Code = "EXECUTION_FAILED"
	Timeout          Code = "TIMEOUT"
	Resource         Code = "RESOURCE_EXCEEDED"
	AuthRequired     Code = "AUTH_REQUIRED"
	AuthFailed       Code = "AUTH_FAILED"
	SessionExpired   Code = "SESSION_EXPIRED"
	Registry         Code = "REGISTRY_ERROR"
	NotFound         Code = "ITEM_NOT_FOUND"
	Files            Code = "FILE_SYSTEM_ERROR"
	Parsing          Code = "PARSING_ERROR"
	Config           Code = "CONFIG_ERROR"
	Unknown          Code = "UNKNOWN_ERROR"
	Integrity        Code = "INTEGRITY_FAILED"
	Unsigned         Code = "UNSIGNED"
	SignatureInvalid Code = "SIGNATURE_INVALID"
	UntrustedKey     Code = "UNTRUSTED_KEY"
	Revoked          Code = "KEY_REVOKED"
	Expired          Code = "EXPIRED"
	BelowThreshold   Code = "BELOW_THRESHOLD"
	Rollback         Code = "ROLLBACK_DETECTED"
	LockMismatch     Code = "LOCK_MISMATCH"
	NotLocked        Code = "NOT_LOCKED"
	Offline          Code = "OFFLINE"
	Denied           Code = "PERMISSION_DENIED"
	Policy           Code = "POLICY_DENIED"
	Approval         Code = "APPROVAL_REQUIRED"
	Limit            Code = "LIMIT_EXCEEDED"
	Budget           Code = "BUDGET_EXCEEDED"
	Sandbox          Code = "SANDBOX_UNAVAILABLE"
	Ambiguous        Code = "AMBIGUOUS"
	Busy             Code = "BUSY"
	Conflict         Code = "CONFLICT"
	RateLimited      Code = "RATE_LIMITED"
	Unavailable      Code = "UNAVAILABLE"
	Cancelled        Code = "CANCELLED"
)

// The exit statuses. Any other status that isn't 0 is a failure too.
const (
	ExitDone        = 0
	ExitNo          = 1
	ExitUsage       = 2
	ExitMissing     = 3
	ExitRefused     = 4
	ExitInterrupted = 130
)

// An ExitLine is a line of the public table of exit statuses.
type ExitLine struct {
	Exit int    `json:"exit"`
	Help string `json:"help"`
}

// Exits lists the exit statuses with their meanings.
func Exits() []ExitLine {
	return []ExitLine{
		{ExitDone, "done"},
		{ExitNo,
			"the command ran and the answer is no: a check found something, a tool failed, a file could not be read or written, or time ran out"},
		{ExitUsage, "the command line or the configuration is wrong"},
		{ExitMissing, "not found"},
		{ExitRefused,
			"refused: integrity, trust, lock, policy, a limit or the sandbox; or an answer was needed and there is no terminal"},
		{ExitInterrupted, "interrupted"},
	}
}

// A Line is a line of the public table of codes. A command that asks a question ("verify", "fsck", "lock --check")
// exits with 1 whatever the code: see Error.Asked.
type Line struct {
	Code      Code   `json:"code"`
	Exit      int    `json:"exit"`
	Retryable bool   `json:"retryable"` // the same command may succeed later although nothing was changed
	Help      string `json:"help"`
}

// Table lists every code.
func Table() []Line {
	const again = true
	return []Line{
		{Validation, ExitUsage, false, "arguments, parameters or an item do not match their declaration"},
		{Schema, ExitMissing, false, "unknown schema"},
		{VersionMismatch, ExitRefused, false, "made by a newer rye, or for another version"},
		{ToolNotFound, ExitMissing, false, "tool not found"},
		{ExecutorNotFound, ExitMissing, false, "a link of the tool's executor chain was not found"},
		{Circular, ExitUsage, false, "items depend on each other in a circle"},
		{TooDeep, ExitUsage, false, "an executor chain is longer than 10"},
		{Failed, ExitNo, false, "the tool ran and failed"},
		{Timeout, ExitNo, again, "not finished in time"},
		{Resource, ExitNo, false, "the tool exceeded its memory, processor time or output limit"},
		{AuthRequired, ExitRefused, false, "the server requires credentials, or a secret is not set"},
		{AuthFailed, ExitRefused, false, "the server rejected the credentials"},
		{SessionExpired, ExitRefused, false, "the session or a secret has expired: set it again"},
		{Registry, ExitNo, again, "a registry gave no usable answer"},
		{NotFound, ExitMissing, false, "item, object or ref not found"},
		{Files, ExitNo, false, "a file or directory can't be read or written; exit status 3 if it is missing"},
		{Parsing, ExitNo, false, "a file is not in its format"},
		{Config, ExitUsage, false, "an environment variable, a configuration file or the project is wrong"},
		{Unknown, ExitNo, false, "an error without a code of its own"},
		{Integrity, ExitRefused, false, "content does not match its digest"},
		{Unsigned, ExitRefused, false, "not signed"},
		{SignatureInvalid, ExitRefused, false, "the signature of a known key does not match the content"},
		{UntrustedKey, ExitRefused, false, "signed, but by no key that the policy trusts for this name"},
		{Revoked, ExitRefused, false, "signed with a revoked key"},
		{Expired, ExitRefused, false, "a key, list or grant has expired"},
		{BelowThreshold, ExitRefused, false, "fewer valid signatures than the policy requires"},
		{Rollback, ExitRefused, false, "older than a version seen before under this name"},
		{LockMismatch, ExitRefused, false, "does not match rye.lock"},
		{NotLocked, ExitRefused, false, "not in rye.lock"},
		{Offline, ExitRefused, false, "needs the network, which --offline forbids"},
		{Denied, ExitRefused, false, "permission not granted, or a file of another user"},
		{Policy, ExitRefused, false, "denied by the policy"},
		{Approval, ExitRefused, false, "a person must approve this first"},
		{Limit, ExitRefused, false, "a limit was exceeded"},
		{Budget, ExitRefused, false, "the budget is spent"},
		{Sandbox, ExitRefused, false, "this machine can't confine the tool as the policy requires"},
		{Ambiguous, ExitUsage, false, "the name matches more than one thing"},
		{Busy, ExitNo, again, "another process holds the lock"},
		{Conflict, ExitNo, again,
			"changed by another process meanwhile; not retryable where existing files are in the way"},
		{RateLimited, ExitNo, again, "the server asks to slow down"},
		{Unavailable, ExitNo, again, "the server can't be reached"},
		{Cancelled, ExitInterrupted, again, "interrupted"},
	}
}
