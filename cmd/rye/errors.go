package main

import "slices"

// A code names a kind of error for programs. Codes are never renamed.
type code string

// The codes that this package gives by itself; rooms below are mapped to the rest of the table by classify.
const (
	codeValidation code = "VALIDATION_FAILED"
	codeConfig     code = "CONFIG_ERROR"
	codeFiles      code = "FILE_SYSTEM_ERROR"
	codeItem       code = "ITEM_NOT_FOUND"
	codeSchema     code = "SCHEMA_NOT_FOUND"
	codeDenied     code = "PERMISSION_DENIED"
	codeTimeout    code = "TIMEOUT"
	codeCancelled  code = "CANCELLED"
	codeUnknown    code = "UNKNOWN_ERROR"
)

// The exit statuses. Anything else that isn't 0 is a failure too.
const (
	exitDone        = 0
	exitNo          = 1
	exitUsage       = 2
	exitMissing     = 3
	exitRefused     = 4
	exitInterrupted = 130
)

// exitHelp says what each exit status means.
func exitHelp() []exitLine {
	return []exitLine{
		{exitDone, "done"},
		{exitNo, "it ran and the answer is no: a check found something, a tool failed, reading or writing failed, time ran out"},
		{exitUsage, "the command line or the configuration is wrong"},
		{exitMissing, "not found"},
		{exitRefused, "refused, by integrity, trust, lock, policy, limit or sandbox, or for want of somebody to ask"},
		{exitInterrupted, "interrupted"},
	}
}

type exitLine struct {
	Exit int    `json:"exit"`
	Help string `json:"help"`
}

// A codeLine is a line of the public table of codes. A command that was asked a question ("verify", "fsck",
// "lock --check") exits with 1 whatever its code: see fault.asked.
type codeLine struct {
	Code      code   `json:"code"`
	Exit      int    `json:"exit"`
	Retryable bool   `json:"retryable"` // the same command may succeed later, nothing having been changed
	Help      string `json:"help"`
}

// codeTable lists every code there is.
func codeTable() []codeLine {
	const again = true
	return []codeLine{
		{codeValidation, exitUsage, false, "arguments, parameters or an item don't fit what is declared for them"},
		{codeSchema, exitMissing, false, "there is no schema of this name"},
		{"VERSION_MISMATCH", exitRefused, false, "made by a newer rye, or for another version"},
		{"TOOL_NOT_FOUND", exitMissing, false, "there is no tool of this name"},
		{"EXECUTOR_NOT_FOUND", exitMissing, false, "a link of the tool's chain of executors isn't there"},
		{"CIRCULAR_DEPENDENCY", exitUsage, false, "items need each other in a circle"},
		{"CHAIN_TOO_DEEP", exitUsage, false, "a chain of executors is longer than 10"},
		{"EXECUTION_FAILED", exitNo, false, "the tool ran and failed"},
		{codeTimeout, exitNo, again, "not finished in time"},
		{"RESOURCE_EXCEEDED", exitNo, false, "the tool used more memory, processor time or output than it may"},
		{"AUTH_REQUIRED", exitRefused, false, "the other side wants to know who asks, or a secret isn't set"},
		{"AUTH_FAILED", exitRefused, false, "the other side doesn't accept the credentials"},
		{"SESSION_EXPIRED", exitRefused, false, "the session is over, or a secret has expired: set it again"},
		{"REGISTRY_ERROR", exitNo, again, "a registry gave no usable answer"},
		{codeItem, exitMissing, false, "there is no item, object or ref of this name"},
		{codeFiles, exitNo, false, "a file or directory can't be read or written; one that isn't there exits with 3"},
		{"PARSING_ERROR", exitNo, false, "a file isn't what its format says"},
		{codeConfig, exitUsage, false, "a variable, a configuration file or the project is wrong"},
		{codeUnknown, exitNo, false, "an error without a code of its own"},
		{"INTEGRITY_FAILED", exitRefused, false, "bytes are not those that were named"},
		{"UNSIGNED", exitRefused, false, "nobody has signed this"},
		{"SIGNATURE_INVALID", exitRefused, false, "a known key's signature doesn't fit the bytes"},
		{"UNTRUSTED_KEY", exitRefused, false, "signed, by nobody whom policy lets vouch for this name"},
		{"KEY_REVOKED", exitRefused, false, "signed with a key that is revoked"},
		{"EXPIRED", exitRefused, false, "a key, list or grant is past its end"},
		{"BELOW_THRESHOLD", exitRefused, false, "fewer valid signatures than policy asks for"},
		{"ROLLBACK_DETECTED", exitRefused, false, "older than what was seen before under this name"},
		{"LOCK_MISMATCH", exitRefused, false, "not what rye.lock has pinned"},
		{"NOT_LOCKED", exitRefused, false, "not pinned by a lock"},
		{"OFFLINE", exitRefused, false, "needs the network, which is not to be used"},
		{codeDenied, exitRefused, false, "not among the permissions granted, or another user's"},
		{"POLICY_DENIED", exitRefused, false, "policy says no"},
		{"APPROVAL_REQUIRED", exitRefused, false, "somebody has to say yes first, and there is nobody to ask"},
		{"LIMIT_EXCEEDED", exitRefused, false, "more than a limit allows"},
		{"BUDGET_EXCEEDED", exitRefused, false, "the budget is spent"},
		{"SANDBOX_UNAVAILABLE", exitRefused, false, "this machine can't confine the tool as policy asks"},
		{"AMBIGUOUS", exitUsage, false, "the name stands for more than one thing"},
		{"BUSY", exitNo, again, "another process holds the lock"},
		{"CONFLICT", exitNo, again, "somebody else has changed it meanwhile; or what is there stands in the way, and then it isn't retryable"},
		{"RATE_LIMITED", exitNo, again, "the other side asks to slow down"},
		{"UNAVAILABLE", exitNo, again, "the other side can't be reached"},
		{codeCancelled, exitInterrupted, again, "interrupted"},
	}
}

// A fault is an error as people and programs see it.
type fault struct {
	code    code
	message string
	why     []string       // indented lines: where, expected and found, the likely cause
	hint    []string       // commands to paste
	details map[string]any // the same facts for programs
	exit    int            // where it isn't the code's
	stays   bool           // the same command fails again, whatever others with its code do
	err     error          // what caused it, or nil
}

func (f *fault) Error() string { return f.message }

func (f *fault) Unwrap() error { return f.err }

// asked marks f as the answer to a question: the command did its work, and the answer is no.
func (f *fault) asked() *fault {
	f.exit = exitNo
	return f
}

// line returns f's line of the table; a code that isn't in it counts as UNKNOWN_ERROR.
func (f *fault) line() codeLine {
	table := codeTable()
	i := slices.IndexFunc(table, func(l codeLine) bool { return l.Code == f.code })
	if i < 0 {
		return (&fault{code: codeUnknown}).line()
	}
	l := table[i]
	if f.exit != 0 {
		l.Exit = f.exit
	}
	l.Retryable = l.Retryable && !f.stays
	return l
}
