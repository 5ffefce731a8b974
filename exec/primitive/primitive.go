// Package primitive is the interface of the last link of a chain: the only code that touches the world.
//
// Before a Primitive runs, everything is decided: the bytes, their signers, the grants, the parameters. It gets an
// Action, performs only that, streams the output to a Sink, and returns a Result. Package primitivetest checks every
// implementation.
//
// Optional abilities are interfaces of their own, found by assertion: starting programs, which must be known in
// advance (Starter, Seeker), closing after the last action (Closer), naming the service that an action calls (Asker),
// running without files (Bare) or with files that an earlier action has read (Keeper), and preparing in advance
// (Readier). Package retry wraps a primitive.
//
// # How an action goes through here
//
// exec fills an Action from a chain and calls Run, which returns a Result; for a failure the Result has a Trouble, by
// which package retry decides about another try. Wall, Args and Limit read the parts of a configuration that all
// primitives share.
package primitive

import (
	"context"
	"fmt"
	"math"
	"os"
	"strconv"
	"time"

	"github.com/rye-build/rye/ai/capability"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/exec/sandbox"
	"github.com/rye-build/rye/manifest/jcs"
	"github.com/rye-build/rye/manifest/policy/floor"
)

// Bare is a primitive that may need only the configuration for an action: no files of the chain, no directory, no
// environment. Its method reports whether an action with this configuration is one.
type Bare interface {
	Bare(config map[string]any) bool
}

// A Keeper may still have, from an earlier action, everything that it would read from the chain's files.
type Keeper interface {
	// Keeps reports whether the Keeper has anything for a later action.
	Keeps() bool
	// Take puts the Keeper's data for an action into Action.Kept, and reports whether it has any. Such an action has
	// no writable directory and no environment. Own is only the name of the earlier action's directory: its files may
	// be missing or changed, and Run reads none of them. The caller either runs the action or calls release.
	Take(a *Action) (release func(), ok bool)
}

// A Readier can do slow work before an action is prepared. Ready is called when an action probably follows, with or
// without a network, and nothing else is known about it.
type Readier interface {
	Ready(network bool)
}

// A Primitive performs actions. It is safe for concurrent use.
type Primitive interface {
	// Run performs an action, and returns once everything that it started has ended. When the context ends, the
	// action stops with a Result like any other, since it may have had effects. An error means that nothing happened:
	// the action can't be performed, or not in a safe enough sandbox. The sink may be nil.
	Run(ctx context.Context, a *Action, to Sink) (*Result, error)
}

// An Action is the work of one call of a primitive.
type Action struct {
	Config  map[string]any // JSON values, valid by the primitive's config_schema
	Env     []string       // NAME=VALUE, sorted
	Dir     string         // the working directory unless Config names another
	Sandbox sandbox.Spec
	Files   Files
	// Programs are the programs that a Starter or Seeker names, resolved and opened.
	Programs map[string]Program
	// Own is the directory of the chain's own files, which are pinned and read-only.
	Own string
	// Permissions are the capabilities for calls of rye's own functions.
	Permissions capability.Set
	// Stranger reports whether the chain, or that of a calling call, has another signer's item.
	Stranger bool
	// Pure reports whether the tool promises the same value for the same parameters. Such a tool gets no real clock
	// and no real randomness.
	Pure bool
	// Tool is the ref of the action's tool, and Links are the refs of its chain, from the tool to the primitive.
	Tool  string
	Links []string
	// Share separates callers: actions with different values share nothing that lives longer than an action.
	Share string
	// Scratch is the directory, of this action alone, that contains Dir and other writable directories.
	Scratch string
	// Kept is what Keeper.Take stored for this action, or nil.
	Kept any
	// Hold keeps the files of the action until release is called, for a process that outlives the action. It is
	// called while the action runs. nil: the files outlive every such process anyway.
	Hold func() (release func())
	// Identity is the digest of everything that determines a pure tool's value, and of its signers: actions with
	// equal ones may share an answer. It is zero for an action with a secret.
	Identity cas.Digest
}

// Wall returns the time limit of the action: the shorter of its sandbox's limit and its configuration's "timeout", in
// seconds; 0 for none.
func (a *Action) Wall() time.Duration {
	wall := a.Sandbox.Limits.Wall
	seconds, ok := jcs.Number(a.Config["timeout"])
	if !ok {
		return wall
	}
	// A number too large for a Duration is longer than any other limit.
	if t := seconds * float64(time.Second); t < math.MaxInt64/2 && (wall == 0 || time.Duration(t) < wall) {
		return max(time.Duration(t), time.Millisecond)
	}
	return wall
}

// Args returns the texts under "args" in the configuration.
func (a *Action) Args() ([]string, error) {
	list, _ := a.Config["args"].([]any)
	args := make([]string, len(list))
	for i, v := range list {
		text, ok := v.(string)
		if !ok {
			return nil, fmt.Errorf("an argument must be a string, not %v", v)
		}
		args[i] = text
	}
	return args, nil
}

// Limit returns the limit that ended an action, as it is declared: "memory_mib: 200 (limits: in the tool)".
func (a *Action) Limit(ended string) string {
	if ended == "message" { // without output_mib a server's message has its own limit
		return "4 MiB for a message of a server; output_mib under limits: in the tool sets another"
	}
	limits := a.Sandbox.Limits.OrDefaults()
	for _, of := range []struct {
		ended, name string
		value       any
	}{
		{"cpu", "cpu_seconds", limits.CPU.Seconds()}, {"memory", "memory_mib", limits.Memory >> 20},
		{"written", "written_mib", limits.Written >> 20},
		{"output", "output_mib", limits.Output >> 20}, {"processes", "processes", limits.Processes},
		{"timeout", "duration_seconds", limits.Wall.Seconds()},
	} {
		// A runtime may set a shorter limit for its code.
		if own, err := strconv.ParseFloat(fmt.Sprint(a.Config[ended]), 64); err == nil &&
			(ended == "steps" || ended == "timeout" && own < limits.Wall.Seconds()) {
			return fmt.Sprintf("%s: %s (config: in the tool or its runtime)", ended,
				strconv.FormatFloat(own, 'f', -1, 64))
		}
		if ended == of.ended {
			return fmt.Sprintf("%s: %v (limits: in the tool)", of.name, of.value)
		}
	}
	return ""
}

// Files lists the project files that an action may read and write, for a primitive that opens them itself. The
// Sandbox also has these paths, but not which of them belong to the project. A pure tool has only the files of a
// build step.
type Files struct {
	Project     string   // absolute
	Read, Write []string // absolute; for each file the nearest path above it in Read, Write and Sandbox.Deny decides
}

// A Program is a program that the action may start.
type Program struct {
	Path string
	// File is the program, opened before it was hashed, if the program is pinned; otherwise nil. The creator of the
	// action closes it.
	File *os.File
}

// A Stream is one of the outputs of an action.
type Stream uint8

// The streams.
const (
	Stdout Stream = iota
	Stderr
)

// A Sink receives output as it is written. Emit is called by one goroutine at a time and must not keep b. An error
// ends the action, as its cancellation would.
type Sink interface {
	Emit(s Stream, b []byte) error
}

// A Result is how an action ended.
type Result struct {
	Value   any    // the action's value, as JSON values
	Failure string // the reason, in the action's own words; only with Failed
	Failed  bool
	// the limit or cancellation that ended it: a word of package sandbox, steps or message; otherwise ""
	Ended    string
	Exit     int    // of a process
	Signal   string // the signal that ended the process; "" for none
	Level    floor.Level
	Enforced []string
	Denied   []string // hosts that the sandbox refused the program, such as "example.com:443"
	Asides   []string // as in sandbox.Ending
	Closed   string   // as in sandbox.Ending
	Usage    map[string]int64
	Trouble  *Trouble // details of a failure; nil if there are none
	// Applied lists a wrapper's steps in order, such as retries.
	Applied []string
}

// A Trouble describes a failure to a caller that may retry.
type Trouble struct {
	Status     int           // of the protocol, such as 503; 0 for none
	Type, Code string        // such as ConnectionError, insufficient_quota
	After      time.Duration // how long the service asks to wait; 0 if it doesn't
	Undone     bool          // nothing happened: the service reports that, or was never reached
	Repeatable bool          // a repetition has no further effect
}

// A Starter starts programs that its configuration names.
type Starter interface {
	Starts(config map[string]any) []string
}

// A Seeker starts those programs of its configuration that exist. Action.Programs has no entry for the others.
type Seeker interface {
	Seeks(config map[string]any) []string
}

// A Closer is closed after its last action.
type Closer interface {
	Close() error
}

// An Asker names the service that actions with a configuration call, since a failure of one predicts failures of
// others. "" means no particular service.
type Asker interface {
	Asks(config map[string]any) string
}
