package manifest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/rye-build/rye/cas/canon"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/portable"
	"github.com/rye-build/rye/manifest/policy"
	"github.com/rye-build/rye/manifest/sign"
)

// revocationsSpec is the document that the package comment shows.
var revocationsSpec = canon.Spec{
	Format: "revocations/2",
	Header: []canon.Field{
		{Name: "name", Max: portable.MaxID},
		{Name: "counter", Type: canon.Int},
		{Name: "issued", Max: int64(len(timeForm))},
		{Name: "expires", Max: int64(len(timeForm))},
	},
	Sections: []canon.Section{{Name: "revoked", Fields: []canon.Field{
		{Name: "date", Max: int64(len(timeForm))},
		{Name: "reason", Optional: true, Max: 400},
	}}},
	MaxBytes:   64 << 20,
	MaxEntries: 1 << 17,
}

// Revocations is one issue of a revocation list.
type Revocations struct {
	Document

	List    string // its name, by portable.CheckID
	Counter int64  // from 1, and greater with each issue
	Issued  time.Time
	Expires time.Time
	Entries []policy.Revocation // each with a date
}

// For returns the list for package policy, signed by the result of Check.
func (r *Revocations) For(signers []sign.Signer) (*policy.List, error) {
	return policy.NewList(policy.List{
		ID: r.ID, Name: r.List, Counter: r.Counter, Issued: r.Issued, Expires: r.Expires, Signers: signers,
	}, r.Entries)
}

// badDocument returns the error of a canonical document that isn't valid for its kind. Line 0 means the document as a
// whole.
func badDocument(kind string, line int, err error) error {
	if line == 0 {
		return fault.New(fault.Parsing, "%s: %v", kind, err).From(err)
	}
	return fault.New(fault.Parsing, "%s: line %d: %v", kind, line, err).From(err)
}

// ReadRevocations reads a revocation list, with or without its signature lines.
func ReadRevocations(in io.Reader) (*Revocations, error) {
	scan := newScan(in, &revocationsSpec, "")
	if !scan.head() {
		return nil, scan.Err()
	}
	bad := func(line int, err error) (*Revocations, error) { return nil, badDocument("revocations", line, err) }
	revocations := &Revocations{List: string(scan.HeaderStr(0)), Counter: scan.HeaderInt(1)}
	var ok, ok2 bool
	revocations.Issued, ok = parseTime(scan.HeaderStr(2))
	revocations.Expires, ok2 = parseTime(scan.HeaderStr(3))
	switch err := portable.CheckID(revocations.List); {
	case err != nil:
		return bad(0, err)
	case revocations.Counter == 0:
		return bad(0, errors.New("the counter begins with 1"))
	case !ok || !ok2 || !revocations.Issued.Before(revocations.Expires):
		return bad(0, fmt.Errorf("issued and expires are not two times such as %q, one before the other", timeForm))
	}
	for scan.Scan() {
		revocation, err := policy.ParseRevocation(string(scan.Key()))
		if err == nil && revocation.What() != string(scan.Key()) {
			err = fmt.Errorf("%+q is neither a key nor a digest", scan.Key())
		}
		if err != nil {
			return bad(scan.Line(), err)
		}
		if revocation.Date, ok = parseTime(scan.Str(0)); !ok {
			return bad(scan.Line(), fmt.Errorf("date is not a time such as %q", timeForm))
		}
		if revocation.Reason = string(scan.Str(1)); !plain(revocation.Reason) {
			return bad(scan.Line(), errors.New("reason is not one line of visible text"))
		}
		revocations.Entries = append(revocations.Entries, revocation)
	}
	if scan.Err() != nil {
		return nil, scan.Err()
	}
	var err error
	if revocations.Document, err = scan.document(sign.Revocations, "revocations:"+revocations.List); err != nil {
		return nil, err
	}
	return revocations, nil
}

// AppendRevocations appends the document with the content of r, without signature lines, and returns it as
// ReadRevocations would. It ignores r's Document, and the Entries may be in any order. It writes nothing that can't be
// read back.
func AppendRevocations(dst []byte, r *Revocations) ([]byte, *Revocations, error) {
	encoder := canon.NewEncoderBytes(dst, &revocationsSpec)
	encoder.HeaderStr(0, r.List)
	encoder.HeaderInt(1, r.Counter)
	encoder.HeaderStr(2, timeText(r.Issued))
	encoder.HeaderStr(3, timeText(r.Expires))
	for _, entry := range sorted(r.Entries, policy.Revocation.What) {
		encoder.Begin(0, entry.What())
		encoder.Str(0, timeText(entry.Date))
		if entry.Reason != "" {
			encoder.Str(1, entry.Reason)
		}
		encoder.End()
	}
	if err := encoder.Close(); err != nil {
		return dst, nil, err
	}
	read, err := ReadRevocations(bytes.NewReader(encoder.Bytes()[len(dst):]))
	if err != nil {
		return dst, nil, err
	}
	return encoder.Bytes(), read, nil
}
