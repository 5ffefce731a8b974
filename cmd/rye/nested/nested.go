// Package nested refuses commands that a tool of a thread may not run.
//
// Each tool of a thread has the variable RYE_THREAD with the thread's id in its environment. A rye that it starts may
// read and verify. It may not run, sign or change anything: that would be beyond the thread's permissions, limits and
// budget. A thread that may start others does so by a call (rye docs threads), and such a process has tokens.
package nested

import (
	"slices"
	"strings"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/env"
	"github.com/rye-build/rye/exec/proc"
)

// reading lists the commands that neither run, sign nor change anything.
var reading = []string{
	"approvals", "audit list", "audit show", "audit stats", "audit verify", "auth list", "bundle diff",
	"bundle inspect", "bundle list", "bundle verify",
	"cache list", "check", "completion", "config", "diff", "docs", "doctor", "help", "key list", "key show",
	"licences", "ls", "mcp list", "mcp show", "outdated",
	"schema", "search", "serve token list", "show", "store cat", "store list", "store ls", "store refs", "store stat",
	"store tree", "thread cost",
	"thread list", "thread logs", "thread result", "thread search", "thread show", "thread tree", "thread verify",
	"thread wait",
	"tree", "trust check", "trust list", "verify", "version", "why",
}

// Thread returns the id of the thread whose tool started this process, or "". This process or one above it has the
// variable.
func Thread(variable func(string) string) string {
	if id := variable(env.Thread); id != "" {
		return id
	}
	return proc.Inherited(env.Thread)
}

// Check refuses a command that this process may not run. args are its arguments. An earlier error err is returned
// as is.
func Check(err error, command string, args []string, variable func(string) string) error {
	has := func(flag string) bool { return slices.Contains(args, flag) }
	switch {
	case err != nil:
		return err
	case slices.Contains(reading, command), command == "lock" && has("--check"):
		return nil
	case command == "run" && has("--detached"): // refused later unless its job has tokens
		return nil
	}
	return Denied(command, Thread(variable))
}

// Denied returns the error for a command in a thread, or nil without a thread.
func Denied(command, thread string) error {
	if thread == "" {
		return nil
	}
	return fault.New(fault.Denied, "a tool of the thread %s can't run rye %s", clip(thread), command).On("thread",
		clip(thread)).
		Because("a rye that a tool of a thread starts may read and verify, not run, sign or change anything").
		Try("rye docs threads")
}

// clip bounds the length and the characters of an id from the environment.
func clip(id string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, id[:min(len(id), 300)])
}
