package audits

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/cmd/rye/spaces"
	"github.com/rye-build/rye/exec/audit"
	"github.com/rye-build/rye/exec/audit/receipt"
	"github.com/rye-build/rye/exec/audit/record"
	"github.com/rye-build/rye/exec/session"
	"github.com/rye-build/rye/manifest/attest"
	"github.com/rye-build/rye/manifest/key"
)

type auditVerifyRun struct {
	Receipt  []string `arg:"" optional:"" complete:"file" help:"Receipts; default: the log."`
	Seen     []string `placeholder:"POSITION" sep:"none" complete:"file" help:"Position, or file holding one, that the log must contain (repeatable)."`
	Key      []string `placeholder:"PUBKEY" sep:"none" complete:"file" help:"Trust this key (public key, PEM file or name; repeatable)."`
	Receipts string   `placeholder:"DIR" complete:"dir" help:"Directory of nested calls' receipts; default: this machine's."`
}

// auditVerified is the result for the log, or for receipts.
type auditVerified struct {
	Keys     []AuditKeyLine `json:"keys"` // the trusted keys
	Log      *auditReport   `json:"log,omitempty"`
	Receipts []receiptLine  `json:"receipts"`
}

// AuditKeyLine is a key that verification trusts.
type AuditKeyLine struct {
	Key         key.Public `json:"key"`
	Fingerprint string     `json:"fingerprint"`
	Name        string     `json:"name"` // its local name; empty for a public key given as text
}

type auditReport struct {
	Dir  string            `json:"dir"`
	Seen []record.Position `json:"seen"` // positions that the log must contain
	audit.Report
}

// AuditKeys returns the trusted keys: those of args, or without args this user's keys, RYE_KEY and this machine's
// keys.
func AuditKeys(ctx context.Context, app *cli.App, dirs session.AuditDirs, args []string) (lines []AuditKeyLine,
	err error) {
	add := func(public key.Public, name string) {
		for _, l := range lines {
			if l.Key == public {
				return
			}
		}
		if !public.IsZero() {
			lines = append(lines, AuditKeyLine{public, public.Fingerprint().String(), name})
		}
	}
	for _, arg := range args {
		public, err := spaces.SignerKey(ctx, app, arg)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fault.New(fault.NotFound, "invalid --key %q: no such file, and no key of this name",
				arg).From(err).Try("rye key list")
		}
		if err != nil {
			return nil, err
		}
		if arg == public.String() {
			arg = ""
		}
		add(public, arg)
	}
	if len(args) > 0 {
		return lines, nil
	}
	if dir, err := paths.KeysDir(app); err == nil {
		stored, err := dir.List()
		if err != nil {
			return nil, err
		}
		for _, e := range stored {
			add(e.Public, e.Name)
		}
	}
	if app.Env(cli.EnvKey) != "" {
		if public, err := paths.Keys(app).Open(); err == nil {
			add(public.Public(), cli.EnvKey)
		}
	}
	stored, err := key.OpenDir(dirs.Machine).List()
	for _, e := range stored {
		add(e.Public, "this machine")
	}
	return lines, err
}

// PublicKeys returns the keys of lines, the form that audit and receipt take.
func PublicKeys(lines []AuditKeyLine) (keys []key.Public) {
	for _, l := range lines {
		keys = append(keys, l.Key)
	}
	return keys
}

func (c *auditVerifyRun) Run(ctx context.Context, app *cli.App) (cli.Answer, error) {
	if len(c.Receipt) > 0 && len(c.Seen) > 0 {
		return nil, fault.New(fault.Validation,
			"--seen can't be combined with receipts: it verifies the log").
			Try("rye audit verify "+fault.Quote(c.Receipt[0]), "rye audit verify --seen "+fault.Quote(c.Receipt[0]))
	}
	dirs, err := Dirs(app)
	if err != nil && (len(c.Receipt) == 0 || len(c.Key) == 0) {
		return nil, err // a receipt with --key needs no state directory
	}
	ans := &auditVerified{Receipts: []receiptLine{}}
	if ans.Keys, err = AuditKeys(ctx, app, dirs, c.Key); err != nil {
		return nil, err
	}
	if len(c.Receipt) > 0 {
		return ans, ans.verifyReceipts(ctx, app, dirs, c)
	}
	ans.Log = &auditReport{Dir: dirs.Log, Seen: []record.Position{}}
	for _, arg := range c.Seen {
		at, err := seenPosition(app, arg, PublicKeys(ans.Keys))
		if err != nil {
			return nil, err
		}
		ans.Log.Seen = append(ans.Log.Seen, at)
	}
	found, err := audit.Verify(ctx, dirs.Log, PublicKeys(ans.Keys), ans.Log.Seen...)
	if err != nil {
		return nil, err
	}
	ans.Log.Report = *found
	if f, ok := errors.AsType[*fault.Error](damaged(found.Problems)); ok {
		f.Why, f.Hint = append(f.Why,
			"the calls of other lines can still be listed; keep a copy of the directory as it is"),
			[]string{"rye audit list", "rye docs audit"}
		return ans, f
	}
	for _, m := range found.Machines {
		if m.By == m.Key && len(c.Key) == 0 {
			app.Term.Note(
				"machine %s has no voucher from your key, so others can't verify what it signs: rye audit vouch",
				m.Key.Fingerprint().Short())
		}
	}
	switch {
	case found.Head.Line == 0:
		app.Term.Note("no audit log yet")
	case len(ans.Keys) == 0:
		app.Term.Warn("no trusted keys: the log's signature is not verified")
	default:
		app.Term.Note(
			"save this elsewhere; it detects a removed end of the log later: rye audit verify --seen %s",
			Position(found.Head))
	}
	return ans, nil
}

// seenPosition parses an argument of --seen: a position, or a file that contains one, which is a receipt or the
// output of rye audit verify --json. A receipt counts only with a valid signature.
func seenPosition(a *cli.App, arg string, keys []key.Public) (record.Position, error) {
	if at, ok := ParsePosition(arg); ok {
		return at, nil
	}
	text, err := osfile.ReadSmall(arg, attest.MaxEnvelope)
	if errors.Is(err, fs.ErrNotExist) {
		return record.Position{}, fault.New(fault.Validation, "invalid --seen %q: expected a position or a file", arg).
			From(err).Because("a position is FILE/LINE/SUM, as in head/12/blake3:…, with all digits of the sum").
			Try("rye audit verify")
	}
	if err != nil {
		return record.Position{}, err
	}
	var file struct {
		Envelope string `json:"payloadType"`
		Data     struct {
			Log *struct {
				Head record.Position `json:"head"`
			} `json:"log"`
		} `json:"data"`
	}
	if err := json.Unmarshal(text, &file); err != nil {
		return record.Position{}, fault.New(fault.Parsing,
			"%q is neither a receipt nor output of rye audit verify --json", arg).From(err)
	}
	at := record.Position{}
	if file.Data.Log != nil {
		at = file.Data.Log.Head
	}
	if file.Envelope != "" {
		r, err := receipt.Verify(text, keys)
		if err != nil {
			return record.Position{}, fmt.Errorf("%q: %w", arg, err)
		}
		at = r.Log
	}
	if at.Line < 1 {
		return record.Position{}, fault.New(fault.Validation, "%q contains no position in the log", arg)
	}
	return at, nil
}

func (v *auditVerified) Text(term *cli.Terminal) {
	for _, r := range v.Receipts {
		r.text(term, v)
	}
	if v.Log == nil {
		return
	}
	log := v.Log
	if len(log.Problems) > 0 {
		for _, p := range log.Problems {
			term.Printf("%s  %s\n", term.Stdout.Paint(cli.RoleError, "bad", term.Ascii), problemText(p))
		}
		return
	}
	term.Printf("%s  the audit log in %s\n", term.Stdout.Paint(cli.RoleGood, "verified", term.Ascii), log.Dir)
	calls := fault.Count(log.Calls, "call")
	if log.Unfinished > 0 {
		calls += fmt.Sprintf(", %d of them unfinished", log.Unfinished)
	}
	rows := [][]string{{"  calls", calls}, {"  lines",
		fmt.Sprintf("%d in %s", log.Lines, fault.Count(log.Segments, "segment"))}}
	for _, m := range log.Machines {
		rows = append(rows, []string{"  signed by", fmt.Sprintf("machine %s, %s; %s", m.Key.Fingerprint().Short(),
			fault.Count(m.Checkpoints, "checkpoint"), v.voucher(m.Key, m.By))})
	}
	for _, p := range log.Pruned {
		rows = append(rows, []string{"  pruned", fmt.Sprintf("%s with %s before %s, on %s; export %s",
			fault.Count(int64(p.Segments), "segment"), fault.Count(p.Calls, "call"),
			p.Before.Format(time.DateOnly), p.At.Format(time.DateOnly), p.Export)})
	}
	if n := int64(len(log.Seen)) - log.SeenPruned; n > 0 {
		rows = append(rows, []string{"  seen", fault.Count(n, "position") + ", still there"})
	}
	if log.SeenPruned > 0 {
		rows = append(rows, []string{"  seen", fault.Count(log.SeenPruned,
			"position") + " in segments that were pruned: not compared"})
	}
	if log.Tail > 0 {
		rows = append(rows, []string{"  tail", fault.Count(log.Tail,
			"line") + " after the last mark: their removal would not be detected"})
	}
	if log.Torn > 0 {
		rows = append(rows, []string{"  torn", fault.Count(log.Torn,
			"file") + " of a process that died while writing: no damage"})
	}
	if log.Head.Line > 0 {
		rows = append(rows, []string{"  head", Position(log.Head)})
	}
	term.Rows(rows)
}

// voucher describes the key that vouches for a machine, or says that none was checked.
func (v *auditVerified) voucher(machine, by key.Public) string {
	if by.IsZero() {
		return "not checked for a voucher"
	}
	who := ""
	for _, l := range v.Keys {
		if l.Key == by {
			who = l.Name
		}
	}
	if by == machine {
		return cmp.Or(who, "the given key")
	}
	return fmt.Sprintf("%q %s vouches for it", who, by.Fingerprint().Short())
}
