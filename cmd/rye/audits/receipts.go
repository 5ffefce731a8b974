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

// receiptLine is what a receipt says, and whether it holds.
type receiptLine struct {
	File     string        `json:"file"`
	Holds    bool          `json:"holds"`
	Code     fault.Code    `json:"code,omitempty"`
	Message  string        `json:"message,omitempty"` // what is wrong
	Digest   string        `json:"digest,omitempty"`  // of the receipt
	Machine  string        `json:"machine,omitempty"` // the fingerprint of who signed
	By       string        `json:"by,omitempty"`      // that of who vouches for it
	Call     *audit.Record `json:"call,omitempty"`
	Children int           `json:"children"` // calls that the call made
	Verified int           `json:"verified"` // receipts, with those of all calls below it
	Complete bool          `json:"complete"` // none is missing
	machine  key.Public
	by       key.Public
}

// verifyReceipts verifies those that are given, whatever is wrong with others.
func (v *auditVerified) verifyReceipts(ctx context.Context, a *cli.App, p session.AuditDirs, c *auditVerifyRun) error {
	dir := p.Receipts
	if c.Receipts != "" {
		if ok, err := osfile.IsDir(c.Receipts); err != nil || !ok {
			return fault.New(fault.Files, "directory %q not found", c.Receipts).Missing().From(err)
		}
		dir = receipt.Dir(c.Receipts)
	}
	var bad []*fault.Error
	for _, file := range c.Receipt {
		b, err := osfile.ReadSmall(file, attest.MaxEnvelope)
		if err != nil {
			return err
		}
		l := receiptLine{File: file}
		err = l.verify(ctx, b, PublicKeys(v.Keys), dir, c.Receipts != "")
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			f := fault.Of(err)
			if f.Code == fault.UntrustedKey {
				f.Hint = []string{"rye audit verify " + fault.Quote(file) + " --key PUBKEY"}
			}
			l.Code, l.Message = f.Line().Code, f.Text
			bad = append(bad, f)
		} else if l.Holds = true; !l.Complete {
			a.Term.Warn(
				"the receipts of calls that %s made are not all here, and were not verified: --receipts DIR says where they are",
				l.Call.ID)
		}
		v.Receipts = append(v.Receipts, l)
	}
	if len(bad) == 0 {
		return nil
	}
	var codes []fault.Code
	var invalid receiptLine
	for _, l := range v.Receipts {
		if !l.Holds {
			codes, invalid = append(codes, l.Code), l
		}
	}
	code := fault.Gravest(codes)
	f := fault.New(code, "%d of %s don't hold", len(bad), fault.Count(int64(len(v.Receipts)), "receipt"))
	if len(bad) == 1 {
		f = fault.New(code, "the receipt %q is invalid: %s", invalid.File, invalid.Message).Because(bad[0].Why...)
	}
	return f.From(bad[0]).On("receipts", v.Receipts).Try(bad[0].Hint...).Asked()
}

// verify verifies one receipt and those below it. A missing one below it is an error only if the user gave the
// directory.
func (l *receiptLine) verify(ctx context.Context, b []byte, keys []key.Public, dir receipt.Dir, all bool) error {
	get := func(d cas.Digest) ([]byte, error) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if dir == "" {
			return nil, fs.ErrNotExist // no place is known
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

func (l *receiptLine) text(t *cli.Terminal, v *auditVerified) {
	if !l.Holds {
		t.Printf("%s  %s  %q: %s\n", t.Stdout.Paint(cli.RoleError, "refused", t.Ascii), string(l.Code), l.File,
			l.Message)
		return
	}
	c, o := &l.Call.Call, l.Call.Outcome
	t.Printf("%s  %q\n", t.Stdout.Paint(cli.RoleGood, "verified", t.Ascii), l.File)
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
			below += ", others are not here"
		}
		rows = append(rows, []string{"  made", below})
	}
	if l.Call.Line > 0 {
		rows = append(rows, []string{"  log", Position(l.Call.Position)})
	}
	rows = append(rows, []string{"  signed by", fmt.Sprintf("machine %s; %s", l.machine.Fingerprint().Short(),
		v.voucher(l.machine, l.by))})
	t.Rows(rows)
}
