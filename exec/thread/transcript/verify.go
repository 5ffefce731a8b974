package transcript

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/rye-build/rye/exec/audit/receipt"
	"github.com/rye-build/rye/manifest/jcs"
	"github.com/rye-build/rye/manifest/key"
)

// A Check has the requirements of a transcript.
type Check struct {
	Keys     []key.Public // trusted keys of machines, or of users that vouch for them
	Vouchers [][]byte     // for machines, in addition to those in the transcript
	Thread   string       // the required thread, or ""
	Seen     []Position   // lines that must still exist
	// Unfinished allows a thread without a signed end: it runs, was interrupted, or its end was cut off.
	Unfinished bool
}

// The status of a thread, by its last event.
const (
	StatusCompleted  = "completed"
	StatusError      = "error"
	StatusCancelled  = "cancelled"
	StatusKilled     = "killed"
	StatusContinued  = "continued"
	StatusUnfinished = "unfinished" // without a signed end
)

// A Report is the result of Verify. Its facts are those that a checkpoint proves; the lines after the last
// checkpoint are only counted.
type Report struct {
	Format       string          `json:"format"`
	Thread       string          `json:"thread"`
	Status       string          `json:"status"`
	Lines        int64           `json:"lines"`
	Bytes        int64           `json:"bytes"` // of lines
	PayloadBytes int64           `json:"payload_bytes"`
	Unsigned     int64           `json:"unsigned"` // lines after the last checkpoint
	Torn         bool            `json:"torn"`     // ends in an incomplete write
	Checkpoints  int64           `json:"checkpoints"`
	Machines     []Machine       `json:"machines"` // that signed checkpoints
	Started      *Started        `json:"started,omitempty"`
	Began        time.Time       `json:"began,omitzero"`
	Ended        time.Time       `json:"ended,omitzero"` // of the last event
	Turns        int64           `json:"turns"`
	Calls        int64           `json:"calls"` // of tools
	Models       []ModelUse      `json:"models"`
	Tools        []ToolUse       `json:"tools"`
	End          json.RawMessage `json:"end,omitempty"` // payload of the last event
	Last         Position        `json:"last"`
	Signed       Position        `json:"signed,omitzero"` // the last checkpoint
	Problem      *Problem        `json:"problem,omitempty"`
}

// A Machine is a key that signed checkpoints.
type Machine struct {
	Key         key.Public `json:"key"`
	By          key.Public `json:"by"` // the key that vouches for it, or itself
	Checkpoints int64      `json:"checkpoints"`
}

// A ModelUse is the calls of one model.
type ModelUse struct {
	Provider Item   `json:"provider"`
	Model    string `json:"model"`
	Calls    int64  `json:"calls"`
	Failed   int64  `json:"failed"`
	Usage    Usage  `json:"usage"`
	Cost     int64  `json:"cost"` // nano-dollars
}

// A ToolUse is the calls of one item.
type ToolUse struct {
	Item
	Calls int64 `json:"calls"`
}

// Verify reads and checks the whole transcript of a thread's directory. A problem of the transcript is in the
// report; the error is for unreadable files.
func Verify(ctx context.Context, dir string, c Check) (*Report, error) {
	r, err := OpenReader(dir)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return VerifyReader(ctx, r, c)
}

// VerifyReader is Verify for a Reader at its beginning.
func VerifyReader(ctx context.Context, r *Reader, c Check) (*Report, error) {
	v := newVerifier(c)
	v.ctx = ctx
	if err := v.readAll(r); err != nil {
		return nil, err
	}
	v.report.Models, v.report.Tools = v.proven.lists()
	return &v.report, nil
}

type verifier struct {
	Check
	ctx      context.Context
	report   Report
	machines map[key.Public]*Machine
	order    []*Machine
	voucher  []byte // of the driver
	asked    modelKey
	proven   facts
	pending  facts // since the last checkpoint
	end      *Event
}

func newVerifier(c Check) *verifier {
	v := &verifier{Check: c, ctx: context.Background(), machines: map[key.Public]*Machine{}, proven: newFacts(),
		pending: newFacts()}
	v.Seen = slices.Clone(c.Seen)
	slices.SortFunc(v.Seen, func(a, b Position) int { return int(a.Seq - b.Seq) })
	v.report.Format, v.report.Status, v.report.Machines = Format, StatusUnfinished, []Machine{}
	return v
}

// readAll reads to the end or the first problem.
func (v *verifier) readAll(reader *Reader) error {
	var err error
	for err == nil {
		var e *Event
		if e, err = reader.Next(); err == nil {
			err = v.event(reader, e)
		}
		if err == nil && e.Seq%64 == 0 {
			err = context.Cause(v.ctx)
		}
	}
	if err == io.EOF {
		err = v.atEnd(reader)
	}
	v.report.Torn, v.report.Last = reader.Torn, reader.Last()
	v.report.Bytes, v.report.PayloadBytes = reader.at, reader.large
	v.report.Unsigned = v.report.Lines - v.report.Signed.Seq
	for _, m := range v.order {
		v.report.Machines = append(v.report.Machines, *m)
	}
	if p, ok := errors.AsType[*Problem](err); ok {
		v.report.Problem, err = p, nil
	}
	if err == io.EOF {
		return nil
	}
	return err
}

// event checks an event that follows the previous ones.
func (v *verifier) event(reader *Reader, event *Event) error {
	for ; len(v.Seen) > 0 && v.Seen[0].Seq <= event.Seq; v.Seen = v.Seen[1:] {
		if p := v.Seen[0]; p != event.Position() {
			return &Problem{p.Seq, Replaced, fmt.Sprintf("this line was %s before", p.Digest.Short())}
		}
	}
	v.report.Lines++
	v.report.Ended = event.Time
	switch event.Type {
	case TypeDriver:
		v.voucher = nil
		if o, ok := event.value["voucher"]; ok {
			var err error
			if v.voucher, err = jcs.Append(nil, o); err != nil {
				return err
			}
		}
	case TypeCheckpoint:
		if err := v.checkpoint(event, reader.order.key); err != nil {
			return err
		}
	case TypeStarted:
		if v.Thread != "" && event.Thread != v.Thread {
			return &Problem{1, Swapped, fmt.Sprintf("it belongs to the thread %s, expected %s", event.Thread,
				v.Thread)}
		}
	}
	return v.believe(event)
}

// believe adds an event to the report. Call it for a checkpoint only after checking its signature, because a
// checkpoint proves everything before it.
func (v *verifier) believe(event *Event) error {
	switch event.Type {
	case TypeStarted:
		v.report.Thread, v.report.Began, v.report.Started = event.Thread, event.Time, new(Started)
		return event.Decode(v.report.Started)
	case TypeCheckpoint:
		v.report.Checkpoints++
		v.report.Signed = event.Position()
		v.proven.add(&v.pending)
		v.pending = newFacts()
		v.report.Turns, v.report.Calls = v.proven.turns, v.proven.calls
		if v.end != nil {
			v.report.Status, v.report.End = statusOf(v.end), v.end.Payload
		}
	default:
		v.take(event)
	}
	return nil
}

// checkpoint checks the signature of a checkpoint.
func (v *verifier) checkpoint(e *Event, k key.Public) error {
	m, err := v.machine(k)
	if err != nil {
		return &Problem{e.Seq, Untrusted, fmt.Sprintf("signed by machine %s, which none of the keys vouches for",
			k.Fingerprint().Short())}
	}
	if !e.holds(k) {
		return &Problem{e.Seq, Forged,
			fmt.Sprintf("invalid signature by machine %s: lines after %d were changed",
				k.Fingerprint().Short(), v.report.Signed.Seq)}
	}
	m.Checkpoints++
	return nil
}

// machine returns the record of a machine that a trusted key vouches for.
func (v *verifier) machine(k key.Public) (*Machine, error) {
	if m := v.machines[k]; m != nil {
		return m, nil
	}
	machine := &Machine{Key: k, By: k}
	var err error
	for _, b := range append([][]byte{v.voucher}, v.Vouchers...) {
		if machine.By, err = receipt.CheckVoucher(b, k, v.Keys); err == nil {
			break
		}
	}
	if err != nil && !slices.Contains(v.Keys, k) {
		return nil, err
	}
	if err != nil {
		machine.By = k
	}
	v.machines[k], v.order = machine, append(v.order, machine)
	return machine, nil
}

// statusOf returns the status for the event that ends a thread.
func statusOf(e *Event) string {
	switch e.Type {
	case TypeCompleted:
		return StatusCompleted
	case TypeFailed:
		return StatusError
	case TypeHandedOff:
		return StatusContinued
	}
	if e.value["killed"] == true {
		return StatusKilled
	}
	return StatusCancelled
}

// atEnd checks that the transcript may end here. It returns io.EOF if so.
func (v *verifier) atEnd(reader *Reader) error {
	at := reader.last.Seq + 1
	surplus, err := reader.surplus()
	switch {
	case err != nil:
		return err
	case len(v.Seen) > 0:
		return &Problem{at, Replaced, fmt.Sprintf("line %d existed before", v.Seen[0].Seq)}
	case at == 1:
		return &Problem{1, Unsigned, "the transcript is empty"}
	case v.report.Signed.Seq == 0:
		return &Problem{at, Unsigned, "no checkpoint: nothing of it is signed"}
	case v.Unfinished && v.report.Status == StatusUnfinished:
		return io.EOF
	case v.report.Status == StatusUnfinished:
		return &Problem{at, Unfinished, "no signed end: the thread runs, was interrupted, or its end was cut off"}
	case v.report.Signed.Seq != reader.last.Seq || reader.Torn || surplus:
		return &Problem{at, Edited, "data after the signed end"}
	}
	return io.EOF
}

// surplus reports whether payloads follow that no line names.
func (r *Reader) surplus() (bool, error) {
	_, err := r.payloads.ReadByte()
	if err == nil {
		r.Torn = true
		return true, r.payloads.UnreadByte()
	}
	if err == io.EOF {
		err = nil
	}
	return false, err
}
