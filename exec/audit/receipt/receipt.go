package receipt

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/audit/record"
	"github.com/rye-build/rye/manifest/attest"
	"github.com/rye-build/rye/manifest/jcs"
	"github.com/rye-build/rye/manifest/key"
)

// PredicateType is the predicate type of the statement in a receipt.
const PredicateType = "https://github.com/rye-build/rye/receipt/v1"

// A Receipt records the inputs and outputs of one call.
type Receipt struct {
	Call     record.Call
	Outcome  record.End // without Receipt, which is this one's digest
	Begin    time.Time
	End      time.Time
	Children []Child         // in the order of the calls
	Log      record.Position // the call's first line in the log; zero for none

	// Verify sets these.
	Machine key.Public // the key that signed
	By      key.Public // the trusted key that vouches for it, or the machine's own if that is trusted
	Digest  cas.Digest // of the receipt's bytes
}

// A Child is a call that the call made.
type Child struct {
	Call    string     `json:"call"`
	Receipt cas.Digest `json:"receipt"`
}

// invalid returns the error for invalid bytes, or for a receipt that can't be written. It keeps the code of err.
func invalid(err error) error {
	f := fault.Wrap(err, "receipt: %v", err)
	if f.Code == fault.Unknown {
		f.Code = fault.Parsing
	}
	return f
}

func bad(format string, args ...any) error { return invalid(fmt.Errorf(format, args...)) }

// New returns a receipt, signed by a machine. The voucher comes from Vouch, or is nil.
func New(r Receipt, signer key.Private, voucher []byte) ([]byte, error) {
	if signer.IsZero() {
		return nil, bad("no signing key")
	}
	if voucher != nil && !json.Valid(voucher) {
		return nil, bad("the voucher is not valid JSON")
	}
	r.Machine = signer.Public()
	payload, err := r.payload(voucher)
	if err != nil {
		return nil, err
	}
	e, err := attest.NewEnvelope(attest.StatementPayload, payload)
	if err != nil {
		return nil, invalid(err)
	}
	if err := e.Sign(signer); err != nil {
		return nil, invalid(err)
	}
	return e.Append(nil)
}

// Verify parses a receipt, and returns it only if one of the keys signed it or vouches for the machine that did.
func Verify(envelope []byte, keys []key.Public) (*Receipt, error) {
	parsed, err := attest.ParseEnvelope(envelope)
	if err != nil {
		return nil, err
	}
	// The payload itself names its signer, so nothing in it is trusted before the signature is verified.
	payloadType, payload := parsed.Unverified()
	if payloadType != attest.StatementPayload {
		return nil, bad("expected a payload of type %q, found %+q", attest.StatementPayload, payloadType)
	}
	receipt, voucher, err := parse(payload)
	if err != nil {
		return nil, err
	}
	var unknown error
	if voucher != nil {
		receipt.By, unknown = CheckVoucher(voucher, receipt.Machine, keys)
	}
	switch {
	case !receipt.By.IsZero():
	case slices.Contains(keys, receipt.Machine):
		receipt.By = receipt.Machine
	default:
		return nil, unknownMachine(receipt.Machine.Fingerprint(), unknown)
	}
	if _, _, _, err := parsed.Verify([]key.Public{receipt.Machine}, 1); err != nil {
		return nil, err
	}
	receipt.Digest = cas.Sum(envelope)
	return receipt, nil
}

// unknownMachine returns the error for a receipt of a machine that no trusted key vouches for. cause is the reason
// why its voucher doesn't count; nil if it has none.
func unknownMachine(m key.Fingerprint, cause error) error {
	f := fault.New(fault.UntrustedKey, "receipt: signed by machine %s, which none of the keys vouches for", m.Short()).
		On("reason", "unknown-machine").On("machine",
		m.String()).Try("rye audit verify RECEIPT --key PUBKEY").From(cause)
	if cause != nil && fault.CodeOf(cause) == fault.Parsing { // other causes would repeat the message
		f.Text += ": " + cause.Error()
	}
	return f
}

func (r *Receipt) subjects() []attest.Subject {
	list := []attest.Subject{{Name: r.Call.Ref, Digests: attest.DigestsOf(r.Call.Digest)}}
	if !r.Outcome.Result.IsZero() {
		list = append(list, attest.Subject{Name: "result", Digests: attest.DigestsOf(r.Outcome.Result)})
	}
	return list
}

const timeForm = "2006-01-02T15:04:05.000Z"

var errTimes = errors.New("invalid begin or end time")

// MaxChildren bounds the calls that one call may have made.
const MaxChildren = 1 << 15

func (r *Receipt) check() error {
	if err := r.Call.Check(); err != nil {
		return err
	}
	if err := r.Outcome.Check(); err != nil {
		return err
	}
	if !r.Outcome.Receipt.IsZero() {
		return errors.New("the outcome must not name a receipt")
	}
	for _, t := range []time.Time{r.Begin, r.End} {
		if y := t.UTC().Year(); t.IsZero() || y < 0 || y > 9999 {
			return errTimes
		}
	}
	if len(r.Children) > MaxChildren {
		return fmt.Errorf("%d child calls, at most %d are allowed", len(r.Children), MaxChildren)
	}
	seen := map[string]bool{}
	for _, c := range r.Children {
		if err := record.CheckID(c.Call); err != nil {
			return err
		}
		if seen[c.Call] || c.Call == r.Call.ID || c.Receipt.IsZero() {
			return fmt.Errorf("the child %q is a duplicate, is the call itself, or has no receipt", c.Call)
		}
		seen[c.Call] = true
	}
	return nil
}

// A predicate is the JSON form of a receipt. Its times are in timeForm.
type predicate struct {
	Begin    string           `json:"begin"`
	Call     json.RawMessage  `json:"call"`
	Children []Child          `json:"children,omitempty"`
	End      string           `json:"end"`
	ID       string           `json:"id"`
	Log      *record.Position `json:"log,omitempty"`
	Machine  signer           `json:"machine"`
	Outcome  json.RawMessage  `json:"outcome"`
}

type signer struct {
	Key     key.Public      `json:"key"`
	Voucher json.RawMessage `json:"voucher,omitempty"`
}

// payload writes the statement. The voucher is in canonical form. Verify accepts exactly these bytes.
func (r *Receipt) payload(voucher []byte) ([]byte, error) {
	if err := r.check(); err != nil {
		return nil, invalid(err)
	}
	machine := map[string]any{"key": r.Machine.String()}
	if voucher != nil {
		machine["voucher"] = jcs.Text(voucher)
	}
	call, outcome := r.Call.Append(nil), r.Outcome.Append(nil)
	object := map[string]any{
		"begin": r.Begin.UTC().Format(timeForm), "call": jcs.Text(call), "end": r.End.UTC().Format(timeForm),
		"id": r.Call.ID, "machine": machine, "outcome": jcs.Text(outcome),
	}
	if len(r.Children) > 0 {
		children := make([]any, len(r.Children))
		for i, c := range r.Children {
			children[i] = map[string]any{"call": c.Call, "receipt": c.Receipt.String()}
		}
		object["children"] = children
	}
	if l := r.Log; l != (record.Position{}) {
		object["log"] = map[string]any{"segment": l.Segment, "line": l.Line, "sum": l.Sum.String()}
	}
	text, err := jcs.Append(make([]byte, 0, len(call)+len(outcome)+len(voucher)+128*len(r.Children)+512), object)
	if err != nil {
		return nil, invalid(err)
	}
	s := attest.Statement{Subjects: r.subjects(), PredicateType: PredicateType, Predicate: text, Canonical: true}
	return s.Append(nil)
}

// parse reads a payload. It doesn't verify any signature.
func parse(payload []byte) (*Receipt, []byte, error) {
	s, err := attest.ParseStatement(payload)
	if err != nil {
		return nil, nil, err
	}
	if s.PredicateType != PredicateType {
		return nil, nil, bad("expected predicate type %q, found %+q", PredicateType, s.PredicateType)
	}
	var predicate predicate
	if err := json.Unmarshal(s.Predicate, &predicate); err != nil {
		return nil, nil, bad("invalid predicate: %w", err)
	}
	if predicate.Machine.Key.IsZero() {
		return nil, nil, bad("the machine's key is missing")
	}
	receipt := &Receipt{Children: predicate.Children, Machine: predicate.Machine.Key}
	if predicate.Log != nil {
		receipt.Log = *predicate.Log
	}
	var early, late error
	receipt.Begin, early = time.Parse(timeForm, predicate.Begin)
	if receipt.End, late = time.Parse(timeForm, predicate.End); early != nil || late != nil {
		return nil, nil, invalid(errTimes)
	}
	if receipt.Call, err = record.ParseCall(predicate.ID, predicate.Call); err != nil {
		return nil, nil, bad("call: %w", err)
	}
	if receipt.Outcome, err = record.ParseEnd(predicate.Outcome); err != nil {
		return nil, nil, bad("outcome: %w", err)
	}
	// The parsers may skip some deviations, so compare the bytes with their canonical form.
	again, err := receipt.payload(predicate.Machine.Voucher)
	if err != nil {
		return nil, nil, err
	}
	if !bytes.Equal(again, payload) {
		return nil, nil, bad("not in canonical form")
	}
	return receipt, predicate.Machine.Voucher, nil
}
