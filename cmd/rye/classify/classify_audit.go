package classify

import (
	"errors"
	"io/fs"
	"strings"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/audit"
	"github.com/rye-build/rye/exec/audit/journal"
	"github.com/rye-build/rye/exec/audit/machine"
	"github.com/rye-build/rye/exec/audit/receipt"
	"github.com/rye-build/rye/exec/audit/record"
	"github.com/rye-build/rye/manifest/attest"
)

// ofAudit recognises what the rooms below exec/audit say.
func ofAudit(f *fault.Error) bool {
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
	case errors.As(f.Err, &problem):
		f.Code, f.Hint = fault.Integrity, []string{"rye audit verify"}
		f.Details = map[string]any{"reason": "audit-log", "file": problem.File, "line": problem.Line}
	case errors.As(f.Err, &damaged):
		f.Code, f.Hint = fault.Integrity, []string{"rye audit verify"}
		f.Details = map[string]any{"reason": "audit-log", "path": damaged.Path}
		f.Why = []string{"nothing is written behind what was changed: look at it, keep a copy, and move the directory away"}
	case errors.As(f.Err, &version):
		f.Code, f.Hint = fault.VersionMismatch, []string{"rye version"}
	case errors.As(f.Err, &field):
		f.Code = fault.Validation
	case errors.As(f.Err, &link):
		f.Details = map[string]any{"reason": "receipt-link", "call": link.Child.Call, "receipt": link.Child.Receipt.String()}
		if errors.Is(link.Err, fs.ErrNotExist) {
			f.Code, f.Text = fault.NotFound, "the receipt of the call "+link.Child.Call+" isn't there: "+link.Child.Receipt.String()
			break
		}
		if f.Code = Classify(link.Err).Code; f.Code == fault.Unknown {
			f.Code = fault.Integrity
		}
	case errors.As(f.Err, &unknown):
		f.Code, f.Details = fault.UntrustedKey, map[string]any{"reason": "unknown-machine", "machine": unknown.Machine.String()}
		f.Hint = []string{"rye audit verify RECEIPT --key PUBKEY"}
		if unknown.Err != nil && !errors.As(unknown.Err, &voucher) {
			f.Text = strings.TrimSuffix(f.Text, ": "+unknown.Err.Error()) // that it is another key's, which is said already
		}
	case errors.As(f.Err, &form), errors.As(f.Err, &voucher), errors.As(f.Err, &envelope):
		f.Code = fault.Parsing
	default:
		return false
	}
	return true
}
