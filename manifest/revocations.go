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
	s := newScan(in, &revocationsSpec, "")
	if !s.head() {
		return nil, s.Err()
	}
	bad := func(line int, err error) (*Revocations, error) { return nil, badDocument("revocations", line, err) }
	r := &Revocations{List: string(s.HeaderStr(0)), Counter: s.HeaderInt(1)}
	var ok, ok2 bool
	r.Issued, ok = parseTime(s.HeaderStr(2))
	r.Expires, ok2 = parseTime(s.HeaderStr(3))
	switch err := portable.CheckID(r.List); {
	case err != nil:
		return bad(0, err)
	case r.Counter == 0:
		return bad(0, errors.New("the counter begins with 1"))
	case !ok || !ok2 || !r.Issued.Before(r.Expires):
		return bad(0, fmt.Errorf("issued and expires are not two times such as %q, one before the other", timeForm))
	}
	for s.Scan() {
		e, err := policy.ParseRevocation(string(s.Key()))
		if err == nil && e.What() != string(s.Key()) {
			err = fmt.Errorf("%+q is neither a key nor a digest", s.Key())
		}
		if err != nil {
			return bad(s.Line(), err)
		}
		if e.Date, ok = parseTime(s.Str(0)); !ok {
			return bad(s.Line(), fmt.Errorf("date is not a time such as %q", timeForm))
		}
		if e.Reason = string(s.Str(1)); !plain(e.Reason) {
			return bad(s.Line(), errors.New("reason is not one line of visible text"))
		}
		r.Entries = append(r.Entries, e)
	}
	if s.Err() != nil {
		return nil, s.Err()
	}
	var err error
	if r.Document, err = s.document(sign.Revocations, "revocations:"+r.List); err != nil {
		return nil, err
	}
	return r, nil
}

// AppendRevocations appends the document with the content of r, without signature lines, and returns it as
// ReadRevocations would. It ignores r's Document, and the Entries may be in any order. It writes nothing that can't be
// read back.
func AppendRevocations(dst []byte, r *Revocations) ([]byte, *Revocations, error) {
	e := canon.NewEncoderBytes(dst, &revocationsSpec)
	e.HeaderStr(0, r.List)
	e.HeaderInt(1, r.Counter)
	e.HeaderStr(2, timeText(r.Issued))
	e.HeaderStr(3, timeText(r.Expires))
	for _, entry := range sorted(r.Entries, policy.Revocation.What) {
		e.Begin(0, entry.What())
		e.Str(0, timeText(entry.Date))
		if entry.Reason != "" {
			e.Str(1, entry.Reason)
		}
		e.End()
	}
	if err := e.Close(); err != nil {
		return dst, nil, err
	}
	read, err := ReadRevocations(bytes.NewReader(e.Bytes()[len(dst):]))
	if err != nil {
		return dst, nil, err
	}
	return e.Bytes(), read, nil
}
