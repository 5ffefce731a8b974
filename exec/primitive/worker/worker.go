// Package worker runs an interpreter of a tool's code in a child process: this binary, started again in the sandbox
// of the call. Code that breaks out of the interpreter is then confined like any other program.
//
// # How a call goes through here
//
// Pool.Run takes an idle child or starts one (take, start), writes the request (call) and parses the frames of the
// answer (reader.Write, reader.frame), which reader.end turns into an End; then the child is kept (give) or ended
// (end). Host.Run does the same with a child for one call. The child reads requests with Read and answers with a
// Writer.
//
// # The conversation
//
// The child reads a request from its standard input: a 4-byte big-endian length and JSON. The input of the tool's
// code follows. The child answers on its standard output in frames:
//
//	1 byte   kind: 'o' and 'e' the standard streams of the code, 'x' its exit status (4 bytes), 'v' its value,
//	         't' why it trapped, 'n' why it can't run: nothing happened; 'u' the child's usage so far:
//	         milliseconds of processor time and bytes of memory, 8 bytes each
//	4 bytes  length, big-endian, at most MaxFrame, except for a value
//	…        that many bytes
//
// A frame of 'x', 'v', 't' or 'n' ends the conversation. A child in a Pool then reads the next request; it sends its
// usage before the frame that ends a conversation. The child's standard error belongs to the interpreter, and
// explains a missing last frame.
package worker

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/proc"
	"github.com/rye-build/rye/exec/sandbox"
)

// A Host starts guests.
type Host struct {
	Machine *sandbox.Machine
	Self    []string // the command that starts this binary as the guest: an absolute path, then arguments
	Env     []string // the whole environment of the guest
}

// A Call is the work of a guest.
type Call struct {
	Sandbox   sandbox.Spec // its output limit counts the bytes in frames
	Request   any          // a value of encoding/json
	Input     string
	Dir       string
	Out, Errs io.Writer // the standard streams of the code
	Stop      func()    // cancels the context of the call
	Taken     *Taken    // the reserved guest for this call of a Pool; nil: any guest
}

// An End is how a call ended.
type End struct {
	sandbox.Ending
	Kind   byte   // of the last frame; 0 if there was none
	Text   []byte // of the last frame
	Broken string // why the last frame is missing, unless a limit ended the guest
}

// maxComplaint bounds the recorded standard error of a guest.
const maxComplaint = 64 << 10

// Run makes a call in a new guest, and returns when the guest has ended. An error means that nothing happened.
func (h *Host) Run(ctx context.Context, call Call) (*End, error) {
	if len(h.Self) == 0 {
		return nil, &sandbox.UnavailableError{Level: call.Sandbox.Level,
			Missing: []string{"a child process: missing in this program"}}
	}
	head, err := appendRequest(nil, call.Request)
	if err != nil {
		return nil, err
	}
	spec := call.Sandbox
	spec.Most, spec.Network = true, sandbox.Network{}
	spec.Limits = spec.Limits.OrDefaults()
	reader := &reader{out: call.Out, errs: call.Errs, left: spec.Limits.Output, stop: call.Stop}
	// A frame with one byte of output has six bytes.
	spec.Limits.Output = 8*spec.Limits.Output + 1<<20
	complaint := &proc.Head{Room: maxComplaint}
	o, err := h.Machine.Run(ctx, spec, proc.Command{
		Path: h.Self[0], Args: h.Self[1:], Env: h.Env, Dir: call.Dir,
		Stdin: io.MultiReader(bytes.NewReader(head), strings.NewReader(call.Input)), Stdout: reader, Stderr: complaint,
	})
	if err != nil {
		return nil, err
	}
	return reader.end(o, complaint.String())
}

// end is how a call ended whose guest has ended, or has answered.
func (r *reader) end(ending *sandbox.Ending, complaint string) (*End, error) {
	end := &End{Ending: *ending, Kind: r.kind, Text: r.text}
	end.Usage["stdout_bytes"], end.Usage["stderr_bytes"] = r.counts[0], r.counts[1]
	switch {
	case errors.Is(r.err, errOutput):
		end.Ended = "output"
	case r.err != nil:
		end.Ended, end.Kind, end.Text, end.Broken = "", 0, nil, r.err.Error()
	case r.kind == Refused && ending.Ended == "":
		return nil, errors.New(string(r.text))
	case r.kind != 0 && r.kind != Refused:
		end.Ended = "" // the code ended before the limit did
	case ending.Ended == "":
		text, _, _ := strings.Cut(strings.TrimSpace(strings.ToValidUTF8(complaint, "\ufffd")), "\n\n") // stacks follow
		end.Broken = "the guest ended without an answer: " + text
		if OutOfMemory(complaint) {
			end.Ended = "memory"
		}
	}
	return end, nil
}

// OutOfMemory reports whether a Go program ended because it couldn't get memory, or because its stack was too deep.
// Go's collector doesn't check whether it got memory for a queue: the program then ends with a signal inside that
// queue.
func OutOfMemory(complaint string) bool {
	return slices.ContainsFunc([]string{"out of memory", "cannot allocate memory", "goroutine stack exceeds",
		"failed to create new OS thread", "stack overflow", "runtime.(*spanQueue)."},
		func(words string) bool { return strings.Contains(complaint, words) })
}

// Cut shortens the text of a frame.
func Cut(text string) []byte {
	return []byte(fault.Clip(text, 4000))
}
