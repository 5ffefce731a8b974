// Package primitive defines the last link of a chain: the only code that touches the world.
//
// Before a Primitive runs, everything is decided: the bytes, their signers, the grants, the parameters. It gets an
// Action, does that and nothing else, streams the output to a Sink, and reports how it ended. Package primitivetest
// checks every implementation.
//
// Optional abilities are interfaces of their own, found by assertion: starting programs, which must be known before
// they start (Starter, Seeker), closing after the last action (Closer), naming the service that an action calls
// (Asker), doing without files (Bare), or with those that an action before has read (Keeper), and getting ready while
// an action is prepared (Readier). Package resilient wraps a primitive.
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

// Bare is for a primitive that may need nothing but the configuration for an action: no files of the chain, no
// directory, no environment. Its method reports whether that is so.
type Bare interface {
	Bare(config map[string]any) bool
}

// A Keeper may have kept, from an action before, all that it has to read of the chain's files.
type Keeper interface {
	// Keeps reports whether anything is kept.
	Keeps() bool
	// Take puts into Action.Kept what is kept for an action, and reports whether there is something. Such an action
	// has no directory to write to and no environment, and Own is only the name of what did the like before: its files
	// may be gone or changed, and none is read. It is run or, when release is called, not any more.
	Take(a *Action) (release func(), ok bool)
}

// A Readier can begin with what takes long before an action is prepared. Its method is called when one probably
// follows, with or without a network, and nothing of it is known.
type Readier interface {
	Ready(network bool)
}

// A Primitive does actions. It may be used by many goroutines.
type Primitive interface {
	// Run does an action and returns how it ended. It returns when everything that it has started is gone. It stops
	// when the context ends, which is a Result like others: something may have happened. An error says that nothing
	// did: the action can't be done, or not as safely as it has to be. The sink may be nil.
	Run(ctx context.Context, a *Action, to Sink) (*Result, error)
}

// An Action is what a primitive is to do.
type Action struct {
	Config  map[string]any // in JSON's values, valid by the primitive's config_schema
	Env     []string       // NAME=VALUE, sorted
	Dir     string         // where it works if Config doesn't say
	Sandbox sandbox.Spec
	Files   Files
	// Programs are those that a Starter has named, found and looked at.
	Programs map[string]Program
	// Own is the directory of the chain's own files, which are pinned and read-only.
	Own string
	// Permissions is what the call may have rye itself do, for a primitive that does.
	Permissions capability.Set
	// Stranger says that another signer's item is in the chain, or in that of a call that led to this one.
	Stranger bool
	// Pure says that the tool promises the same value for the same parameters, so what has a clock or chance to offer
	// doesn't.
	Pure bool
	// Tool is the ref of the tool that it is of, and Links are those of its chain, from the tool to the primitive.
	Tool  string
	Links []string
	// Share tells callers apart: nothing that lives longer than an action is shared by actions that have another one.
	Share string
	// Scratch is the directory, of this action alone, that has Dir and other directories that may be written.
	Scratch string
	// Kept is what a Keeper has for this action, nil for nothing.
	Kept any
	// Hold keeps the files of the action until release is called, for what lives longer than the action. It is called
	// while the action runs; nil: nothing ends with the action.
	Hold func() (release func())
	// Identity is the digest of all that decides what a pure tool gives, and who vouches for it: equal ones may have
	// the same answer. It is zero where there is a secret in the action.
	Identity cas.Digest
}

// Wall is how long the action may take: what is shorter of its limit and of "timeout", in seconds, in its
// configuration; 0 if neither says.
func (a *Action) Wall() time.Duration {
	wall := a.Sandbox.Limits.Wall
	seconds, ok := jcs.Number(a.Config["timeout"])
	if !ok {
		return wall
	}
	// What doesn't fit is longer than anything else that holds.
	if t := seconds * float64(time.Second); t < math.MaxInt64/2 && (wall == 0 || time.Duration(t) < wall) {
		return max(time.Duration(t), time.Millisecond)
	}
	return wall
}

// Args are the texts under "args" in its configuration.
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
	if ended == "message" { // what a server sends at once has a limit of its own where no output_mib is declared
		return "4 MiB for a message of a server; output_mib under limits: in the tool sets another"
	}
	l := a.Sandbox.Limits.OrDefaults()
	for _, of := range []struct {
		ended, name string
		value       any
	}{
		{"cpu", "cpu_seconds", l.CPU.Seconds()}, {"memory", "memory_mib", l.Memory >> 20},
		{"written", "written_mib", l.Written >> 20},
		{"output", "output_mib", l.Output >> 20}, {"processes", "processes", l.Processes},
		{"timeout", "duration_seconds", l.Wall.Seconds()},
	} {
		// A runtime may have a shorter time for what it runs.
		if own, err := strconv.ParseFloat(fmt.Sprint(a.Config[ended]), 64); err == nil &&
			(ended == "steps" || ended == "timeout" && own < l.Wall.Seconds()) {
			return fmt.Sprintf("%s: %s (config: in the tool or its runtime)", ended,
				strconv.FormatFloat(own, 'f', -1, 64))
		}
		if ended == of.ended {
			return fmt.Sprintf("%s: %v (limits: in the tool)", of.name, of.value)
		}
	}
	return ""
}

// Files are what of the project an action may read and write, for a primitive that opens them itself. All of it stands
// in the Sandbox as well, where nothing says which paths are the project's. A pure tool has none but those of a
// build's step.
type Files struct {
	Project     string   // absolute
	Read, Write []string // absolute; the nearest one above a file decides, and Sandbox.Deny
}

// A Program is one that may be started.
type Program struct {
	Path string
	// File is the program, opened before it was hashed, if the program is pinned; else nil. The maker of the action
	// closes it.
	File *os.File
}

// A Stream is what comes out of an action.
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

// A Result says how an action ended.
type Result struct {
	Value   any    // what came out of it, in JSON's values
	Failure string // why the action's own answer is no, in words that it chose; with Failed
	Failed  bool
	// what ended it before its time: one of package sandbox's words, steps or message; "" if nothing did
	Ended    string
	Exit     int    // of a process
	Signal   string // that ended the process; "" if none did
	Level    floor.Level
	Enforced []string
	Usage    map[string]int64
	Trouble  *Trouble // more of a failure; nil where nothing is known but what stands above
	// Applied lists what a wrapper did, in order: that the action was tried again, or not at all.
	Applied []string
}

// A Trouble describes a failure for a caller that may try again.
type Trouble struct {
	Status     int           // of the protocol, as 503; 0 for none
	Type, Code string        // as ConnectionError, insufficient_quota
	After      time.Duration // what the other side asks to wait; 0 for nothing
	Undone     bool          // nothing has happened: the other side says so, or was never reached
	Repeatable bool          // doing it twice is as good as once
}

// A Starter starts programs, whose names or paths its configuration has.
type Starter interface {
	Starts(config map[string]any) []string
}

// A Seeker starts, of the programs that its configuration has, those that are there. The others are missing in
// Action.Programs.
type Seeker interface {
	Seeks(config map[string]any) []string
}

// A Closer is closed after its last action.
type Closer interface {
	Close() error
}

// An Asker names the service that an action with a configuration calls: if one such action fails, others will. ""
// means no particular one.
type Asker interface {
	Asks(config map[string]any) string
}
