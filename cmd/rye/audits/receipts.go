// Verification of receipts, for rye audit verify RECEIPT.

package audits

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/exec/audit"
	"github.com/rye-build/rye/exec/audit/receipt"
	"github.com/rye-build/rye/exec/session"
	"github.com/rye-build/rye/manifest/attest"
	"github.com/rye-build/rye/manifest/key"
)

// receiptLine is the result for one receipt: its content if it is valid, or what is wrong.
type receiptLine struct {
	File     string        `json:"file"`
	Holds    bool          `json:"holds"`
	Code     fault.Code    `json:"code,omitempty"`
	Message  string        `json:"message,omitempty"` // the error
	Digest   string        `json:"digest,omitempty"`  // of the receipt
	Machine  string        `json:"machine,omitempty"` // fingerprint of the machine that signed it
	By       string        `json:"by,omitempty"`      // fingerprint of the key that vouches for the machine
	Call     *audit.Record `json:"call,omitempty"`
	Children int           `json:"children"` // calls that the call made
	Verified int           `json:"verified"` // valid receipts: this one and all nested ones
	Complete bool          `json:"complete"` // no nested receipt is missing
	machine  key.Public
	by       key.Public
}

// verifyReceipts verifies every given receipt and reports all that are invalid. Its error has the gravest code.
func (v *auditVerified) verifyReceipts(ctx context.Context, app *cli.App, dirs session.AuditDirs,
	run *auditVerifyRun) error {
	dir := dirs.Receipts
	if run.Receipts != "" {
		if ok, err := osfile.IsDir(run.Receipts); err != nil || !ok {
			return fault.New(fault.Files, "directory %q not found", run.Receipts).Missing().From(err)
		}
		dir = receipt.Dir(run.Receipts)
	}
	var bad []*fault.Error
	for _, file := range run.Receipt {
		b, err := osfile.ReadSmall(file, attest.MaxEnvelope)
		if err != nil {
			return err
		}
		line := receiptLine{File: file}
		err = line.verify(ctx, b, PublicKeys(v.Keys), dir, run.Receipts != "")
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			f := fault.Of(err)
			if f.Code == fault.UntrustedKey {
				f.Hint = []string{"rye audit verify " + fault.Quote(file) + " --key PUBKEY"}
			}
			line.Code, line.Message = f.Line().Code, f.Text
			bad = append(bad, f)
		} else if line.Holds = true; !line.Complete {
			app.Term.Warn(
				"some receipts of calls that %s made are missing and not verified: name their directory with --receipts DIR",
				line.Call.ID)
		}
		v.Receipts = append(v.Receipts, line)
	}
	if len(bad) == 0 {
		return nil
	}
	var codes []fault.Code
	var invalid receiptLine
	for _, line := range v.Receipts {
		if !line.Holds {
			codes, invalid = append(codes, line.Code), line
		}
	}
	code := fault.Gravest(codes)
	f := fault.New(code, "%d of %s are invalid", len(bad), fault.Count(int64(len(v.Receipts)), "receipt"))
	if len(bad) == 1 {
		f = fault.New(code, "the receipt %q is invalid: %s", invalid.File, invalid.Message).Because(bad[0].Why...)
	}
	return f.From(bad[0]).On("receipts", v.Receipts).Try(bad[0].Hint...).Asked()
}

// verify verifies a receipt and the nested ones, which it reads from dir. A missing nested receipt is an error only
// with all, which is set if the user named the directory.
func (l *receiptLine) verify(ctx context.Context, b []byte, keys []key.Public, dir receipt.Dir, all bool) error {
	get := func(d cas.Digest) ([]byte, error) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if dir == "" {
			return nil, fs.ErrNotExist // without a state directory there are no receipts
		}
		return dir.Get(d)
	}
	err := receipt.VerifyTree(b, keys, get, func(depth int, r *receipt.Receipt) error {
		l.Verified++
		if depth > 0 {
			return nil
		}
		l.Digest, l.machine, l.by, l.Children = r.Digest.String(), r.Machine, r.By, len(r.Children)
		l.Machine, l.By = r.Machine.Fingerprint().String(), r.By.Fingerprint().String()
		l.Call = &audit.Record{Position: r.Log, ID: r.Call.ID, Begin: r.Begin, Call: r.Call, End: r.End,
			Outcome: &r.Outcome}
		return nil
	})
	if missing, ok := errors.AsType[*receipt.LinkError](err); ok && !all && errors.Is(missing, fs.ErrNotExist) {
		return nil
	}
	l.Complete = err == nil
	return err
}

func (l *receiptLine) text(term *cli.Terminal, verified *auditVerified) {
	if !l.Holds {
		term.Printf("%s  %s  %q: %s\n", term.Stdout.Paint(cli.RoleError, "refused", term.Ascii), string(l.Code),
			l.File,
			l.Message)
		return
	}
	c, o := &l.Call.Call, l.Call.Outcome
	term.Printf("%s  %q\n", term.Stdout.Paint(cli.RoleGood, "verified", term.Ascii), l.File)
	rows := [][]string{
		{"  call", l.Call.ID}, {"  item", c.Ref + "  " + c.Digest.String()},
		{"  status", fmt.Sprintf("%s, began %s, took %s", status(l.Call), timeText(l.Call.Begin),
			tookText(o.Duration))},
	}
	for _, row := range [][]string{{"  params", paths.DigestText(c.Params)}, {"  result", paths.DigestText(o.Result)},
		{"  principal", c.Principal}, {"  sandbox", o.Sandbox}} {
		if row[1] != "" {
			rows = append(rows, row)
		}
	}
	if l.Children > 0 {
		below := fmt.Sprintf("%s; %s verified below it", fault.Count(int64(l.Children), "call"),
			fault.Count(int64(l.Verified-1), "receipt"))
		if !l.Complete {
			below += ", others are missing"
		}
		rows = append(rows, []string{"  made", below})
	}
	if l.Call.Line > 0 {
		rows = append(rows, []string{"  log", Position(l.Call.Position)})
	}
	rows = append(rows, []string{"  signed by", fmt.Sprintf("machine %s; %s", l.machine.Fingerprint().Short(),
		verified.voucher(l.machine, l.by))})
	term.Rows(rows)
}
