package main

import (
	"errors"
	"io/fs"
	"strings"

	"github.com/rye-build/rye/exec/audit"
	"github.com/rye-build/rye/exec/audit/journal"
	"github.com/rye-build/rye/exec/audit/machine"
	"github.com/rye-build/rye/exec/audit/receipt"
	"github.com/rye-build/rye/exec/audit/record"
	"github.com/rye-build/rye/manifest/attest"
)

// ofAudit recognises what the rooms below exec/audit say.
func (f *fault) ofAudit() bool {
	var (
		problem  *journal.Problem
		damaged  *journal.DamagedError
		version  *audit.VersionError
		field    *record.FieldError
		voucher  *machine.VoucherError
		link     *receipt.LinkError
		unknown  *receipt.UnknownError
		form     *receipt.Error
		envelope *attest.EnvelopeError
	)
	switch {
	case errors.As(f.err, &problem):
		f.code, f.hint = "INTEGRITY_FAILED", []string{"rye audit verify"}
		f.details = map[string]any{"reason": "audit-log", "file": problem.File, "line": problem.Line}
	case errors.As(f.err, &damaged):
		f.code, f.hint = "INTEGRITY_FAILED", []string{"rye audit verify"}
		f.details = map[string]any{"reason": "audit-log", "path": damaged.Path}
		f.why = []string{"nothing is written behind what was changed: look at it, keep a copy, and move the directory away"}
	case errors.As(f.err, &version):
		f.code, f.hint = "VERSION_MISMATCH", []string{"rye version"}
	case errors.As(f.err, &field):
		f.code = codeValidation
	case errors.As(f.err, &link):
		f.details = map[string]any{"reason": "receipt-link", "call": link.Child.Call, "receipt": link.Child.Receipt.String()}
		if errors.Is(link.Err, fs.ErrNotExist) {
			f.code, f.message = codeItem, "the receipt of the call "+link.Child.Call+" isn't there: "+link.Child.Receipt.String()
			break
		}
		if f.code = classify(link.Err).code; f.code == codeUnknown {
			f.code = "INTEGRITY_FAILED"
		}
	case errors.As(f.err, &unknown):
		f.code, f.details = "UNTRUSTED_KEY", map[string]any{"reason": "unknown-machine", "machine": unknown.Machine.String()}
		f.hint = []string{"rye audit verify RECEIPT --key PUBKEY"}
		if unknown.Err != nil && !errors.As(unknown.Err, &voucher) {
			f.message = strings.TrimSuffix(f.message, ": "+unknown.Err.Error()) // that it is another key's, which is said already
		}
	case errors.As(f.err, &form), errors.As(f.err, &voucher), errors.As(f.err, &envelope):
		f.code = "PARSING_ERROR"
	default:
		return false
	}
	return true
}
